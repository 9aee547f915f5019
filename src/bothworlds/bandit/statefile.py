"""Saved state: versioned JSON with a checksum, written all at once or not at all.

A document looks like ``{"format": ..., "version": ..., "checksum": ..., "content": {...}}``.  The
checksum covers the content, so a damaged copy is refused before anything is made of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Any

from bothworlds.errors import InvalidParameter, StateFileError, must
from bothworlds.files import replacing

Path = str | os.PathLike[str]


def write(path: Path, format: str, version: int, content: dict[str, Any]) -> None:
    """Replace the file at ``path`` by the document; a crash leaves the old file or the new one."""
    document = {
        "format": format,
        "version": version,
        "checksum": _checksum(content),
        "content": content,
    }
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def read(path: Path, format: str, version: int) -> dict[str, Any]:
    """Return the content of the document at ``path``, or refuse it with a `StateFileError`."""
    owner = _owner(path)
    try:
        document = json.loads(pathlib.Path(path).read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise StateFileError(f"The {owner} must be complete JSON, got {error}.") from error
    found = document.get("format") if isinstance(document, dict) else None
    if found != format:
        raise StateFileError(must("format", owner, repr(format), found))
    number = document.get("version")
    if type(number) is not int or not 1 <= number <= version:
        raise StateFileError(must("version", owner, f"a whole number in [1, {version}]", number))
    content = document.get("content")
    if not isinstance(content, dict) or _checksum(content) != document.get("checksum"):
        raise damaged(path, "other content than was saved")
    return content


def damaged(path: Path, found: object) -> StateFileError:
    """Return the error for a document whose content makes no sense."""
    return StateFileError(f"The {_owner(path)} must be as it was saved, got {found}.")


def _owner(path: Path) -> str:
    return f"state file {os.fspath(path)!r}"


def _checksum(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def describe(value: Any, owner: str) -> Any:
    """Return a configuration (a dataclass of numbers, strings and such dataclasses) as JSON.

    Examples
    --------
    >>> from bothworlds.omd.learning_rates import InverseSqrt
    >>> describe(InverseSqrt(2.0), "Bandit.save")
    {'class': 'InverseSqrt', 'fields': {'scale': 2.0}}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [describe(item, owner) for item in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        expected = "a dataclass of numbers, strings and such dataclasses"
        raise InvalidParameter(must("policy", owner, expected, value))
    fields = {
        field.name: describe(getattr(value, field.name), owner)
        for field in dataclasses.fields(value)
        if field.init
    }
    return {"class": type(value).__name__, "fields": fields}


def recreate(description: Any, classes: dict[str, type]) -> Any:
    """Return the configuration that `describe` described, made of the given classes only."""
    if isinstance(description, list):
        return [recreate(item, classes) for item in description]
    if not isinstance(description, dict):
        return description
    fields = {name: recreate(item, classes) for name, item in description["fields"].items()}
    return classes[description["class"]](**fields)
