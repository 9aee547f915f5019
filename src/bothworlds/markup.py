"""HTML and SVG elements, escaped by construction: every string that is not `Markup` is text.

Examples
--------
>>> print(h.p("a < b, ", h.b('"x"'), class_="note"))
<p class="note">a &lt; b, <b>&quot;x&quot;</b></p>
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

VOID = frozenset({"br", "img", "input", "link", "meta"})
"""Elements without an end tag."""
EMPTY = frozenset({"circle", "line", "path", "polyline", "rect"})
"""Elements of SVG that close themselves."""


class Markup(str):
    """HTML that this module built; any other string is text."""

    __slots__ = ()


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element.

    Parameters
    ----------
    name : str
        Name of the element; always written in the code, never taken from input.
    children : Markup, str, number, iterable or None
        Content: markup as it is, everything else as text; None and False add nothing.
    attributes : object
        By name, with ``_`` for ``-`` and a trailing ``_`` after a Python keyword; None and False
        leave the attribute out, True gives it no value.

    Examples
    --------
    >>> element("input", name="arm", value='"><script>', disabled=False, required=True)
    '<input name="arm" value="&quot;&gt;&lt;script&gt;" required>'
    """
    parts = ["<", name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        parts += (" ", key.rstrip("_").replace("_", "-"))
        if value is not True:
            parts += ('="', escape(str(value), quote=True), '"')
    if name in EMPTY:
        parts.append("/>")
        return Markup("".join(parts))
    parts.append(">")
    if name not in VOID:
        _write(parts, children)
        parts += ("</", name, ">")
    return Markup("".join(parts))


def together(*children: Any) -> Markup:
    """Return several children one after the other.

    Examples
    --------
    >>> together("a&b", None, [element("br")])
    'a&amp;b<br>'
    """
    parts: list[str] = []
    _write(parts, children)
    return Markup("".join(parts))


def lines(*children: Any) -> Markup:
    r"""Return several children, each on a line of its own.

    Examples
    --------
    >>> lines("a", element("br"))
    'a\n<br>'
    """
    return Markup("\n".join(together(child) for child in children))


def rows(table: Iterable[Iterable[Any]]) -> list[Markup]:
    """Return the rows of a table, an element td for every cell.

    Examples
    --------
    >>> rows([["a", 1]])
    ['<tr><td>a</td><td>1</td></tr>']
    """
    return [h.tr(map(h.td, row)) for row in table]


def _write(parts: list[str], children: Iterable[Any]) -> None:
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(child, quote=True))
        elif child is None or child is False:
            continue
        elif isinstance(child, Iterable):
            _write(parts, child)
        else:
            parts.append(escape(str(child), quote=True))


class _Elements:
    """Functions that build elements, by element name."""

    def __getattr__(self, name: str) -> Callable[..., Markup]:
        def made(*children: Any, **attributes: Any) -> Markup:
            return element(name, *children, **attributes)

        # The next access finds the attribute without this method.
        setattr(self, name, made)
        return made


h = _Elements()
"""``h.td("x", class_="n")`` is the element td."""


def named(name: object) -> Markup:
    """Return a name chosen by a user, isolated so that it cannot reorder the text around it.

    Examples
    --------
    >>> named("<blue>")
    '<bdi>&lt;blue&gt;</bdi>'
    """
    return element("bdi", str(name))


def document(title: str, *body: Any, head: Iterable[Markup] = ()) -> bytes:
    """Return a whole page."""
    page = h.html(
        h.head(
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.title(title),
            head,
        ),
        h.body(body),
        lang="en",
    )
    return b"<!doctype html>\n" + page.encode("utf-8", "replace")
