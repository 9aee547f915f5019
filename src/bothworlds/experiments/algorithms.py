"""The algorithms of the paper's figures, by the names they have there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bothworlds.registry import words

if TYPE_CHECKING:
    from bothworlds.policies.base import Policy

_WORDS = words()
_KNOWN = (
    "tsallis", "tsallis-iw", "thompson", "ucb1", "exp3", "exp3++", "broad", "kl-ucb",
    "tsallis-soft",
)  # fmt: skip
_LABELS = tuple(_WORDS[word][1].label for word in _KNOWN)

RV, IW, THOMPSON, UCB, EXP3, EXP3PP, BROAD, KL, SOFT = _LABELS

_BEYOND = ("tsallis-v", "lbinfv", "htinf", "adatinf", "restarted", "discounted", "alarmed", "floor")

V, LB, HT, ADA, RESTARTED, DISCOUNTED, ALARMED, FLOOR = (_WORDS[word][1].label for word in _BEYOND)
FRECHET, PARETO = (_WORDS[word][1].label for word in ("ftpl", "ftpl-pareto"))
ALLWORLDS = _WORDS["allworlds"][1].label
"""Labels of later algorithms."""

PAPER = (RV, IW, THOMPSON, UCB, EXP3, EXP3PP, BROAD)
"""Those of Figures 1 to 4."""

GRID = (RV, IW, SOFT, *PAPER[2:])
"""Those played on the grid of Figures 1 to 4; soft baselines are ours."""

RIVALS = (UCB, EXP3, EXP3PP, BROAD)
"""Those that Tsallis-INF is to beat in the stochastic regime."""


def lineup(
    horizon: int, names: tuple[str, ...] = (), with_kl_ucb: bool = False
) -> dict[str, Policy]:
    """Return the algorithms of Figures 1 to 4, or those named.

    Parameters
    ----------
    horizon : int
        Which BROAD has to know in advance.
    names : tuple of str
        Which to return; those of the figures by default.
    with_kl_ucb : bool
        Whether to add KL-UCB, which the paper ran but did not plot.

    Examples
    --------
    >>> lineup(1000, (RV, BROAD))
    {'Tsallis-INF (RV)': TsallisINF(), 'BROAD': Broad(horizon=1000)}
    """
    every = dict(zip(_LABELS, _KNOWN, strict=True))
    wanted = (*(names or PAPER), *((KL,) if with_kl_ucb else ()))
    chosen = {name: _WORDS[every[name]] for name in wanted}
    return {name: entry.made(variant, horizon) for name, (entry, variant) in chosen.items()}
