"""Colours, lines and markers: the same algorithm looks the same in every figure.

Colours are those of Okabe and Ito, told apart with any colour vision; lines and markers differ as
well, so nothing is lost in black and white.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bothworlds.registry import Variant, variant_of, variants, words


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
"""Every algorithm of the paper by its name there, and all other algorithms by their own."""

_SPARE = (
    ("#117733", "-", ">"),
    ("#AA4499", (0, (7, 1.5)), "h"),
    ("#6A3D00", (0, (3, 1.5, 1, 1.5)), "*"),
    ("#332288", (0, (1.5, 1)), "d"),
    ("#7A7A00", (0, (10, 1.5)), "p"),
    ("#444444", (0, (5, 1, 1, 1, 1, 1)), "8"),
)
"""Looks for algorithms the table does not know, and lines for further settings of one it does."""

_SHADES = (0.72, 0.5, 0.86, 0.6)
"""Darker shades of an algorithm's colour, for further settings of it."""


def looks(names: Iterable[str], policies: Mapping[str, str] | None = None) -> dict[str, Look]:
    """Return a look for every name: the algorithm's own, or a spare one.

    Parameters
    ----------
    names : iterable of str
        The paper's names, words of the shell or constructors, as `bothworlds.simulate` gives them.
    policies : mapping of str to str, optional
        The constructor behind a name: the colour is the algorithm's, regardless of its name.

    Returns
    -------
    dict of str to Look
        No two are alike; further settings of an algorithm have shades of its colour.

    Examples
    --------
    >>> [look.colour for look in looks(["UCB1()", "UCB1(c=2.0)", "mine"]).values()]
    ['#D55E00', '#994400', '#117733']
    >>> looks(["mine"], {"mine": "UCB1(c=2.0)"})["mine"].colour
    '#D55E00'
    >>> [look.colour for look in looks(["Sparring()", "Sparring(UCB1())"]).values()]
    ['#0072B2', '#D55E00']
    """
    chosen: dict[str, Look] = {}
    taken: dict[str, int] = {}
    spare = 0
    for name in names:
        known = _own_look((policies or {}).get(name, name)) or _own_look(name)
        if known is None:
            colour, line, marker = _SPARE[spare % len(_SPARE)]
            chosen[name] = Look(name, colour, line, marker)
            spare += 1
            continue
        again = taken.setdefault(known.colour, 0)
        taken[known.colour] += 1
        if not again:
            chosen[name] = Look(name, known.colour, known.line, known.marker, known.width)
            continue
        _, line, marker = _SPARE[(again - 1) % len(_SPARE)]
        colour = shade(known.colour, _SHADES[(again - 1) % len(_SHADES)])
        chosen[name] = Look(name, colour, line, marker)
    return chosen


def shade(colour: str, factor: float) -> str:
    """Return a darker colour.

    Examples
    --------
    >>> shade("#808080", 0.5)
    '#404040'
    """
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part * factor):02X}" for part in parts)


def _own_look(name: str) -> Look | None:
    # In duels an algorithm looks as it does alone.
    sparring = re.fullmatch(r"Sparring\((.*)\)", name)
    if sparring is not None:
        name = sparring.group(1) or "TsallisINF()"
    variant = variant_of(name)
    if variant is not None:
        return _look(variant)
    if name in LOOKS:
        return LOOKS[name]
    known = words().get(name.lower())
    return None if known is None else _look(known[1])
