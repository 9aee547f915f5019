"""Constraints of the lowest versions that ``pyproject.toml`` states, one line per package.

``make check-minimums`` installs the package under them. A package that is stated twice must have
one floor, or the lower one would be a claim that nobody tests.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

STATED = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)$")
EXTRAS = ("lab", "cluster", "interop", "dev")
"""The extras that the tests need; the others hold no code of the package up."""


def floors(project: dict[str, object]) -> dict[str, str]:
    """Return the lowest stated version of every dependency and of those of the extras."""
    optional = project["optional-dependencies"]
    assert isinstance(optional, dict)
    stated = [*project["dependencies"], *(line for extra in EXTRAS for line in optional[extra])]  # type: ignore[misc]
    found: dict[str, str] = {}
    for line in stated:
        if line.startswith(f"{project['name']}["):
            continue
        match = STATED.match(line)
        if match is None:
            sys.exit(f"The requirement {line!r} must state its lowest version as name>=version.")
        name, version = match.groups()
        if found.setdefault(name, version) != version:
            sys.exit(f"The package {name} must have one floor, got {found[name]} and {version}.")
    return found


def main() -> None:
    """Print the constraints."""
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    for name, version in sorted(floors(tomllib.loads(text)["project"]).items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
