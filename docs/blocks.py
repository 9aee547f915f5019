"""Run the code blocks of a page in order, as a reader would type them.

The tests run the README and the tutorials with this; the site is built with it, and shows what
the blocks of the tutorials printed and drew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURES = (".png", ".svg")


@dataclass(frozen=True)
class Ran:
    """What one block did: where it ends in the page, what it printed, the pictures it wrote."""

    end: int
    printed: str
    pictures: list[Path]


def run_blocks(
    text: str, name: str, folder: Path, languages: Sequence[str] = ("python", "sh")
) -> tuple[list[Ran], dict[str, Any]]:
    """Run the blocks in ``folder``, Python ones as one module, whose names are returned too."""
    ran = []
    with module(name) as namespace:
        for block in FENCE.finditer(text):
            if block[1] not in languages:
                continue
            before = set(folder.iterdir())
            if block[1] == "python":
                # Blank lines in front let a traceback point at the page's own line.
                above = "\n" * text.count("\n", 0, block.start(2))
                printed = run_python(above + block[2], name, namespace, folder)
            else:
                printed = run_shell(block[2], folder)
            new = set(folder.iterdir()) - before
            pictures = sorted(path for path in new if path.suffix in PICTURES)
            ran.append(Ran(block.end(), printed, pictures))
    return ran, namespace


@contextlib.contextmanager
def module(name: str) -> Iterator[dict[str, Any]]:
    """Lend a module's namespace; classes defined in it find their module while it lasts."""
    made = types.ModuleType(name)
    sys.modules[name] = made
    try:
        yield vars(made)
    finally:
        del sys.modules[name]


def run_python(code: str, name: str, namespace: dict[str, Any], folder: Path) -> str:
    """Run Python and return what it printed."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        # A name in brackets is no file, next to which Numba would keep machine code.
        exec(compile(code, f"<{name}>", "exec", dont_inherit=True), namespace)
    return printed.getvalue()


def run_shell(code: str, folder: Path) -> str:
    """Run commands of this environment and return what they printed, a failure included."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    settings = {**os.environ, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    command = ["sh", "-e", "-c", code]
    done = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"The commands\n{code}\nended with {done.returncode}: {done.stderr}")
    return done.stdout
