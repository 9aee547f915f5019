"""Frame of the pages: head and foot, tables, the log-in, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from bothworlds.markup import Markup, document, h

MODES = {
    "learn": "learning",
    "pinned": "pinned",
    "uniform": "uniform",
    "paused": "paused",
    "shadow": "shadow",
    "archived": "archived",
}


@dataclass(frozen=True)
class Viewer:
    """The viewer, and the settings of the pages for them."""

    key: str | None
    keyed: bool
    """Whether the service asks for keys."""
    admin: bool
    token: str
    version: str
    """Version of the static files, in their addresses."""
    origin: str
    """Address of the service, as the browser has it."""


def badge(mode: str) -> Markup:
    """Return an experiment's mode."""
    return h.span(MODES[mode], class_=f"badge {mode}")


def swatch(colour: str) -> Markup:
    """Return a spot of an arm's colour."""
    return h.svg(
        h.path(d="M0 5H18", class_=f"line {colour}"), viewBox="0 0 18 10", width=18, height=10,
        class_="swatch", aria_hidden="true",
    )  # fmt: skip


def framed(viewer: Viewer, title: str, *body: Any, live: str | None = None) -> bytes:
    """Return a page with its head and foot."""
    version = viewer.version
    head = (
        h.link(rel="icon", href=f"/static/icon.svg?v={version}", type="image/svg+xml"),
        h.link(rel="stylesheet", href=f"/static/dashboard.css?v={version}"),
        live and h.link(rel="stylesheet", href=f"/static/uplot/uPlot.min.css?v={version}"),
        live and h.script(src=f"/static/uplot/uPlot.iife.min.js?v={version}", defer=True),
        live and h.script(src=f"/static/dashboard.js?v={version}", defer=True),
    )
    out = viewer.keyed and viewer.key is not None
    leave = out and h.form(
        h.span("key ", h.code(viewer.key), class_="quiet"),
        h.input(type="hidden", name="token", value=viewer.token),
        h.button("Log out"),
        method="post",
        action="/logout",
        class_="leave",
    )
    return document(
        f"{title} · bothworlds",
        h.a("Skip to the content", href="#content", class_="skip"),
        h.header(
            h.a(
                h.img(src=f"/static/icon.svg?v={version}", alt="", width=22, height=22),
                "bothworlds",
                href="/",
                class_="brand",
            ),
            h.a("API", href="/docs"),
            live and h.span("not live", id="pulse", role="status", class_="quiet"),
            leave,
            class_="top",
        ),
        h.main(body, id="content", data_live=live),
        head=[each for each in head if each],
    )


def part(name: str, content: Markup) -> Markup:
    """Return the place of a part, in which it is replaced."""
    return h.div(content, id=f"part-{name}", data_part=name, data_is=digest(content))


def digest(content: str) -> str:
    """Return the fingerprint of a part of a page, which changes with its content.

    Examples
    --------
    >>> digest("a") == digest("a"), digest("a") == digest("b")
    (True, False)
    """
    return blake2b(content.encode("utf-8", "replace"), digest_size=4).hexdigest()


TEXTS = frozenset(
    {"mode", "ahead", "shares", "preferred arms", "action", "key", "change", "state", "time (UTC)"}
)
"""Heads of columns with words; all other columns have numbers."""


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    caption: Markup | str,
    *,
    hidden: bool = False,
    **more: Any,
) -> Markup:
    """Return a table whose cells know their heads, for narrow screens.

    A ``hidden`` caption is for screen readers.
    """
    kinds = ["text" if head in TEXTS else None for head in heads]
    return h.div(
        h.table(
            h.caption(caption, class_="unseen" if hidden else None),
            h.thead(
                h.tr(
                    h.th(head, scope="col", class_=kind)
                    for head, kind in zip(heads, kinds, strict=True)
                )
            ),
            h.tbody(
                h.tr(
                    h.th(row[0], scope="row"),
                    (
                        h.td(cell, data_label=head, class_=kind)
                        for head, kind, cell in zip(heads[1:], kinds[1:], row[1:], strict=True)
                    ),
                )
                for row in rows
            ),
            **more,
        ),
        class_="scroll",
    )


def failure(viewer: Viewer, title: str, detail: str) -> bytes:
    """Return the page of a refusal."""
    return framed(
        viewer,
        title,
        h.h1(title),
        h.p(detail, role="alert", class_="alarm"),
        h.p(h.a("To the overview", href="/")),
    )


def login(viewer: Viewer, onward: str, wrong: str | None) -> bytes:
    """Return the log-in page."""
    return framed(
        viewer,
        "Log in",
        h.h1("Log in"),
        wrong and h.p(wrong, role="alert", class_="alarm"),
        h.form(
            h.label("Key", for_="key"),
            h.input(
                id="key", name="key", type="password", autocomplete="off", required=True,
                autofocus=True, placeholder="bw_…", spellcheck="false",
            ),
            h.input(type="hidden", name="next", value=onward),
            h.button("Log in", class_="primary"),
            method="post",
            action="/login",
            class_="login",
        ),
        h.p(
            "The ", h.code("read"), " scope lets you view; ", h.code("admin"),
            " also lets you make changes. ",
            h.code("bothworlds serve key create --scopes read"), " creates a key.", class_="quiet",
        ),
    )  # fmt: skip
