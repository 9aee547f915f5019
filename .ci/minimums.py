"""Constraints of the lowest versions that ``pyproject.toml`` states, one line per package.

``make check-minimums`` installs the package under them. A package that is stated twice must have
one floor, or the lower one would be a claim that nobody tests.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATED = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)(?:; .*)?$")
EXTRA = "dev"
"""The extra that the tests need, with those it contains; the others hold up no code of ours."""


def stated(project: dict[str, Any], lines: list[str]) -> Iterator[str]:
    """Yield the requirements among ``lines``, and those of the project's extras they name."""
    for line in lines:
        own = re.fullmatch(rf"{project['name']}\[([\w,-]+)\](?:; .*)?", line)
        for extra in own[1].split(",") if own else ():
            yield from stated(project, project["optional-dependencies"][extra])
        if own is None:
            yield line


def floors(project: dict[str, Any]) -> dict[str, str]:
    """Return the lowest stated version of every dependency and of those of the extras."""
    found: dict[str, str] = {}
    for line in stated(project, [*project["dependencies"], f"{project['name']}[{EXTRA}]"]):
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
