"""Page of the demonstration: the losses of each policy, drawn again every two seconds.

Plain HTML with charts as SVG, without a script, from a small server on a loopback port of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bothworlds.demo.race import Picture
from bothworlds.markup import Markup, h
from bothworlds.registry import variant_of

COLOURS = {
    name: found.colour
    for name, printed in (
        ("Tsallis-INF", "TsallisINF()"),
        ("Thompson sampling", "ThompsonSampling()"),
        ("UCB1", "UCB1()"),
        ("AllWorlds", "AllWorlds()"),
    )
    if (found := variant_of(printed)) is not None
}
"""The house's colours of the players."""
WIDTH, HEIGHT, HEAD, FOOT = 340, 132, 22, 18
"""Size of a chart, in its own units: wide enough for a phone, and letters grow with the screen."""

STYLE = Path(__file__).with_name("page.css")


def document(pictures: Sequence[Picture], dashboard: str, ended: bool = False) -> str:
    """Return the page.

    Parameters
    ----------
    pictures : sequence of Picture
        The experiments as they stand.
    dashboard : str
        The address of the service.
    ended : bool
        Whether nothing will change any more.
    """
    refresh = None if ended else h.meta(http_equiv="refresh", content="2")
    head = h.head(
        h.meta(charset="utf-8"),
        refresh,
        h.meta(name="viewport", content="width=device-width, initial-scale=1"),
        h.title("bothworlds demo"),
        h.link(rel="stylesheet", href="/style.css"),
    )
    about = h.p(
        h.b("Lower is better. Orange background: bots, load, late feedback or a change at work. "),
        "A curve shows how much a policy has lost by not playing the best option; all receive the"
        " same simulated traffic. Tsallis-INF decides through the service. Thompson sampling and"
        " AllWorlds play in eight copies that differ by chance, and their curve is the mean."
        " Misled: plays the best option less than half of the time. ",
        h.a("Dashboard of the service", href=dashboard),
    )
    body = h.body(h.h1("Several policies, the same traffic"), about, h.main(map(_card, pictures)))
    return "<!doctype html>" + h.html(head, body, lang="en")


def _card(each: Picture) -> Markup:
    now = (h.span(f"Now: {each.trouble}.", class_="now"), " ") if each.trouble else None
    heads = ("policy", f"{each.unit} lost", "worst copy", "plays the best", "misled")
    rows = (
        h.tr(
            h.th(h.i(style=f"background:{COLOURS[s.player]}"), s.player, scope="row"),
            map(h.td, (f"{s.lost:,.0f}", f"{s.worst:,.0f}", f"{100 * s.best:.0f} %", s.verdict)),
        )
        for s in each.standings
    )
    return h.section(
        h.h2(each.title),
        h.p(now, f"{each.rounds:,} decisions"),
        _chart(each),
        h.table(h.thead(h.tr(map(h.th, heads))), h.tbody(rows)),
        h.p(each.note),
    )


def _chart(each: Picture) -> Markup:
    """Return the curves of an experiment as SVG; the table below has their ends."""
    last = max([1.0, *each.times[-1:]])
    most = max([1.0, *(max(curve) for curve in each.curves.values() if curve)])
    left, right, floor = 48, WIDTH - 68, HEIGHT - FOOT

    def x(at: float) -> float:
        return left + (right - left) * min(at / last, 1.0)

    def y(lost: float) -> float:
        return floor - (floor - HEAD) * lost / most

    waves = [
        h.rect(
            class_="wave",
            x=f"{x(a):.1f}",
            y=HEAD,
            width=f"{max(1.0, x(b) - x(a)):.1f}",
            height=floor - HEAD,
        )
        for a, b in each.troubles
        if a <= last
    ]
    lines, ends = [], []
    for name, curve in each.curves.items():
        points = " ".join(
            f"{x(at):.1f},{y(lost):.1f}" for at, lost in zip(each.times, curve, strict=True)
        )
        width = 3 if name == "Tsallis-INF" else 2
        lines.append(
            h.polyline(points=points, fill="none", stroke=COLOURS[name], stroke_width=width)
        )
        if curve:
            ends.append((y(curve[-1]), f"{curve[-1]:,.0f}", COLOURS[name]))
    labels, free = [], 0.0
    for place, text, colour in sorted(ends):
        free = max(free + 13.0, place + 4.0)
        dot = h.tspan("●", fill=colour)
        labels.append(h.text(dot, f" {text}", x=right + 6, y=f"{min(free, HEIGHT - 4.0):.1f}"))
    return h.svg(
        waves,
        h.line(class_="axis", x1=left, x2=right, y1=floor, y2=floor),
        h.line(class_="axis", x1=left, x2=left, y1=HEAD, y2=floor),
        h.text(f"{each.unit} lost", x=0, y=HEAD - 10),
        h.text(f"{most:,.0f}", x=left - 4, y=HEAD + 8, text_anchor="end"),
        h.text("0", x=left - 4, y=floor, text_anchor="end"),
        lines,
        labels,
        h.text("0 s", x=left, y=HEIGHT - 4),
        h.text(f"{last:.0f} s since the start", x=right, y=HEIGHT - 4, text_anchor="end"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{each.unit} lost over {last:.0f} seconds",
    )


@contextlib.contextmanager
def served(
    pictures: Callable[[], Sequence[Picture]], dashboard: str, port: int = 0
) -> Iterator[str]:
    """Serve the page while the block runs, to this machine alone; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        """Answer with the page, its style, or the figures."""

        def do_GET(self) -> None:
            """Answer a request."""
            if self.path == "/":
                self._answer(document(pictures(), dashboard), "text/html; charset=utf-8")
            elif self.path == "/style.css":
                self._answer(STYLE.read_text(encoding="utf-8"), "text/css; charset=utf-8")
            elif self.path == "/standing.json":
                found = [dataclasses.asdict(each) for each in pictures()]
                self._answer(json.dumps(found), "application/json")
            else:
                self.send_error(404)

        def _answer(self, text: str, media: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header(
                "Content-Security-Policy",
                "default-src 'none'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
            )
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Print nothing: the terminal belongs to the table."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="bothworlds-page")
    try:
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        if thread.ident is not None:
            server.shutdown()
            thread.join()
        server.server_close()
