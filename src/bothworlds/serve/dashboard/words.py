"""Words of the dashboard: probabilities, moments, rates and lags as text."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from bothworlds.markup import Markup, h
from bothworlds.text import counted, grouped, short_duration

NONE = "-"
"""Text in place of a missing number."""


def percent(share: float) -> str:
    """Write a probability.

    Examples
    --------
    >>> percent(0.8312), percent(0.0002), percent(0.0), percent(1.0), percent(0.9999)
    ('83.1 %', '< 0.1 %', '0 %', '100 %', '> 99.9 %')
    """
    if round(100 * share, 9) in (0.0, 50.0, 95.0, 99.0, 100.0):
        return f"{100 * share:.0f} %"
    if share < 0.001:
        return "< 0.1 %"
    return "> 99.9 %" if share > 0.999 else f"{100 * share:.1f} %"


def moment(at: float | None) -> Markup | str:
    """Write a moment, in UTC."""
    if at is None:
        return NONE
    when = datetime.fromtimestamp(at, UTC)
    return h.time(when.strftime("%Y-%m-%d %H:%M:%S"), datetime=when.isoformat(timespec="seconds"))


def number(value: float | None) -> str:
    """Write a mean."""
    return NONE if value is None else f"{value:.4g}"


def rate(value: float) -> str:
    """Write decisions a second.

    Examples
    --------
    >>> rate(0.0), rate(0.3), rate(1234.0)
    ('0 /s', '0.3 /s', '1,234 /s')
    """
    return "0 /s" if value == 0 else f"{grouped(value)} /s"


def seconds(value: float | None) -> str:
    """Write a lag, a dash where there is none."""
    return NONE if value is None else short_duration(max(value, 0.001))


def time_span(value: float) -> str:
    """Write a length of time in the largest unit of which it is a whole number.

    Examples
    --------
    >>> time_span(604800.0), time_span(3600.0), time_span(90.0)
    ('7 days', '1 hour', '90 seconds')
    """
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if value >= size and value % size == 0:
            return counted(int(value // size), unit)
    return f"{value:g} seconds"


def address(name: str) -> str:
    """Return the address of an experiment's page."""
    return f"/experiments/{quote(name, safe='')}"


def moment_text(at: float) -> str:
    """Write a moment as plain text."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
