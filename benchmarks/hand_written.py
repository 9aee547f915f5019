"""The second yardstick: Tsallis-INF in hand-written C, compiled when it is first asked for.

`reference.c` is as fast as we could make a loop that looks at every arm in every round.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).with_name("reference.c")
FLAGS = ("-O3", "-ffp-contract=fast", "-fPIC", "-shared")
RATES = {False: 2.0, True: 4.0}
"""Factors of 1 / sqrt(t) in the learning rate, by whether the variance is reduced."""
ABSENT = "No C compiler was found (cc, or what CC names): the loop in C is left out."


def compiler() -> str | None:
    """Return the C compiler, or None if there is none."""
    return shutil.which(os.environ.get("CC") or "cc")


def processor() -> str:
    """Return the processor to compile for: the one that Numba compiles for."""
    named = os.environ.get("NUMBA_CPU_NAME", "host")
    return "native" if named == "host" else named


@functools.cache
def _compiled() -> Any:
    command = compiler()
    if command is None:
        raise FileNotFoundError(ABSENT)
    # A library that is loaded needs its file no longer, except on Windows.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        library = Path(folder) / "reference.so"
        flags = [*FLAGS, f"-march={processor()}"]
        subprocess.run([command, *flags, str(SOURCE), "-o", str(library), "-lm"], check=True)
        play = ctypes.CDLL(str(library)).play
    number, real = ctypes.c_int, ctypes.c_double
    play.argtypes = [
        number, number, number, ctypes.c_long, real, real, ctypes.c_uint64, ctypes.c_void_p,
    ]  # fmt: skip
    play.restype = real
    return play


def play(
    n_arms: int,
    horizon: int,
    gap: float,
    reduced_variance: bool,
    seed: int,
    runs: int,
    rate: float | None = None,
) -> NDArray[np.float64]:
    """Play against Bernoulli losses and return the pseudo-regret of every run."""
    regret = np.empty(runs)
    passes = _compiled()(
        n_arms, reduced_variance, runs, horizon, gap,
        RATES[reduced_variance] if rate is None else rate, seed, regret.ctypes.data,
    )  # fmt: skip
    if passes < 0:
        raise MemoryError(f"{runs} runs with {n_arms} arms do not fit into memory")
    return regret
