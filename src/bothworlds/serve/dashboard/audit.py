"""Audit log of an experiment: changes with their author and time, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bothworlds.markup import Markup, h, named, together
from bothworlds.serve.dashboard.frame import MODES, table
from bothworlds.serve.dashboard.shown import Shown
from bothworlds.serve.dashboard.words import moment, time_span
from bothworlds.serve.domain.config import ExperimentSettings
from bothworlds.text import clipped

ACTED = {
    "create": "created",
    "patch": "settings changed",
    "pin": "arm pinned",
    "shadow": "shadow mode",
    "uniform": "uniform mode",
    "pause": "paused",
    "resume": "learning resumed",
    "archive": "archived",
    "reset": "reset",
    "add_arm": "arm added",
    "retire_arm": "arm retired",
    "release": "quarantine released",
    "drop": "quarantine discarded",
}
"""Actions of the audit log in words."""
INNER = frozenset({"place", "entry", "ids"})
"""Fields of a change that are for programs only."""
_DEFAULTS = msgspec.json.decode(msgspec.json.encode(ExperimentSettings()))


def changes(shown: Shown) -> Markup:
    """Return the audit log."""
    title = h.h2("Audit log", id="changes")
    if shown.facts is None:
        return together(title, h.p("The audit log is being read.", class_="empty"))
    rows = [
        (
            moment(row.at),
            ACTED.get(row.action, row.action),
            "local" if row.key_id is None else h.code(row.key_id),
            h.span(named(clipped(in_words(row.change), 240)), class_="long"),
        )
        for row in shown.facts.changes
    ]
    return together(
        title,
        table(
            ("time (UTC)", "action", "key", "change"),
            rows,
            "Newest first; up to 50 changes",
            class_="wide",
        ),
    )


def in_words(change: Mapping[str, Any]) -> str:
    """Write a change for readers; settings with their defaults are left out.

    Examples
    --------
    >>> in_words({"config": {"floor": 0.0, "feedback_window": 3600.0}, "arms": ["a", "b"]})
    'arms: a, b; feedback window: 1 hour'
    >>> in_words({"mode": ["learn", "pinned"], "epoch": [0, 0], "arm": "a"})
    'mode: from learning to pinned; arm: a'
    """
    if "config" in change:
        unusual = {
            name: value
            for name, value in change["config"].items()
            if name == "policy" or value != _DEFAULTS.get(name)
        }
        return "; ".join(
            f"{_term(name)}: {_value(name, value)}"
            for name, value in {"arms": change.get("arms"), **unusual}.items()
        )
    said = []
    for name, value in change.items():
        if name in INNER or value is None:
            continue
        if not isinstance(value, list):
            said.append(f"{_term(name)}: {_value(name, value)}")
        elif value[0] != value[-1]:
            before, after = (_value(name, each) for each in value)
            said.append(f"{_term(name)}: from {before} to {after}")
    return "; ".join(said)


def _term(name: str) -> str:
    return name.replace("_", " ")


def _value(name: str, value: Any) -> str:
    """Write a value: names and numbers without brackets and quotes, durations with their unit."""
    if value is None or value in ({}, [], ""):
        return "none"
    if isinstance(value, dict):
        if set(value) == {"class", "fields"}:
            return str(value["class"])
        return ", ".join(f"{key} {_value(name, each)}" for key, each in value.items())
    if isinstance(value, list):
        first = ", ".join(_value("", each) for each in value[:8])
        return first if len(value) <= 8 else f"{first} and {len(value) - 8} more"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in ("feedback_window", "sticky_seconds"):
        return time_span(value)
    if name.endswith("_share"):
        return f"{100 * value:g} %"
    if name == "mode":
        return MODES[value]
    return f"{value:,g}" if isinstance(value, float) else str(value)
