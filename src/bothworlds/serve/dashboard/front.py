"""Front of the dashboard: its addresses, access rights, live and static pages.

The pages stand next to the wire API in one application. They ask for the same keys: a user logs in
with a key, and what the key may do is what the pages offer.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote

from bothworlds.markup import Markup
from bothworlds.serve.dashboard import api_page, experiment, overview
from bothworlds.serve.dashboard.forms import LIMIT, Fields, act, fields_of, said_of
from bothworlds.serve.dashboard.frame import Viewer, digest, failure, login
from bothworlds.serve.dashboard.overview import Listed
from bothworlds.serve.dashboard.reading import Watching
from bothworlds.serve.dashboard.segments import SEGMENTS
from bothworlds.serve.dashboard.sessions import Session, Sessions
from bothworlds.serve.dashboard.shown import Shown
from bothworlds.serve.dashboard.words import address
from bothworlds.serve.domain.service import Service
from bothworlds.serve.http import handlers, parsing, wire
from bothworlds.serve.http.messages import HandlerContext, Header, Reply, Request, Stream
from bothworlds.serve.http.origins import Headers, on_this_machine, refuse_pages
from bothworlds.serve.http.routes import Route, Router, Routes
from bothworlds.serve.problems import KINDS, Problem

if TYPE_CHECKING:
    from bothworlds.serve.domain.answers import Principal

T = TypeVar("T")

HTML = b"text/html; charset=utf-8"
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; frame-ancestors 'none'; "
    b"base-uri 'none'; form-action 'self'"
)
GUARDS: list[Header] = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    # Not stricter: without a referrer a browser sends its forms without an origin.
    (b"referrer-policy", b"same-origin"),
]
MOST_VIEWERS = 50
"""Live pages that one key may have open."""
PATIENCE = 0.25
"""Seconds that a page waits for a computation."""
PAUSE = 1.0
"""Seconds between two updates of a live page."""
HEARTBEAT = 15.0
EXPERIMENTS = 100
"""How many experiments a page of the overview shows."""
_HOST = re.compile(r"[A-Za-z0-9.\-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_ONE = "/experiments/{experiment}"
route = Routes()
"""Makes a route of each page below. None of them is part of the wire API."""
_TYPES = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}


@dataclass
class Visit:
    """A request of a browser.

    Parameters
    ----------
    asked : Request
        The request.
    query : dict of str to str
        What stands behind ? in its address.
    session : Session or None
        The viewer; None without a login.
    fields : dict of str to str
        Of the form that was sent.
    """

    asked: Request
    query: dict[str, str]
    session: Session | None
    fields: Fields

    @property
    def headers(self) -> Headers:
        """The headers of the request."""
        return self.asked.headers

    @property
    def name(self) -> str:
        """The experiment."""
        return self.asked.given[0]

    @property
    def who(self) -> Principal:
        """The viewer, where known."""
        return self.asked.who


Making = Callable[["Visit"], Coroutine[Any, Any, tuple[dict[str, str], int]]]
"""Makes the parts of a page by name, and returns the last checkpoint of its chart."""
Rendered = tuple[dict[str, str], dict[str, str], int]
"""Parts of a page, their digests, and the last checkpoint of its chart."""


class Dashboard:
    """Answer the addresses of the dashboard.

    Parameters
    ----------
    app : HandlerContext
        The app of the service that is displayed.
    keys : bool
        Whether users must log in with a key.

    Attributes
    ----------
    operations, logged : frozenset of str
        Names of its operations, and of those that are always logged.
    """

    def __init__(self, app: HandlerContext, *, keys: bool) -> None:
        self._app = app
        self._keys = keys
        self._router = Router(route.made)
        self._static = _static()
        self._renderings: dict[tuple[Any, ...], tuple[float, asyncio.Future[Rendered]]] = {}
        self._viewers: Counter[str] = Counter()
        digest = hashlib.blake2b(digest_size=6)
        for name, (body, _) in sorted(self._static.items()):
            digest.update(name.encode() + body)
        self._version = digest.hexdigest()
        self.operations = frozenset(page.operation for page in route.made)
        self.logged = frozenset(page.operation for page in route.made if page.method == "POST")

    @property
    def _service(self) -> Service:
        return self._app.service

    async def _compute(self, work: Callable[..., T], *arguments: Any) -> T:
        """Compute what a page shows, away from the event loop."""
        return await self._service.state.compute(work, *arguments)

    @functools.cached_property
    def _reading(self) -> Watching:
        return Watching(self._service)

    @functools.cached_property
    def _signing(self) -> Sessions:
        return Sessions(self._service)

    def find(self, method: str, path: str) -> tuple[Route | tuple[str, ...] | None, list[str]]:
        """Return the page of a method and a path, as `Router.find` does."""
        return self._router.find(method, path)

    async def answer(self, asked: Request, query: bytes, body: bytes) -> Reply | Stream:
        """Answer a request whose page was found; refusals are pages as well."""
        visit = Visit(asked, {}, None, {})
        reply: Reply | Stream
        try:
            visit.query = _query(query)
            visit.session = self._session(asked.headers)
            if visit.session is not None:
                asked.who = replace(visit.session.who, request_id=asked.id.decode())
            if asked.route.method == "POST":
                visit.fields = fields_of(body, asked.headers.get(b"content-type", b""))
            refused = self._refused(visit)
            reply = refused if refused is not None else await asked.route.handler(self, visit)
        except Problem as problem:
            self._app.metrics.count_problem(problem.code)
            page = failure(self._viewer(visit), KINDS[problem.code].title, problem.detail)
            reply = _html(page, problem.status)
        reply.extra = [*(reply.extra or []), *GUARDS]
        return reply

    # --- access ---------------------------------------------------------------------------------

    def _session(self, headers: Headers) -> Session | None:
        if not self._keys:
            refuse_pages(headers)
            return Session(Service.LOCAL, "local")
        return self._signing.session(headers)

    def _refused(self, visit: Visit) -> Reply | None:
        """Return the refusal of a viewer without access, or check the form; None if all is well."""
        scope = visit.asked.route.scope
        if scope is None:
            return None
        if visit.session is None:
            if visit.asked.route.operation in ("dashboard_overview", "dashboard_page"):
                path = address(visit.name) if visit.asked.given else "/"
                onward = f"/login?next={quote(path, safe='/')}"
                return Reply(303, b"", HTML, [(b"location", onward.encode()), *_UNKEPT])
            raise Problem("key_missing", "Log in first.")
        if scope not in visit.session.who.scopes:
            raise Problem("scope_missing", f"The key must have the scope {scope}.")
        if visit.asked.route.method == "POST":
            self._signing.check(visit.session, visit.headers, visit.fields.get("token", ""))
        return None

    def _viewer(self, visit: Visit) -> Viewer:
        session = visit.session
        host = visit.headers.get(b"host", b"").decode("latin-1")
        host = host if _HOST.fullmatch(host) else "localhost"
        scheme = "http" if on_this_machine(visit.headers) else "https"
        return Viewer(
            None if session is None else session.who.key_id,
            self._keys,
            session is not None and "admin" in session.who.scopes,
            "" if session is None else self._signing.token(session),
            self._version,
            f"{scheme}://{host}",
        )

    @route("GET", "/docs", "Interactive page of the wire API", None, operation="dashboard_api")
    async def _api(self, visit: Visit) -> Reply:
        return _html(api_page.page(self._viewer(visit), json.loads(self._app.document)))

    @route("GET", "/login", "The page to log in", None, operation="dashboard_ask_key")
    async def _ask_key(self, visit: Visit) -> Reply:
        if not self._keys:
            return Reply(303, b"", HTML, [(b"location", b"/"), *_UNKEPT])
        return _html(login(self._viewer(visit), _onward(visit.query), None))

    @route("POST", "/login", "Log in", None, operation="dashboard_login", limit=LIMIT)
    async def _login(self, visit: Visit) -> Reply:
        try:
            cookie = self._signing.begin(visit.headers, visit.fields.get("key", ""))
        except Problem as problem:
            onward = _onward(visit.fields)
            page = login(self._viewer(visit), onward, problem.detail)
            return _html(page, problem.status)
        onward = _onward(visit.fields)
        extra = [(b"location", onward.encode()), (b"set-cookie", cookie.encode()), *_UNKEPT]
        return Reply(303, b"", HTML, extra)

    @route("POST", "/logout", "Log out", "read", operation="dashboard_logout", limit=LIMIT)
    async def _logout(self, visit: Visit) -> Reply:
        cookie = self._signing.end(visit.headers)
        extra = [(b"location", b"/login"), (b"set-cookie", cookie.encode()), *_UNKEPT]
        return Reply(303, b"", HTML, extra)

    # --- the overview ----------------------------------------------------------------------------

    async def _listed(self, visit: Visit) -> Listed:
        who = visit.who
        names = self._service.names(who)
        pages = max(1, -(-len(names) // EXPERIMENTS))
        page = min(_number(visit.query.get("page", "1")), pages)
        found = []
        deadline = time.monotonic() + PATIENCE
        for name in names[(page - 1) * EXPERIMENTS : page * EXPERIMENTS]:
            # Lets other requests run, also where everything is known already.
            await asyncio.sleep(0)
            left = max(0.0, deadline - time.monotonic())
            facts = await self._reading.facts(who, name, left)
            described = self._service.experiment(who, name)
            found.append(
                Shown(described, None, None, facts, limit=self._service.settings.state_age_limit)
            )
        return Listed(found, page, pages, len(names))

    @route("GET", "/", "All experiments", "read", operation="dashboard_overview")
    async def _overview(self, visit: Visit) -> Reply:
        listed = await self._listed(visit)
        figured = {**self._service.counters(), **self._service.gauges()}
        page = await self._compute(overview.page, self._viewer(visit), listed, figured)
        return _html(page)

    async def _overview_made(self, visit: Visit) -> tuple[dict[str, str], int]:
        listed = await self._listed(visit)
        figured = {**self._service.counters(), **self._service.gauges()}
        origin = self._viewer(visit).origin
        parts = await self._compute(overview.parts, listed, figured, origin)
        return _texts(parts), 0

    @route("GET", "/parts", "The overview", "read", operation="dashboard_overview_parts")
    async def _overview_parts(self, visit: Visit) -> Reply:
        parts, last = await self._overview_made(visit)
        return _json({"parts": parts, "chart": last})

    @route("GET", "/live", "Updates of the overview", "read", operation="dashboard_overview_live")
    async def _overview_live(self, visit: Visit) -> Stream:
        return self._following(visit, self._overview_made)

    # --- an experiment ---------------------------------------------------------------------------

    async def _shown(self, visit: Visit, window: bool = True) -> Shown:
        """Return the data of an experiment, as far as it is available soon."""
        who, name, reading = visit.who, visit.name, self._reading
        described = self._service.experiment(who, name)
        history, facts, found = await asyncio.gather(
            reading.history(who, name, PATIENCE),
            reading.facts(who, name, PATIENCE),
            reading.window(who, name, PATIENCE) if window else _nothing(),
        )
        chosen = visit.query.get("as")
        return Shown(
            described,
            found,
            history,
            facts,
            chosen if chosen in ("reward", "loss") else None,
            _number(visit.query.get("arms", "1")),
            self._service.settings.state_age_limit,
            segments=tuple((await self._service.segments(who, name, SEGMENTS))["segments"]),
        )

    @route("GET", _ONE, "An experiment", "read", operation="dashboard_page")
    async def _page(self, visit: Visit, wrong: Problem | None = None) -> Reply:
        shown = replace(await self._shown(visit), acted=wrong is not None)
        said = said_of(visit.query.get("done"))
        refusal = None if wrong is None else wrong.detail
        page = await self._compute(experiment.page, self._viewer(visit), shown, said, refusal)
        return _html(page, 200 if wrong is None else wrong.status)

    async def _made(self, visit: Visit) -> tuple[dict[str, str], int]:
        shown = await self._shown(visit)
        admin = "admin" in visit.who.scopes
        parts = await self._compute(experiment.parts, shown, admin)
        return _texts(parts), 0 if shown.history is None else shown.history.last

    @route("GET", f"{_ONE}/parts", "The page of an experiment", "read", operation="dashboard_parts")
    async def _parts(self, visit: Visit) -> Reply:
        parts, last = await self._made(visit)
        return _json({"parts": parts, "chart": last})

    @route(
        "GET", f"{_ONE}/live", "Updates of the page of an experiment", "read",
        operation="dashboard_live",
    )  # fmt: skip
    async def _live(self, visit: Visit) -> Stream:
        self._service.experiment(visit.who, visit.name)
        return self._following(visit, self._made)

    @route("GET", f"{_ONE}/chart.json", "Data of the charts", "read", operation="dashboard_chart")
    async def _chart(self, visit: Visit) -> Reply:
        shown = await self._shown(visit, window=False)
        return _json(await self._compute(experiment.charts, shown))

    @route(
        "GET", f"{_ONE}/export", "The log", "read",
        operation="dashboard_export", query=wire.ExportQuery,
    )  # fmt: skip
    @route(
        "GET", f"{_ONE}/report", "The whole report", "read",
        operation="dashboard_report", query=wire.ReportQuery,
    )  # fmt: skip
    async def _log(self, visit: Visit) -> Reply | Stream:
        """Hand the log or the report out as the wire API does."""
        asked = visit.asked
        asked.query = parsing.query(asked.route.query, list(visit.query.items()))
        if asked.operation == "dashboard_export":
            return await handlers.export(self._app, asked)
        return await handlers.report(self._app, asked)

    @route(
        "POST", f"{_ONE}/act", "Change an experiment", "admin",
        operation="dashboard_act", limit=LIMIT,
    )  # fmt: skip
    async def _act(self, visit: Visit) -> Reply:
        try:
            done = await act(self._service, visit.who, visit.name, visit.fields)
        except Problem as problem:
            if problem.code == "experiment_not_found":
                raise
            self._app.metrics.count_problem(problem.code)
            return await self._page(visit, problem)
        onward = f"{address(visit.name)}?done={quote(done)}"
        return Reply(303, b"", HTML, [(b"location", onward.encode()), *_UNKEPT])

    # --- live ------------------------------------------------------------------------------------

    async def _rendered(self, visit: Visit, make: Making) -> Rendered:
        """Return the parts of a live page, rendered once for all viewers of the same page."""
        given, query = tuple(visit.asked.given), visit.query
        host, who = visit.headers.get(b"host"), visit.who
        shown = query.get("arms"), query.get("as"), query.get("page")
        key = (make.__name__, who.tenant, who.scopes, given, shown, host)
        now = time.monotonic()
        made = self._renderings.get(key)
        if made is None or now - made[0] >= PAUSE:
            for old in [each for each, (at, _) in self._renderings.items() if now - at > 2 * PAUSE]:
                del self._renderings[old]

            async def rendering() -> Rendered:
                parts, last = await make(visit)
                return parts, {name: digest(text) for name, text in parts.items()}, last

            made = self._renderings[key] = now, asyncio.ensure_future(rendering())
        # A viewer that leaves must not end it for other viewers.
        return await asyncio.shield(made[1])

    def _following(self, visit: Visit, make: Making) -> Stream:
        """Send the parts of a page that are others than before, as server-sent events."""
        key = visit.who.key_id or ""
        if self._viewers[key] >= MOST_VIEWERS:
            raise Problem(
                "rate_limited", f"A key may have {MOST_VIEWERS} live pages open.", retry_after=60.0
            )

        async def pieces() -> AsyncIterator[bytes]:
            self._viewers[key] += 1
            try:
                async with contextlib.aclosing(following()) as found:
                    async for piece in found:
                        yield piece
            finally:
                self._viewers[key] -= 1

        async def following() -> AsyncGenerator[bytes, None]:
            # What the page came with need not be sent again.
            sent = dict(
                each.split(":", 1) for each in visit.query.get("have", "").split(",") if ":" in each
            )
            chart, said = -1, time.monotonic()
            yield b"retry: 2000\n\n"
            while not self._app.stopping.is_set():
                # A key that was revoked, or a session that is over, sees nothing more.
                if self._session(visit.headers) is None:
                    return
                try:
                    parts, marks, last = await self._rendered(visit, make)
                except Problem:
                    return
                changed = {}
                for name, text in parts.items():
                    mark = marks[name]
                    if sent.get(name) != mark:
                        sent[name] = mark
                        changed[name] = text
                if changed:
                    yield b"event: parts\ndata: %s\n\n" % wire.encode(changed)
                if last != chart:
                    chart = last
                    yield b"event: chart\ndata: %d\n\n" % last
                now = time.monotonic()
                if changed:
                    said = now
                elif now - said > HEARTBEAT:
                    said = now
                    yield b": still here\n\n"
                else:
                    # Closes the connections of viewers that have left.
                    yield b""
                await _pause(self._app.stopping, PAUSE)

        return Stream(pieces(), b"text/event-stream", list(_UNKEPT))

    @route("GET", "/static/{file}", "Scripts and styles", None, operation="dashboard_static")
    @route(
        "GET", "/static/uplot/{file}", "The library of the charts", None,
        operation="dashboard_uplot",
    )  # fmt: skip
    async def _file(self, visit: Visit) -> Reply:
        folder = "uplot/" if visit.asked.route.operation == "dashboard_uplot" else ""
        found = self._static.get(folder + visit.asked.given[0])
        if found is None:
            raise Problem("not_found")
        body, media = found
        kept = b"public, max-age=31536000, immutable"
        if visit.query.get("v") != self._version:
            kept = b"no-cache"
        headers = [(b"cache-control", kept), (b"vary", b"accept-encoding")]
        # Only what holds no secret: an attacker could guess tokens from the length of a compressed
        # page.
        if _GZIP.search(visit.asked.headers.get(b"accept-encoding", b"")):
            body = _packed(body)
            headers.append((b"content-encoding", b"gzip"))
        return Reply(200, body, media, headers)


_UNKEPT: list[Header] = [(b"cache-control", b"no-store")]
_GZIP = re.compile(rb"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
_packed = functools.cache(functools.partial(gzip.compress, mtime=0))


def _html(page: bytes, status: int = 200) -> Reply:
    return Reply(status, page, HTML, list(_UNKEPT))


def _json(found: Any) -> Reply:
    return Reply(200, wire.encode(found), extra=list(_UNKEPT))


def _texts(parts: dict[str, Markup]) -> dict[str, str]:
    """Return markup as the strings that JSON knows."""
    return {name: str(part) for name, part in parts.items()}


async def _nothing() -> None:
    return None


async def _pause(stopping: asyncio.Event, seconds: float) -> None:
    """Wait, unless the service stops."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), seconds)


def _onward(given: dict[str, str]) -> str:
    """Return where to go after logging in: a page of the dashboard, never elsewhere."""
    path = given.get("next", "/")
    return path if re.fullmatch(r"/experiments/[A-Za-z0-9._%\-]{1,300}", path) else "/"


def _number(text: str) -> int:
    """Return the number of a page, 1 for an invalid one."""
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1


def _query(text: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        raise Problem("invalid_request", "The query must be ASCII, and short.") from None


def _static() -> dict[str, tuple[bytes, bytes]]:
    """Return the files that never change, by name."""
    folder = resources.files("bothworlds.serve.dashboard") / "static"
    found = {}
    for prefix, place in (("", folder), ("uplot/", folder / "uplot")):
        for each in place.iterdir():
            media = _TYPES.get(each.name.rpartition(".")[2])
            if media is not None:
                found[prefix + each.name] = (each.read_bytes(), media)
    return found
