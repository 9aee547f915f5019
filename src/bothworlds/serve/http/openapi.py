"""OpenAPI 3.1 document of the decision service, built from its routes and wire format."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import msgspec

from bothworlds import __version__
from bothworlds.serve.domain.rules import REQUEST_KEY
from bothworlds.serve.http import wire
from bothworlds.serve.http.routes import Route
from bothworlds.serve.problems import KINDS

_REF = "#/components/schemas/{name}"
_ONE_NUMBER = [{"required": ["loss"]}, {"required": ["reward"]}]
_HEADERS: dict[str, dict[str, Any]] = {
    "Idempotency-Key": {
        "description": "The same key and body give the same decision again.",
        "schema": {"type": "string", "pattern": REQUEST_KEY},
    },
    "If-Match": {
        "description": "The ETag, or the config_version in quotes, that the change is based on.",
        "required": True,
        "schema": {"type": "string"},
    },
    "If-None-Match": {
        "description": "An ETag; 304 if nothing has changed since.",
        "schema": {"type": "string"},
    },
    "X-API-Key": {
        "description": "A key, as an alternative to Authorization.",
        "schema": {"type": "string"},
    },
    "Last-Event-ID": {
        "description": "The id of the last event received, to continue from.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    },
}
_PATH: dict[str, str] = {
    "experiment": "The name of an experiment.",
    "decision": "The decision_id of a decision.",
    "arm": "The name of an arm.",
    "key": "The id of a key.",
}
_DONE = {
    200: "Done.", 201: "Created.", 204: "No content.", 304: "Not modified.",
}  # fmt: skip


@cache
def document(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Return the OpenAPI document.

    Examples
    --------
    >>> from bothworlds.serve.http.app import ROUTES
    >>> sorted(document(ROUTES)["paths"]["/v1/experiments"])
    ['get', 'post']
    """
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "bothworlds",
            "summary": "Decisions with exact probabilities, learned from late feedback.",
            "version": __version__,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas(routes),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


@cache
def schemas(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Return the JSON schema of every request and answer, by name."""
    kinds = {wire.ProblemDocument}
    for route in routes:
        kinds |= {kind for kind in (route.body, route.answer, route.refusal) if kind is not None}
    found = _schemas_of(*sorted(kinds, key=lambda kind: kind.__name__))
    # msgspec cannot express that exactly one of two fields is required.
    for name in ("Feedback", "FeedbackItem"):
        found[name]["oneOf"] = _ONE_NUMBER
    # Defaults are in the descriptions, in words.
    for each in found["NewExperiment"]["properties"].values():
        each.pop("default", None)
    # Nor can it tell two classes of a list apart without a tag.
    found["EvaluatedAll"]["properties"]["flags"]["items"] = {
        "anyOf": [_reference(wire.Evaluated), _reference(wire.NotEvaluated)]
    }
    found["ProblemDocument"]["properties"]["code"]["enum"] = list(KINDS)
    return dict(sorted(found.items()))


def _schemas_of(*kinds: type[Any]) -> dict[str, Any]:
    """Return the JSON schemas of classes, with descriptions from their docstrings."""
    _, found = msgspec.json.schema_components(kinds, ref_template=_REF)
    known = {**vars(wire), **{kind.__name__: kind for kind in kinds}}
    for name, schema in found.items():
        if "description" in schema:
            # Newer versions of Python remove the indentation of docstrings themselves.
            text = inspect.cleandoc(schema["description"])
            schema["description"] = text.partition("\n\nParameters\n")[0]
        described = wire.descriptions(known[name])
        for field in msgspec.structs.fields(known[name]):
            if field.name in described:
                schema["properties"][field.encode_name]["description"] = described[field.name]
    return found


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": f"{route.summary}.",
        "responses": _responses(route),
    }
    parameters = [*_in_path(route), *_in_query(route)]
    parameters += [{"name": name, "in": "header", **_HEADERS[name]} for name in route.headers]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.optional,
            "content": {"application/json": {"schema": _reference(route.body)}},
        }
    if route.scope is not None:
        operation["security"] = [{"key": []}, {}]
        operation["description"] = f"Scope of the key: {route.scope}."
    return operation


def _in_path(route: Route) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH[name],
            "schema": {"type": "string", "minLength": 1},
        }
        for name in names
    ]


def _in_query(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = _schemas_of(route.query)[route.query.__name__]
    found = []
    for name, each in schema["properties"].items():
        # A parameter that is not given is absent, never null.
        kinds = [kind for kind in each.pop("anyOf", []) if kind != {"type": "null"}]
        shown = {**each, **(kinds[0] if kinds else {})}
        if shown.get("default", 0) is None:
            del shown["default"]
        about = shown.pop("description", "")
        found.append({"name": name, "in": "query", "description": about, "schema": shown})
    if route.operation == "export":
        found[0]["schema"]["enum"] = ["jsonl", "csv", "vw", "parquet"]
    return found


def _responses(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in route.statuses:
        found[str(status)] = {"description": _DONE[status]}
        if status in (204, 304):
            continue
        if route.media:
            content: dict[str, Any] = {kind: {} for kind in route.media}
        elif route.answer is not None:
            content = {"application/json": {"schema": _reference(route.answer)}}
        else:
            content = {"application/json": {}}
        found[str(status)]["content"] = content
    refused: dict[int, list[str]] = {}
    for code in route.all_problems:
        refused.setdefault(KINDS[code].status, []).append(code)
    media = (
        "application/problem+json" if route.refusal is wire.ProblemDocument else "application/json"
    )
    for status, codes in sorted(refused.items()):
        found[str(status)] = {
            "description": "; ".join(f"`{code}`: {KINDS[code].title}" for code in codes) + ".",
            "content": {media: {"schema": _reference(route.refusal)}},
        }
    return found


def _reference(kind: type[Any]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}
