"""Parsing of requests: bodies and queries as classes of the wire format, or a refusal."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import UNSET

from bothworlds.serve.domain.answers import Feedback
from bothworlds.serve.domain.rules import explained
from bothworlds.serve.http import wire
from bothworlds.serve.problems import Problem


class BodyReader:
    """Decode the JSON of one kind of request.

    Parameters
    ----------
    kind : type
        A `wire.Body`.

    Examples
    --------
    >>> BodyReader(wire.DecideMany).read(b'{"count": 3}').count
    3
    >>> BodyReader(wire.DecideMany).read(b'{"count": 0}')
    Traceback (most recent call last):
    ...
    bothworlds.serve.problems.Problem: The body must fit DecideMany: Expected `int` >= 1 - at ...
    """

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, body: bytes) -> Any:
        """Return the request in a body."""
        try:
            found = self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise Problem(
                "invalid_request", f"The body must fit {self.kind.__name__}: {explained(error)}."
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Problem("invalid_json", f"The body must be JSON: {error}.") from None
        except RecursionError:
            raise Problem("invalid_json", "The body must not nest so deeply.") from None
        if body.count(b":") > _fewest_names(found):
            _check_names(body)
        if isinstance(found, wire.Evaluate) and found.context is not None:
            found.context.__dict__["sent"] = msgspec.json.decode(body)["context"]
        if isinstance(found, Feedback):
            one_of_two(found)
        elif isinstance(found, wire.FeedbackMany):
            for place, item in enumerate(found.items):
                one_of_two(item, f" in item {place}")
        return found


def _fewest_names(found: Any) -> int:
    """Return how many names the JSON of a request has at least, repeated ones counted once.

    Every name has a colon: with as many colons, no name is there twice.
    """
    if not isinstance(found, wire.Circumstances) or found.advice is None:
        return 1
    rows = (len(row) for row in found.advice.values() if type(row) is dict)
    return 1 + len(found.advice) + sum(rows) + isinstance(found, wire.DecideMany)


def _check_names(body: bytes) -> None:
    """Refuse JSON in which an object has a name twice: readers differ in which of them counts."""
    if b"\\" not in body:
        # Every second piece is a text, and a name if a colon follows.
        pieces = body.split(b'"')
        pairs = zip(pieces[1::2], pieces[2::2], strict=False)
        names = [text for text, after in pairs if after.lstrip()[:1] == b":"]
        if len(set(names)) == len(names):
            return

    def distinct(pairs: list[tuple[str, Any]]) -> None:
        if len({name for name, _ in pairs}) < len(pairs):
            raise Problem("invalid_json", "An object in the body must not have a name twice.")

    try:
        json.loads(body, object_pairs_hook=distinct)
    except RecursionError:
        raise Problem("invalid_json", "The body must not nest so deeply.") from None


def one_of_two(told: Feedback, where: str = "") -> None:
    """Refuse a feedback without a number, or with two."""
    if (told.loss is UNSET) == (told.reward is UNSET):
        raise Problem("invalid_request", f"Exactly one of loss and reward must be given{where}.")


def query(kind: type[Any], given: list[tuple[str, str]]) -> Any:
    """Return the parameters of a query.

    Examples
    --------
    >>> query(wire.DecideQuery, [("vector", "1")]).vector
    True
    >>> query(wire.DecideQuery, [("vektor", "1")])
    Traceback (most recent call last):
    ...
    bothworlds.serve.problems.Problem: The query must fit DecideQuery: Object contains unknown ...
    """
    lists = [field.name for field in msgspec.structs.fields(kind) if field.default_factory is list]
    found: dict[str, Any] = {}
    for name, value in given:
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Problem("invalid_request", "A parameter of the query must not be given twice.")
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        detail = f"The query must fit {kind.__name__}: {explained(error)}."
        raise Problem("invalid_request", detail) from None


def given(settings: Any) -> dict[str, Any]:
    """Return the fields of a request that were given, by name.

    Examples
    --------
    >>> given(wire.Change(floor=0.1))
    {'floor': 0.1}
    """
    found = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return {name: value for name, value in found.items() if value is not UNSET}
