"""The algorithms of the paper's figures, by the names they have there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bothworlds.policies.base import Policy

RV = "Tsallis-INF (RV)"
IW = "Tsallis-INF (IW)"
THOMPSON = "Thompson sampling"
UCB = "UCB1"
EXP3 = "EXP3"
EXP3PP = "EXP3++"
BROAD = "BROAD"
KL = "KL-UCB"

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
        Which to return; all but KL-UCB by default.
    with_kl_ucb : bool
        Whether to add KL-UCB, which the paper ran but did not plot.

    Examples
    --------
    >>> lineup(1000, (RV, BROAD))
    {'Tsallis-INF (RV)': TsallisINF(), 'BROAD': Broad(horizon=1000)}
    """
    import bothworlds as bw

    every: dict[str, Policy] = {
        RV: bw.TsallisINF(),
        IW: bw.TsallisINF(estimator="iw"),
        THOMPSON: bw.ThompsonSampling(),
        UCB: bw.UCB1(),
        EXP3: bw.Exp3(),
        EXP3PP: bw.Exp3PlusPlus(),
        BROAD: bw.Broad(horizon=max(2, horizon)),
        KL: bw.KLUCB(),
    }
    wanted = names or tuple(name for name in every if name != KL)
    return {name: every[name] for name in (*wanted, *((KL,) if with_kl_ucb else ()))}
