"""Record of the last measurement, ``benchmarks/results.json``, and the comparison with it.

The file is tracked, so a change of speed is a line in a difference. Ratios say something only if
the machine is of the same kind; the comparison says when it is not.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from bothworlds.campaign import shard_file
from bothworlds.lanes import native

FILE = Path(__file__).with_name("results.json")
Figures = dict[str, tuple[float, str]]
"""Value and unit by name."""


def vectors() -> str:
    """Return the vector instructions that Numba compiles for."""
    small = "NEON" if platform.machine() in ("arm64", "aarch64") else "SSE"
    return {16: "AVX-512", 8: "AVX2", 4: small}[native.lanes()]


def processor() -> str:
    """Return the processor and its vector instructions, which every figure is printed with."""
    return f"{shard_file.processor()}, {vectors()}, vectors of {native.lanes()} repetitions"


def machine() -> dict[str, Any]:
    """Return the kind of machine: what matters for speed, and nothing that names it."""
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "vectors": vectors(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def record(figures: Figures) -> dict[str, Any]:
    """Return the content of the file for figures measured now."""
    versions = {name: metadata.version(name) for name in ("numba", "numpy")}
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {"bothworlds": package_version(), **versions},
        "figures": [
            {"name": name, "unit": unit, "value": float(f"{value:.4g}")}
            for name, (value, unit) in sorted(figures.items())
        ],
    }


def package_version() -> str:
    """Return the version of the package as its sources say."""
    import bothworlds

    return bothworlds.__version__


def save(figures: Figures, file: Path = FILE) -> None:
    """Write figures to the file; those of names that were not measured now stay."""
    kept = {} if not file.exists() else read(file)
    text = json.dumps(record({**kept, **figures}), indent=2)
    file.write_text(text + "\n", encoding="utf-8")


def read(file: Path = FILE) -> Figures:
    """Return the figures of the file."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return {each["name"]: (each["value"], each["unit"]) for each in content["figures"]}


def compared(figures: Figures, file: Path = FILE) -> list[str]:
    """Return one line for every figure: its value, the last one and their ratio."""
    last = read(file) if file.exists() else {}
    lines = []
    for name, (value, unit) in sorted(figures.items()):
        line = f"  {name:24s} {value:10.2f} {unit}"
        if name in last and last[name][1] == unit:
            line += f" {last[name][0]:10.2f} {value / last[name][0]:7.3f}"
        else:
            line += f" {'new':>10}"
        lines.append(line)
    if last and json.loads(file.read_text(encoding="utf-8"))["machine"] != machine():
        lines.append("  The last figures are those of a machine of another kind.")
    return lines
