"""Colours, lines and markers: the same algorithm looks the same in every figure.

Colours are those of Okabe and Ito, told apart with any colour vision; lines and markers differ as
well, so nothing is lost in black and white.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


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


LOOKS: dict[str, Look] = {
    look.label: look
    for look in (
        Look("Tsallis-INF (RV)", "#0072B2", "-", "o", 2.0),
        Look("Tsallis-INF (IW)", "#56B4E9", (0, (5, 1.5)), "s", 1.7),
        Look("Thompson sampling", "#009E73", (0, (6, 1.5, 1.2, 1.5)), "^"),
        Look("UCB1", "#D55E00", (0, (1.2, 1.2)), "v"),
        Look("EXP3", "#E69F00", (0, (9, 2)), "D"),
        Look("EXP3++", "#CC79A7", (0, (4, 1.2, 1.2, 1.2, 1.2, 1.2)), "P"),
        Look("BROAD", "#3B3B3B", (0, (2.5, 1.2)), "X"),
        Look("KL-UCB", "#882255", (0, (1.2, 2.4)), "<"),
        Look("Tsallis-INF, floor", "#44AA99", (0, (7, 1.2, 1.2, 1.2, 1.2, 1.2)), ">"),
        Look("Uniform", "#8C8C8C", (0, (1, 3)), "_"),
    )
}
"""Every algorithm of the paper by its name there, and the others by their own."""

_CONSTRUCTORS = {
    "TsallisINF()": "Tsallis-INF (RV)",
    "TsallisINF(estimator='iw')": "Tsallis-INF (IW)",
    "ThompsonSampling": "Thompson sampling",
    "UCB1": "UCB1",
    "Exp3": "EXP3",
    "Exp3PlusPlus": "EXP3++",
    "Broad": "BROAD",
    "KLUCB": "KL-UCB",
    "Floor": "Tsallis-INF, floor",
    "Uniform": "Uniform",
}

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
        known = LOOKS.get(_paper_name(name))
        if known is not None and known.colour not in taken:
            chosen[name] = Look(name, known.colour, known.line, known.marker, known.width)
            taken.add(known.colour)
        else:
            colour, line, marker = _SPARE[spare % len(_SPARE)]
            chosen[name] = Look(name, colour, line, marker)
            spare += 1
    return chosen


def _paper_name(name: str) -> str:
    # In duels an algorithm looks as it does alone.
    sparring = re.fullmatch(r"Sparring\((.*)\)", name)
    if sparring is not None:
        name = sparring.group(1) or "TsallisINF()"
    if name in _CONSTRUCTORS:
        return _CONSTRUCTORS[name]
    called = re.match(r"(\w+)\(", name)
    return _CONSTRUCTORS.get(called.group(1), name) if called else name
