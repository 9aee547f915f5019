"""Routes of the decision service: dispatch, the OpenAPI document and the docs follow from them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from bothworlds.serve.http import wire

Handler = Callable[[Any, Any], Coroutine[Any, Any, Any]]
H = TypeVar("H", bound=Handler)

BODY = 65_536
"""Bytes of a body."""
BATCH_BODY = 2**20
"""Bytes of the body of a batch, or of a new experiment."""
ALWAYS = (
    "foreign_origin", "not_found", "method_not_allowed", "rate_limited", "headers_too_large",
    "internal",
)  # fmt: skip
"""Refusals that any path can answer with."""
WITH_A_KEY = (
    "invalid_request", "key_missing", "key_invalid", "token_expired", "scope_missing",
    "shutting_down",
)  # fmt: skip
WITH_A_BODY = ("invalid_json", "invalid_request", "unsupported_media_type")
LIMITS_OF_A_BODY = ("body_timeout", "body_too_large")
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose body is read, also where the operation takes none."""


@dataclass(frozen=True)
class Route:
    """One method of one path.

    Parameters
    ----------
    method, path : str
        ``{name}`` in a path stands for one segment.
    operation : str
        Its name: what handles it, and what metrics and documents call it.
    summary : str
        What it does.
    scope : str or None
        The scope that a key must have; None where no key is required.
    handler : coroutine function, optional
        Answers a request; called with a `HandlerContext` and a `Request`.
    body, query, answer : type, optional
        What it takes and gives, of `wire`.
    optional : bool
        Whether the body may be empty.
    statuses : tuple of int
        Of success.
    problems : tuple of str
        Codes of its own refusals.
    headers : tuple of str
        Request headers it reads.
    limit : int
        Bytes of a body.
    media : tuple of str
        Types of the answer, where it is not JSON.
    refusal : type
        What a refusal looks like, of `wire`.
    browsers : bool
        Whether pages of the origins in ``--cors-origin`` may call it.
    """

    method: str
    path: str
    operation: str
    summary: str
    scope: str | None
    handler: Handler | None = None
    body: type[Any] | None = None
    query: type[Any] | None = None
    answer: type[Any] | None = None
    optional: bool = False
    statuses: tuple[int, ...] = (200,)
    problems: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    limit: int = BODY
    media: tuple[str, ...] = ()
    refusal: type[Any] = wire.ProblemDocument
    browsers: bool = False

    @property
    def all_problems(self) -> tuple[str, ...]:
        """Every code it can answer with."""
        codes = [*self.problems, *ALWAYS]
        if self.scope is not None:
            codes += WITH_A_KEY
        if self.method in WITH_BODY:
            codes += LIMITS_OF_A_BODY
        if self.body is not None:
            codes += WITH_A_BODY
        return tuple(dict.fromkeys(codes))


class Routes:
    """Collect routes: as a decorator it makes a `Route` of a handler.

    Examples
    --------
    >>> route = Routes()
    >>> @route("GET", "/ping", "Answer", None)
    ... async def ping(app, request): ...
    >>> route.made[0].operation
    'ping'
    """

    def __init__(self) -> None:
        self.made: list[Route] = []

    def __call__(
        self,
        method: str,
        path: str,
        summary: str,
        scope: str | None,
        *,
        operation: str | None = None,
        **settings: Any,
    ) -> Callable[[H], H]:
        """Return the decorator of a handler; the operation has its name by default."""

        def decorate(handler: H) -> H:
            name = operation or handler.__name__
            self.made.append(Route(method, path, name, summary, scope, handler, **settings))
            return handler

        return decorate


class Router:
    """Find the route of a method and a path.

    Examples
    --------
    >>> router = Router([Route("GET", "/v1/experiments/{name}", "experiment", "Read", "read")])
    >>> route, given = router.find("GET", "/v1/experiments/head%2Fline")
    >>> route.operation, given
    ('experiment', ['head/line'])
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        # By segment; the key _NAMED leads to what stands for any segment, _METHODS to the routes.
        self._root: dict[Any, Any] = {}
        for route in routes:
            node = self._root
            for segment in route.path.split("/")[1:]:
                node = node.setdefault(_NAMED if segment.startswith("{") else segment, {})
            node.setdefault(_METHODS, {})[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route | tuple[str, ...] | None, list[str]]:
        """Return the route and the values of its names.

        In place of a route the methods that the path takes are returned if it does not take this
        one, and None if there is no such path.
        """
        node = self._root
        given: list[str] = []
        for segment in path.split("/")[1:]:
            child = node.get(segment)
            if child is None:
                child = node.get(_NAMED) if segment else None
                if child is None:
                    return None, given
                given.append(unquote(segment))
            node = child
        methods = node.get(_METHODS)
        if methods is None:
            return None, given
        route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
        return route or tuple(sorted(methods)), given


_NAMED, _METHODS = 0, 1
