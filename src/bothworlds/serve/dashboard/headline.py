"""Headline of an experiment: which arm is winning, how certain that is, what is missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bothworlds.markup import Markup, h, named, together
from bothworlds.serve.dashboard.frame import badge
from bothworlds.serve.dashboard.reading import CONFIDENCE, RATE_SECONDS, Counted, Window
from bothworlds.serve.dashboard.shown import Shown, leader
from bothworlds.serve.dashboard.words import NONE, percent, rate, seconds, time_span
from bothworlds.text import clipped, counted

EXPLAINED = {
    "pending": "Decisions whose feedback can still arrive.",
    "missing": "Decisions whose feedback did not arrive in time.",
    "quarantined": "Feedback held back because one unit or key sent more than its cap. It is not"
    " learned until an administrator releases it.",
    "feedback lag": "Time from a decision to its feedback.",
    "state age": "How old this replica's copy of the other replicas' counts is.",
    "epoch": "Number of times the experiment was reset; each epoch learns from zero.",
    "changed": "The mean has changed within the recent decisions: no single value fits them.",
    "outside": "The mean weights answers by 1 / probability, and a few of them dominate it here."
    " Rely on the interval.",
}
"""Tooltips of terms."""


def explained(term: str) -> Markup | str:
    """Return a term with its tooltip."""
    said = EXPLAINED.get(term.lower())
    return term if said is None else h.abbr(term, title=said, tabindex=0)


def headline(shown: Shown) -> Markup:
    """Return the first lines of the page: the verdict, and tiles with counts."""
    described, window, facts = shown.described, shown.window, shown.facts
    totals = Counted()
    if window is not None:
        for each in window.arms.values():
            totals.decided += each.decided
            totals.pending += each.pending
            totals.missing += each.missing
    missing = percent(totals.missing / totals.decided) if totals.decided else NONE
    verdict = [badge(described["mode"]), " ", *_verdict(shown)]
    if totals.missing:
        verdict.append(f" {missing} of the recent decisions have no feedback.")
    held = None if facts is None else sum(facts.quarantined.values())
    age = described["state_age"]
    tiles = (
        ("decisions", f"{sum(arm['decided'] for arm in described['arms']):,}", None),
        ("per second", NONE if facts is None else rate(facts.rate), f"over {RATE_SECONDS:g} s"),
        ("feedback learned", f"{described['learned']:,}", None),
        ("pending", NONE if window is None else f"{totals.pending:,}", "recent decisions"),
        ("missing", missing, "recent decisions"),
        ("quarantined", NONE if held is None else f"{held:,}", None),
        ("feedback lag", NONE if facts is None else seconds(facts.lag), "median"),
        ("state age", seconds(age) if age else "0 s", None),
    )
    return together(
        h.p(verdict, class_="verdict"),
        h.dl(
            (
                h.div(
                    h.dt(explained(name)), h.dd(value, note and h.small(f" {note}")),
                    class_="bad" if name == "quarantined" and held else None,
                )
                for name, value, note in tiles
            ),
            class_="tiles",
        ),
    )  # fmt: skip


def _verdict(shown: Shown) -> list[Any]:
    """Return the headline as sentences: the leading arm, its confidence, the missing feedback."""
    described, window = shown.described, shown.window
    mode, best = described["mode"], leader(described)
    decided = sum(arm["decided"] for arm in described["arms"])
    ahead = None
    said: list[Any] = []
    if mode in ("pinned", "shadow"):
        ahead = described["pinned_arm"]
        said += ["Every decision returns ", h.b(named(clipped(ahead, 60))), f"; {_FIXED[mode]}."]
    elif mode == "uniform":
        said.append("Every arm receives the same share of the decisions.")
    elif mode in ("paused", "archived"):
        said.append("Decisions are refused.")
        if best is not None and described["learned"]:
            ahead = best["name"]
            said += [
                " Once resumed, ", h.b(named(clipped(ahead, 60))), " receives ",
                h.b(percent(best["probability"])), " of them.",
            ]  # fmt: skip
    elif not decided:
        said.append("No decision has been made yet; Export below shows the first request.")
    elif not described["learned"]:
        said.append(
            f"No feedback has been learned yet: {counted(decided, 'decision')}, and every arm is "
            "as likely as before."
        )
    elif described["experts"]:
        trusted = max(described["experts"], key=lambda each: each["weight"])
        said += [
            "The expert with the most weight is ", h.b(named(trusted["name"])), ", with ",
            h.b(percent(trusted["weight"])), ".",
        ]  # fmt: skip
    elif best is None:
        said.append("No arm receives most of the decisions yet.")
    else:
        ahead = best["name"]
        said += [
            h.b(named(clipped(ahead, 60))), " receives ", h.b(percent(best["probability"])),
            " of the next decisions without a segment." if described["segments"]
            else " of the next decisions.",
        ]  # fmt: skip
    if not described["learned"]:
        return said
    standing = shown.standing()
    if standing is not None:
        said += [" ", standing.summary()]
    elif window is not None and window.report is not None and len(window.report) > 1:
        said += [" ", certainty(window, shown.word, ahead)]
        if not window.sure and 2 * window.waiting > window.rows - window.unanswered:
            left = time_span(described["feedback_window"])
            said.append(
                f" {counted(window.waiting, 'answer')} cannot be compared yet: earlier decisions "
                f"lack feedback, and it may still arrive until they are {left} old. "
                "A shorter feedback window shortens the wait."
            )
    return said + _favoured(shown)


_FIXED = {
    "pinned": "nothing is learned",
    "shadow": "what the policy would choose is only logged",
}
"""Explanations of the modes with one arm."""


def _favoured(shown: Shown) -> list[str]:
    """Return which arms the segments favour, in one sentence."""
    if not shown.segments or shown.described["mode"] != "learn":
        return []
    found = Counter(
        arm["name"] for each in shown.segments if (arm := leader(each)) is not None
    ).most_common(3)
    if not found:
        return []
    listed = ", ".join(f"{count} favour {name}" for name, count in found)
    return [f" Of {counted(len(shown.segments), 'segment')}, {listed}."]


def certainty(window: Window, word: str, ahead: str | None) -> Markup:
    """Return how certain it is that the arm ahead is the best, in one sentence."""
    confidence = f"with {percent(CONFIDENCE)} confidence"
    if not window.sure:
        return together(f"No two arms can be ranked {confidence} yet.")
    assert window.report is not None
    others = len(window.report) - 1
    more = "higher" if word == "reward" else "lower"
    # The arm ahead, or else the one that beats most.
    beaten: dict[Any, list[tuple[float, Any]]] = {}
    for better, worse, least in window.sure:
        beaten.setdefault(better, []).append((least, worse))
    rivals = [(least, better) for better, worse, least in window.sure if worse == ahead]
    if rivals:
        least, better = max(rivals, key=lambda rival: rival[0])
        return together(
            "But recent feedback favours ", h.b(named(clipped(str(better), 60))),
            f": its mean {word} is {more} by at least {least:.3g}, {confidence}.",
        )  # fmt: skip
    best = ahead if ahead is not None else max(beaten, key=lambda arm: len(beaten[arm]))
    these = beaten.get(best, [])
    # The sentence before this one names the arm ahead.
    subject = "It" if best == ahead else h.b(named(clipped(str(best), 60)))
    if not these and window.report[best].sequence is None:
        return together(f"Its mean has changed lately: it cannot be ranked {confidence} yet.")
    if not these:
        return together(f"Whether it is the best arm cannot be stated {confidence} yet.")
    least, worse = min(these, key=lambda pair: pair[0])
    if len(these) == others:
        than = (
            ["the closest arm, ", named(clipped(str(worse), 60)), ","]
            if others > 1
            else [named(clipped(str(worse), 60))]
        )
        return together(
            subject, " is the best arm ", confidence, f": its mean {word} is {more} than that of ",
            *than, f" by at least {least:.3g}.",
        )  # fmt: skip
    return together(
        subject, f" is better than {len(these)} of {others} other arms {confidence}; the rest "
        "cannot be ranked against it yet.",
    )  # fmt: skip
