"""Digests of this package's own sources, by room: the keys of every cache.

A digest covers the code of all files of its rooms and no words about it: an edited docstring or
comment changes nothing, an edited, added, renamed or removed file does.  Reading a file costs a
millisecond or more, so what was found is remembered, under the time and size of the file: in the
folder that NUMBA_CACHE_DIR names, next to the byte code, or in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re

PACKAGE = pathlib.Path(__file__).resolve().parent

SIMULATED = ("lanes", "omd", "policies", "environments", "engine")
"""Rooms whose compiled code plays, or that choose which is run."""

KERNELS = (
    *SIMULATED, "evidence", "bandit/standing.py", "serve/domain/advised.py",
    "serve/domain/draws.py", "serve/domain/sums.py", "theory/exact.py",
)  # fmt: skip
"""Rooms and files that hold compiled code."""

NUMBERS = (*SIMULATED, "seeding.py", "seed_sequence.py")
"""Rooms and files on which the numbers of a run depend."""

JUDGING = (
    "experiments", "theory", "plotting", "plotting/bothworlds.mplstyle", "registry.py", "text.py",
)  # fmt: skip
"""Rooms and files that judge and draw simulations."""


@functools.cache
def digest(*rooms: str) -> bytes:
    """Return a digest of the code in these rooms; a room may also be one file.

    Examples
    --------
    >>> digest(*KERNELS) == digest(*KERNELS), digest("omd") == digest("policies")
    (True, False)
    """
    found = hashlib.sha256()
    known = _remembered()
    seen = dict(known)
    for path in files(*rooms):
        name = path.relative_to(PACKAGE).as_posix()
        about = path.stat()
        mark = [about.st_mtime_ns, about.st_size]
        if name not in seen or seen[name][:2] != mark:
            seen[name] = [*mark, code_digest(path.read_bytes())]
        found.update(f"{name}\n{seen[name][2]}\n".encode())
    if seen != known:
        _remember(seen)
    return found.digest()


def files(*rooms: str) -> list[pathlib.Path]:
    """Return the source files of these rooms, in the order of their names."""
    found: list[pathlib.Path] = []
    for room in rooms:
        path = PACKAGE / room
        found += [path] if path.suffix else path.rglob("*.py")
    return sorted(found)


def code_digest(source: bytes) -> str:
    r"""Return a digest of a source's behaviour, regardless of its comments and docstrings.

    Comments, blank lines and strings that are statements of their own are left out.  Python's own
    compiler would take ten times as long, a quarter of a second for the whole package.

    Examples
    --------
    >>> code_digest(b"x = 1  # one") == code_digest(b"'About x.'\nx = 1")
    True
    >>> code_digest(b"x = 1") == code_digest(b"x = 2")
    False
    """
    lines, strings = code_of(source)
    return hashlib.sha256(repr((lines, strings)).encode()).hexdigest()


def code_of(source: bytes) -> tuple[list[bytes], list[bytes]]:
    r"""Return the lines of a source that do something, and the strings in them.

    Examples
    --------
    >>> code_of(b"'About x.'\nx = f('one', 2)  # why")
    ([b"x = f('', 2)"], [b"'one'"])
    """
    code: list[bytes] = []
    strings: list[bytes] = []
    depth = at = 0
    for word in _WORD.finditer(source):
        before = source[at : word.start()]
        depth += sum(map(before.count, _OPENING)) - sum(map(before.count, _CLOSING))
        rest, newline, indent = before.rpartition(b"\n")
        alone = indent.strip() in (b"", b"r")
        starts = alone and (newline or at == 0) and not rest.endswith(b"\\")
        code.append(before)
        at = word.end()
        comment = word.group().startswith(b"#")
        if not comment and not (starts and depth == 0 and _END.match(source, at)):
            strings.append(word.group())
            code.append(b"''")
    code.append(source[at:])
    return [line.rstrip() for line in b"".join(code).split(b"\n") if line.strip()], strings


_WORD = re.compile(
    rb"#[^\n]*"
    rb'|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    rb"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    rb'|"[^"\\]*(?:\\.[^"\\]*)*"'
    rb"|'[^'\\]*(?:\\.[^'\\]*)*'",
    re.DOTALL,
)
"""A comment, or a string without its prefix."""
_END = re.compile(rb"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_OPENING, _CLOSING = (b"(", b"[", b"{"), (b")", b"]", b"}")


def _memories() -> list[pathlib.Path]:
    """Return the files that may hold earlier findings, the best place first."""
    found = [PACKAGE / "__pycache__" / "sources.3.json"]
    where = hashlib.sha256(os.fsencode(PACKAGE)).hexdigest()[:16]
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        found.insert(0, pathlib.Path(named) / f"bothworlds.sources.{where}.3.json")
    with contextlib.suppress(RuntimeError):  # no home at all
        home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        found.append(pathlib.Path(home) / "bothworlds" / f"sources.{where}.3.json")
    return found


def _remembered() -> dict[str, list[int | str]]:
    """Return the earlier findings; nothing where they cannot be read."""
    for memory in _memories():
        with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
            found: dict[str, list[int | str]] = json.loads(memory.read_bytes())
            if all(len(entry) == 3 and type(entry[2]) is str for entry in found.values()):
                return found
    return {}


def _remember(found: dict[str, list[int | str]]) -> None:
    """Keep the findings in the first place that can be written, if there is one."""
    for memory in _memories():
        draft = memory.with_suffix(f".{os.getpid()}.part")
        try:
            memory.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(found))
            draft.replace(memory)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        else:
            return
