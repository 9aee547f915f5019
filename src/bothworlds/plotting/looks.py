"""Colours, lines and markers: the same algorithm looks the same in every figure.

Colours are those of Okabe and Ito, told apart with any colour vision; lines and markers differ as
well, so nothing is lost in black and white.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bothworlds.registry import Variant, variant_of, variants


@dataclass(frozen=True)
class Look:
    """How one algorithm is drawn.

    Parameters
    ----------
    label : str
        Its name in legends.
    colour : str
        Hexadecimal.
    line : str or tuple
        A dash pattern of matplotlib.
    marker : str
        A marker of matplotlib.
    width : float
        Of the line, in points.
    """

    label: str
    colour: str
    line: Any
    marker: str
    width: float = 1.3


def _look(variant: Variant) -> Look:
    return Look(variant.label, variant.colour, variant.line, variant.marker, variant.width)


LOOKS: dict[str, Look] = {variant.label: _look(variant) for variant in variants()}
"""Every algorithm of the paper by its name there, and the others by their own."""

_SPARE = (
    ("#117733", "-", ">"),
    ("#AA4499", (0, (7, 1.5)), "h"),
    ("#6A3D00", (0, (3, 1.5, 1, 1.5)), "*"),
    ("#332288", (0, (1.5, 1)), "d"),
    ("#7A7A00", (0, (10, 1.5)), "p"),
    ("#444444", (0, (5, 1, 1, 1, 1, 1)), "8"),
)
"""Looks for names the table does not know."""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for every name: the algorithm's own, or a spare one.

    Names may be the paper's or constructors, as `bothworlds.simulate` gives them. No two names
    share a look.

    Examples
    --------
    >>> [look.colour for look in looks(["UCB1()", "UCB1(c=2.0)", "UCB1"]).values()]
    ['#D55E00', '#117733', '#AA4499']
    >>> [look.colour for look in looks(["Sparring()", "Sparring(UCB1())"]).values()]
    ['#0072B2', '#D55E00']
    """
    chosen: dict[str, Look] = {}
    taken: set[str] = set()
    spare = 0
    for name in names:
        known = _own_look(name)
        if known is not None and known.colour not in taken:
            chosen[name] = Look(name, known.colour, known.line, known.marker, known.width)
            taken.add(known.colour)
        else:
            colour, line, marker = _SPARE[spare % len(_SPARE)]
            chosen[name] = Look(name, colour, line, marker)
            spare += 1
    return chosen


def _own_look(name: str) -> Look | None:
    # In duels an algorithm looks as it does alone.
    sparring = re.fullmatch(r"Sparring\((.*)\)", name)
    if sparring is not None:
        name = sparring.group(1) or "TsallisINF()"
    variant = variant_of(name)
    return LOOKS.get(name) if variant is None else _look(variant)
