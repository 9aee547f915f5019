"""Sparring: two bandits on the sides of a duel, the loser's loss is 1 (Ailon et al., 2014)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from bothworlds.arguments import flag, keep
from bothworlds.errors import invalid
from bothworlds.policies.base import Player, Policy, Program, Traits, unchecked
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.policies.tsallis_inf.shared import TwoDraws, duel_program

DEFAULT = TsallisINF()


@dataclass(frozen=True, repr=False)
class Sparring(Player):
    """A dueling algorithm built from any policy.

    Every round the left side draws an arm and the right side draws an arm; they duel, and the
    losing side has loss 1, the winning side loss 0. The side counts, not the arm: where both hold
    the same arm, a fair coin decides, and one side learns that it lost.

    The two sides are either two bandits that know nothing of each other, or one: both arms are
    drawn from its distribution, and it learns half of each side's loss estimate, so from twice
    the feedback. Corollary 2 of the article is about two states. Its proof extends to one, which
    the article does not state: the stability term is convex in the loss estimate, so that of a mean
    of two estimates is at most the mean of theirs, and the same bounds hold.

    One state is the default because it was better in our measurements; mean regret after 10^6
    rounds in 320 runs, ± one standard error (``bothworlds paper dueling --full``):

    ============================================= =============== ===============
    duels                                         one state       two states
    ============================================= =============== ===============
    constant utilities, 8 arms, gap 1/4           970 ± 9         1,496 ± 42
    a matrix that no utilities make, 6 arms       399 ± 4         615 ± 5
    utilities of all but the best shift, 8 arms   711 ± 4         1,000 ± 8
    the best arm's lead fades, 8 arms             4,998 ± 69      6,862 ± 61
    two arms take turns in leading                2,968 ± 2,223   -2,250 ± 1,711
    ============================================= =============== ===============

    In the last line all regret is small compared with the lead that changes hands, and two states
    follow it sooner.

    Parameters
    ----------
    policy : Policy, default TsallisINF()
        What plays on both sides.
    shared : bool, optional
        Whether the sides share one state, which only `TsallisINF` with "rv" or "iw" can. By
        default they do where they can.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.Sparring(), bw.Sparring(bw.UCB1()), bw.Sparring(shared=False)
    (Sparring(), Sparring(UCB1()), Sparring(shared=False))
    >>> world = bw.environments.Utilities([0.9, 0.5, 0.4])
    >>> result = bw.simulate([bw.Sparring()], world, horizon=1000, repetitions=32, seed=1)
    >>> bool(result.regret["Sparring()"][:, -1].mean() < 300)
    True

    References
    ----------
    Ailon, Karnin and Joachims, *Reducing Dueling Bandits to Cardinal Bandits*, ICML 2014; Zimmert
    and Seldin, *Tsallis-INF*, JMLR 22, 2021, section 6 and Corollary 2.
    """

    policy: Policy = DEFAULT
    shared: bool | None = None

    traits: ClassVar[Traits] = Traits(kind="duel")

    def __post_init__(self) -> None:
        owner = "Sparring"
        if not isinstance(self.policy, Policy):
            raise invalid("policy", owner, "a policy such as TsallisINF()", self.policy)
        fits = _can_share(self.policy)
        given = fits if self.shared is None else self.shared
        keep(self, shared=flag("shared", given, owner, "True, False or None"))
        own = self.policy.traits
        keep(self, traits=replace(self.traits, nanoseconds=own.nanoseconds, trusted=own.trusted))
        if self.shared and not fits:
            expected = (
                f"False unless the policy is TsallisINF with 'rv' or 'iw', not {self.policy!r}"
            )
            raise invalid("shared", owner, expected, self.shared)

    def __repr__(self) -> str:
        given = [] if self.policy == DEFAULT else [repr(self.policy)]
        if self.shared != _can_share(self.policy):
            given.append(f"shared={self.shared}")
        return f"Sparring({', '.join(given)})"

    def side(self) -> Policy:
        """Return the policy of the bandit on a side."""
        own = self.policy
        return TwoDraws(own) if self.shared and isinstance(own, TsallisINF) else own

    def rehearse(self, n_arms: int, name: str, horizon: int) -> None:
        """Rehearse the policy."""
        self.policy.rehearse(n_arms, name, horizon)

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the kernels of both sides, which the engine calls."""
        own = self.policy
        if self.shared and isinstance(own, TsallisINF):
            return duel_program(own, n_arms)
        kernels = unchecked(own, n_arms)
        return Program.of(own, n_arms, kernels, right=kernels)


def _can_share(policy: Policy) -> bool:
    """Return whether two draws of a round can learn from one state."""
    return isinstance(policy, TsallisINF) and policy.estimator != "soft"
