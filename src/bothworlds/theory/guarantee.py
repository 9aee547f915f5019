"""The best bound that applies to one configuration, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bothworlds.arguments import FloatArray, estimator_name, non_negative
from bothworlds.errors import invalid
from bothworlds.theory.arguments import arm_count, gap_vector, horizons
from bothworlds.theory.competitors import exp3, ucb1
from bothworlds.theory.upper import (
    adversarial,
    corrupted,
    general_adversarial,
    general_stochastic,
    self_bounding,
)

if TYPE_CHECKING:
    from bothworlds.policies import HTINF, LBINFV, UCB1, Floor, Restarted, Sparring, TsallisINF

__all__ = ["Guarantee", "guarantee"]


@dataclass(frozen=True)
class Guarantee:
    """The guarantee for one configuration.

    Attributes
    ----------
    value : float or None
        The bound on the pseudo-regret; None without a guarantee, or where only its order is known.
    theorem : str or None
        The result it comes from, or None without a guarantee.
    reason : str
        Why this result applies, or why none does.

    Examples
    --------
    >>> Guarantee(None, None, "the learning rate is the user's own").value is None
    True
    """

    value: float | None
    theorem: str | None
    reason: str


@dataclass(frozen=True)
class _Question:
    """The question: K arms, T rounds, perhaps the gaps, and a budget of corruption."""

    n_arms: int
    horizon: float
    gaps: FloatArray | None
    corruption: float

    @property
    def unique(self) -> bool:
        return self.gaps is not None and int(np.count_nonzero(self.gaps == 0.0)) == 1


def guarantee(
    policy: object,
    *,
    n_arms: int,
    horizon: float,
    gaps: ArrayLike | None = None,
    corruption: float = 0.0,
) -> Guarantee:
    """Return the bound that holds for a policy here, or the reason why none does.

    Without ``gaps`` the environment may be any adversary. With ``gaps`` it is a stochastically
    constrained adversary with these gaps, corrupted by at most ``corruption`` (the sum over rounds
    of the largest change in a round); the losses of UCB1 must moreover be independent with fixed
    means. Of all results that apply, the smallest value is returned.

    For `Sparring` the regret is that of duels, and ``gaps`` are the gaps of constant utilities;
    without them the utilities may change in any way. Preferences that come from no utilities are
    not covered.

    Parameters
    ----------
    policy : object
        A policy's configuration, such as ``TsallisINF()`` or ``Sparring()``.
    n_arms : int
        K, at least 2.
    horizon : float
        T, at least 1.
    gaps : array_like, optional
        One entry per arm in [0, 1], at least one of them zero.
    corruption : float
        The budget of corruption, at least 0.

    Returns
    -------
    Guarantee
        Its ``value`` and ``theorem`` are None where nothing is known; ``reason`` is never empty.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.bounds.guarantee(bw.TsallisINF(estimator="iw"), n_arms=4, horizon=100)
    Guarantee(value=81.0, theorem='Theorem 1 (adversarial)', reason='holds against any adversary')
    >>> print(bw.bounds.guarantee(bw.TsallisINF(learning_rate=0.1), n_arms=4, horizon=100).reason)
    the theorems fix the learning rate, this one is the user's own
    >>> print(bw.bounds.guarantee(bw.Sparring(), n_arms=4, horizon=100, gaps=[0, 1, 1, 1]).theorem)
    Corollary 2
    """
    owner = "guarantee"
    K = arm_count(n_arms, owner)
    T = horizons(horizon, owner)
    if T.ndim:
        raise invalid("horizon", owner, "a single number of rounds", horizon)
    D = None if gaps is None else gap_vector(gaps, owner, unique=False)
    if D is not None and D.size != K:
        raise invalid("gaps", owner, f"a vector of n_arms = {K} gaps", gaps)
    asked = _Question(K, float(T), D, non_negative("corruption", corruption, owner))

    from bothworlds.policies import Sparring

    # A subclass may play otherwise: what is proved is proved of the class itself.
    return _sparring(policy, asked) if type(policy) is Sparring else _alone(policy, asked)


def _alone(policy: object, asked: _Question) -> Guarantee:
    """Answer for a policy that plays one arm a round."""
    from bothworlds import policies

    answers: dict[type, Callable[[Any, _Question], Guarantee]] = {
        policies.TsallisINF: _tsallis_inf,
        policies.Exp3: _exp3,
        policies.UCB1: _ucb1,
        policies.LBINFV: _lbinfv,
        policies.HTINF: _htinf,
        policies.AdaTINF: _adatinf,
        policies.Restarted: _restarted,
        policies.Floor: _floor,
    }
    if type(policy) in answers:
        return answers[type(policy)](policy, asked)
    name = type(policy).__name__
    reason = policy.traits.unproved if isinstance(policy, policies.Policy) else ""
    return _none(reason or f"no result of the article covers the policy {name}")


def _sparring(policy: Sparring, asked: _Question) -> Guarantee:
    """Answer for duels, whose regret is twice the sum of the two sides' (Corollary 2).

    A side meets an adaptive adversary. With constant utilities it is stochastically constrained:
    its gaps are half of theirs, and its losses are not independent, because their level moves
    with the opponent. One state on both sides has the regret of either: its stability term is
    convex in the loss estimate, so that of a mean of two is at most the mean of theirs.
    """
    from bothworlds.policies import UCB1

    side = policy.policy
    if type(side) is UCB1:
        return _none("UCB1 needs independent losses, but the opponent moves the level of a side's")
    gaps = None if asked.gaps is None or asked.corruption > 0.0 else asked.gaps / 2.0
    found = _alone(side, _Question(asked.n_arms, asked.horizon, gaps, 0.0))
    if found.value is None:
        return found
    reason = f"both sides: {found.reason}"
    if asked.gaps is not None and asked.corruption > 0.0:
        reason += "; the corollary has no corrupted version"
    if policy.shared:
        reason += "; they share one state, to which the proof extends by convexity"
    exact = str(found.theorem).startswith("Theorem 1")
    theorem = "Corollary 2" if exact else f"{found.theorem}, on both sides"
    return Guarantee(4.0 * found.value, theorem, reason)


_ANY = "holds against any adversary"
_HEAVY = "Huang, Dai and Huang 2022"
_OWN_RATE = "the theorems fix the learning rate, this one is the user's own"


def _none(reason: str) -> Guarantee:
    return Guarantee(None, None, reason)


def _best(results: list[tuple[float, str, str]]) -> Guarantee:
    value, theorem, reason = min(results)
    return Guarantee(float(value), theorem, reason)


def _exp3(policy: object, asked: _Question) -> Guarantee:
    value = exp3(asked.n_arms, asked.horizon)
    return _best([(value, "Bubeck and Cesa-Bianchi 2012, Theorem 3.1", _ANY)])


def _adatinf(policy: object, asked: _Question) -> Guarantee:
    order = "order scale K^(1 - 1/a) T^(1/a) for losses of finite a-th moment, a not known"
    return Guarantee(None, _HEAVY, f"{order}; against adversaries only, no constant")


def _ucb1(policy: UCB1, asked: _Question) -> Guarantee:
    if asked.gaps is None:
        return _none("UCB1 is covered for independent losses with known gaps, not for adversaries")
    if asked.corruption > 0.0:
        return _none("UCB1 is covered for independent losses only, not for corrupted ones")
    if policy.c <= 1.0:
        return _none("the bound of UCB1 needs a bonus factor c larger than 1")
    value = ucb1(asked.gaps, asked.horizon, policy.c)
    return _best([(value, "Bubeck and Cesa-Bianchi 2012, Theorem 2.1", "losses are independent")])


def _lbinfv(policy: LBINFV, asked: _Question) -> Guarantee:
    """Answer with the order of the theorems, whose constants are not printed."""
    if asked.horizon > policy.horizon:
        return _none("its theorem needs a horizon at least as long as the game")
    order = "order sum_i (variance_i / gap_i + 1) log T, about twice the lower bound's constant"
    if asked.gaps is None and policy.prediction == "gd":
        order = "order sqrt(K V log T), V the path length of the losses"
    elif asked.gaps is None:
        order = "order sqrt(K log T min(L*, T - L*, Q)), L* the best arm's loss"
    elif asked.corruption > 0.0:
        order += ", and the square root of that times the corruption"
    return Guarantee(None, "Ito, Tsuchiya and Honda 2022", f"{order}; no constant to evaluate")


def _htinf(policy: HTINF, asked: _Question) -> Guarantee:
    """Answer for losses whose moment of order ``tail`` is at most scale^tail."""
    s, a = policy.scale, policy.tail
    if policy.skip == "below":
        value = 4.0 * s * np.sqrt(asked.n_arms * asked.horizon) + s
        reason = f"losses are not negative and their second moments at most {s:g}^2"
        if asked.gaps is not None:
            reason += "; with fixed gaps also of order scale^2 sum log T / gap"
        return _best([(value, "Theorem 1's proof with second moments", reason)])
    reason = f"order scale K^{1 - 1 / a:.3g} T^{1 / a:.3g}"
    if asked.gaps is not None and asked.corruption == 0.0:
        reason = f"order scale^{a / (a - 1):.3g} sum gap^-{1 / (a - 1):.3g} log T"
    condition = "provided large losses of the best arm do not have a negative mean; no constant"
    return Guarantee(None, _HEAVY, f"{reason} for moments of order {a:g}, {condition}")


def _restarted(policy: Restarted, asked: _Question) -> Guarantee:
    """Answer for blocks of rounds, each of which the policy plays as if it were alone.

    Against one fixed arm; against the best arm of every block as well, if it does not move within
    a block.
    """
    length = min(float(policy.every), asked.horizon)
    blocks, rest = divmod(asked.horizon, length)
    found = [
        (count, _alone(policy.policy, replace(asked, horizon=rounds)))
        for count, rounds in ((blocks, length), (1.0, rest))
        if rounds >= 1.0
    ]
    if any(each.value is None for _, each in found):
        return found[0][1]
    value = sum(count * (each.value or 0.0) for count, each in found)
    # Less than a round is left where the horizon is no whole number.
    value += rest if rest < 1.0 else 0.0
    reason = f"in every block: {found[0][1].reason}; the regrets of the blocks add up"
    return Guarantee(value, f"{found[0][1].theorem}, block by block", reason)


def _floor(policy: Floor, asked: _Question) -> Guarantee:
    """Answer for a distribution p = a + M w with constant shares a, M = 1 - sum a.

    The regret is that of the rounds drawn by a, and M times that of w.  Estimates weighted by 1 / p
    are unbiased, and their second moments times w at most 1 / M of those weighted by 1 / w.  So
    M times the regret of w is at most the sum of the penalty and the stability of the theorem.
    """
    from bothworlds.policies import Exp3, TsallisINF

    K, T = asked.n_arms, asked.horizon
    low, high = policy.limits(K)
    if (high < 1.0).any():
        return _none("a largest share below 1 keeps the best arm's traffic back in every round")
    if policy.scale > 0.0 and policy.power > 0.0:
        return _none("the floor changes with the rounds, which the theorems do not cover")
    inner = policy.policy
    if type(inner) is not Exp3 and not (type(inner) is TsallisINF and inner.estimator == "iw"):
        return _none("with a floor or shares only importance weighting ('iw') and Exp3 are covered")
    found = _alone(inner, replace(asked, gaps=None, corruption=0.0))
    if found.value is None:
        return found
    even = (1.0 - float(low.sum())) * min(policy.scale, 1.0) / K
    drawn = low + even
    cost, known = float(drawn.sum() - drawn.min()), "at most its share"
    if asked.gaps is not None and asked.corruption == 0.0:
        cost, known = float(drawn @ asked.gaps), "its share times its gap"
    reason = f"{found.reason}; every arm costs {known} in a round"
    return Guarantee(found.value + T * cost, f"{found.theorem}, and the shares", reason)


def _tsallis_inf(policy: TsallisINF, asked: _Question) -> Guarantee:
    # Not above: experiments, which judge by this module, are listed without loading Numba.
    from bothworlds.omd.learning_rates import Theorem1, Theorem3, paper_schedule

    alpha, estimator, oracle = policy.alpha, policy.estimator, policy.gaps
    if estimator == "soft":
        return _none(policy.traits.unproved)
    usual = paper_schedule(alpha, oracle is not None)
    rate = policy.learning_rate or usual
    if rate != usual and (oracle is not None or rate != Theorem3()):
        return _none(_OWN_RATE)
    if oracle is not None:
        return _oracle(alpha, estimator, np.asarray(oracle, dtype=np.float64), asked)
    if rate == Theorem1():
        return _best(list(_theorem_1(estimator, asked)))
    if estimator != "iw":
        return _none("Theorem 3 covers importance weighting ('iw') only")
    reason = _ANY
    if asked.gaps is not None:
        reason += "; logarithmic regret at alpha other than 1/2 needs the true gaps in the policy"
    value = general_adversarial(alpha, asked.n_arms, asked.horizon)
    return _best([(value, "Theorem 3", reason)])


def _theorem_1(estimator: str, asked: _Question) -> Iterator[tuple[float, str, str]]:
    name = estimator_name(estimator, "TsallisINF")
    reason = _ANY
    if asked.gaps is not None and not asked.unique:
        reason += "; the logarithmic bound needs a unique best arm"
    yield adversarial(asked.n_arms, asked.horizon, name), "Theorem 1 (adversarial)", reason
    if asked.gaps is None or not asked.unique:
        return
    if asked.corruption > 0.0:
        value = corrupted(asked.gaps, asked.horizon, asked.corruption, name)
        yield value, "Corollary 1", "the best arm is unique and the corruption is bounded"
    else:
        value = self_bounding(asked.gaps, asked.horizon, 0.0, name)
        yield value, "Theorem 1 (self-bounding)", "the gaps are fixed and the best arm is unique"


def _oracle(alpha: float, estimator: str, oracle: FloatArray, asked: _Question) -> Guarantee:
    if estimator != "iw":
        return _none("Theorem 4 covers importance weighting ('iw') only")
    if asked.gaps is None:
        return _none("Theorem 4 needs an environment with fixed gaps, an adversary has none")
    if not asked.unique:
        return _none("Theorem 4 needs a unique best arm")
    if asked.corruption > 0.0:
        return _none("Theorem 4 has no corrupted version")
    # At alpha = 1/2 the regulariser is symmetric regardless of the gaps.
    if alpha != 0.5 and not np.array_equal(oracle, asked.gaps):
        return _none("Theorem 4 needs the true gaps in the policy, these are others")
    value = general_stochastic(alpha, asked.gaps, asked.horizon)
    return _best([(value, "Theorem 4", "the policy is tuned with the true gaps")])
