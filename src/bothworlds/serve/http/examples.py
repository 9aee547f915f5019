"""Examples of requests and answers, built from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VALUES: dict[str, Any] = {
    "after": "headline", "arm": "green", "bounds": [0, 1], "config_version": 1, "context":
    {"targetingKey": "ann"}, "count": 2, "created_at": 1795446849.2, "decision": "DECISION_ID",
    "decision_id": "AQEAAAAAAAEAAwABAAAAAAGh5Ow63nNQ...", "detail": "...",
    "description": "The headline of the front page", "experiment": "headline",
    "expires_at": 1796051649.2, "feedback_window": 604800, "id": "b3f1c2d4", "ids": ["b3f1c2d4"],
    "key": "bw_b3f1c2d4_...", "label": "shop", "limit": 50, "mode": "learn", "name": "headline",
    "policy": "tsallis", "probability": 0.4127, "reason": "SPLIT", "request_id": "5f0c2a91-1",
    "reward": 1, "round": 17, "scopes": ["decide", "feedback"], "seconds": 600,
    "status": "learned", "token": "bt_...", "unit": "ann", "value": "green", "variant": "green",
}  # fmt: skip
"""Examples of fields and path parameters, by their name."""
OWN = {
    "Evaluated": {"key": "headline"}, "NewArm": {"name": "yellow"}, "SegmentState": {"name": "de"},
}  # fmt: skip
"""Examples of fields that mean something else in one class, by the title of its schema."""
ARMS = ["blue", "green", "red"]


def example(schema: Mapping[str, Any], known: Mapping[str, Any], name: str = "") -> Any:
    """Return a value that a schema accepts: an object with the fields it requires.

    Parameters
    ----------
    schema : mapping
        The schema.
    known : mapping
        Schemas by name, to which others refer.
    name : str
        The field that the value is of.

    Examples
    --------
    >>> example({"type": "object", "properties": {"arm": {"type": "string"}}, "required": ["arm"]},
    ...         {})
    {'arm': 'green'}
    """
    if "$ref" in schema:
        return example(known[schema["$ref"].rsplit("/", 1)[1]], known, name)
    if name == "arms":
        return _arms(schema, known)
    if schema.get("type") == "object" and schema.get("properties"):
        required = list(schema.get("required", ()))
        # Of fields that exclude each other, one is needed.
        required += [key for each in schema.get("oneOf", ())[-1:] for key in each["required"]]
        if not required and "feedback_window" in schema["properties"]:
            # A change of settings needs none in particular; an example without any shows nothing.
            required = ["feedback_window"]
        found = {key: example(schema["properties"][key], known, key) for key in required}
        return found | OWN.get(schema.get("title", ""), {})
    if "anyOf" in schema:
        return example(schema["anyOf"][0], known, name)
    if "enum" in schema:
        return VALUES[name] if VALUES.get(name) in schema["enum"] else schema["enum"][0]
    if schema.get("type") == "array":
        given = VALUES.get(name)
        return given if isinstance(given, list) else [example(schema.get("items", {}), known)]
    if name in VALUES:
        return VALUES[name]
    plain = {"integer": 1, "number": 0.25, "boolean": True, "string": "...", "object": {}}
    return plain.get(schema.get("type", ""))


def _arms(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    """Return a list of arms: names in a request, whole arms in an answer."""
    items = schema.get("items", {})
    if "anyOf" in items or items.get("type") == "string":
        return ARMS
    return [{**example(items, known), "name": arm} for arm in ARMS[:1]]


def filled(path: str) -> str:
    """Return a path with examples in place of its parameters.

    Examples
    --------
    >>> filled("/v1/experiments/{experiment}/arms/{arm}")
    '/v1/experiments/headline/arms/green'
    """
    for name in ("experiment", "decision", "arm"):
        path = path.replace(f"{{{name}}}", VALUES[name])
    return path.replace("{key}", VALUES["id"])
