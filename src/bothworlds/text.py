"""Text: numbers, sizes and durations for tables and reports, and what docstrings describe."""

from __future__ import annotations

import re
import sys


def grouped(value: float, below: float = 1000.0) -> str:
    """Write a number with separators, with one decimal if it is small.

    Parameters
    ----------
    value : float
        The number.
    below : float, default 1000
        The absolute value from which the decimal is dropped.

    Examples
    --------
    >>> grouped(0.123), grouped(999.9), grouped(12345.6), grouped(56.78, below=10)
    ('0.1', '999.9', '12,346', '57')
    """
    return f"{value:,.1f}" if abs(value) < below else f"{value:,.0f}"


def bound(value: float) -> str:
    """Write a bound, which may be huge.

    Examples
    --------
    >>> bound(1234.56), bound(5e8), bound(5e12)
    ('1,234.6', '500,000,000', '5.000e+12')
    """
    return grouped(value, below=1e6) if value < 1e9 else f"{value:.3e}"


def narrow(value: float) -> str:
    """Write a number in at most seven characters.

    Examples
    --------
    >>> [narrow(value) for value in (0.25, 1234.5, 123_456, -9.87e7)]
    ['0.2', '1,234', '123k', '-99M']
    """
    if abs(value) < 999.95:
        return f"{value:.1f}"
    for limit, scale, unit in ((99_999.5, 1, ""), (999.5e3, 1e3, "k"), (999.5e6, 1e6, "M")):
        if abs(value) < limit:
            return f"{value / scale:,.0f}{unit}"
    return f"{value:.0e}"


def typed(count: int) -> str:
    """Write a whole number as people type it.

    Examples
    --------
    >>> typed(300), typed(10_000_000), typed(250_000), typed(123_456)
    ('300', '1e7', '2.5e5', '123456')
    """
    digits = str(count)
    short = f"{digits[0]}.{digits[1:].rstrip('0')}".rstrip(".") + f"e{len(digits) - 1}"
    return short if count >= 10_000 and len(short) < 7 else digits


def fraction(value: float) -> str:
    """Write a gap as people do: 1/8 where it is one over a whole number.

    Examples
    --------
    >>> fraction(0.125), fraction(0.05), fraction(0.3)
    ('1/8', '1/20', '0.3')
    """
    inverse = 1.0 / value if value else 0.0
    whole = round(inverse)
    return f"1/{whole}" if whole > 1 and abs(inverse - whole) < 1e-9 * whole else f"{value:g}"


def counted(count: int, noun: str) -> str:
    """Write how many there are of something.

    Examples
    --------
    >>> counted(1, "curve"), counted(1234, "curve")
    ('1 curve', '1,234 curves')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Write a number of bytes in at most eight characters.

    Examples
    --------
    >>> size(812), size(81_200), size(41_250_000), size(3_200_000_000)
    ('812 B', '81 kB', '41.2 MB', '3.2 GB')
    """
    if count < 1000:
        return f"{count} B"
    if count < 999_500:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e6:.1f} MB" if count < 999.5e6 else f"{count / 1e9:.1f} GB"


def duration(seconds: float) -> str:
    """Write a time as people read it; three dots where it is not known yet.

    Examples
    --------
    >>> duration(8.2), duration(75), duration(5400), duration(float("inf"))
    ('8 s', '1:15 min', '1:30 h', '...')
    """
    if seconds > 1e7:
        return "..."
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
    return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d} h"


def short_duration(seconds: float) -> str:
    """Write a time in the unit of its size, with two digits if it is below ten seconds.

    Examples
    --------
    >>> short_duration(0.0312), short_duration(75)
    ('31 ms', '1:15 min')
    """
    if 0.0 < seconds < 0.0995:
        return f"{1e3 * seconds:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 9.5 else duration(seconds)


def speed(rounds_per_second: float) -> str:
    """Write how fast a simulation runs.

    Examples
    --------
    >>> speed(123_456_789)
    '123.5 M rounds/s'
    """
    return f"{rounds_per_second / 1e6:,.1f} M rounds/s"


def percent(part: int, whole: int) -> int:
    """Return a share in per cent, rounded down; it is 100 only for the whole.

    Examples
    --------
    >>> percent(999, 1000), percent(0, 0)
    (99, 100)
    """
    return 100 * part // whole if whole else 100


def clipped(line: str, width: int) -> str:
    """Cut a line to a width, with an ellipsis where something is missing.

    Examples
    --------
    >>> clipped("a long sentence", 10)
    'a long se…'
    """
    return line if len(line) <= width else line[: width - 1] + "…"


def watched() -> bool:
    """Return whether a person sees the standard error: on a terminal or in a notebook."""
    if sys.stderr is None or sys.stderr.closed:
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def descriptions(docstring: str) -> dict[str, str]:
    r"""Return the descriptions of parameters in a docstring, by name.

    Examples
    --------
    >>> descriptions("Parameters\n----------\nx, y : int\nlow : float\n    The\n    least.")
    {'low': 'The least.'}
    """
    found = re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", docstring, re.MULTILINE)
    return {name: " ".join(lines.split()) for name, lines in found}
