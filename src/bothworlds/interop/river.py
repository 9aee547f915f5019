"""River adapter: a policy of this library as one of river's bandit policies.

`RiverPolicy` works with ``river.bandit.evaluate`` and ``river.bandit.evaluate_offline``, next to
river's policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bothworlds.arguments import checked_bounds
from bothworlds.bandit.bandit import Bandit
from bothworlds.bandit.decision import Arm, Decision
from bothworlds.errors import UnknownDecision, invalid, missing_extra, must
from bothworlds.policies.base import Policy
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.seeding import checked_seed

try:
    from river.bandit.base import Policy as BanditPolicy
except ImportError as error:
    raise missing_extra("interop", "river") from error


class RiverPolicy(BanditPolicy):
    """A bandit of this library that pulls and updates as river's policies do.

    An update belongs to the last pull. Pulling again before it gives the same arm as long as that
    arm is there: nothing was learned, so the decision stands. In offline evaluation, where most
    pulls never get an answer, no round is lost that way.

    Parameters
    ----------
    policy : Policy
        The algorithm, such as ``TsallisINF()``.
    bounds : pair of float, default (0, 1)
        The smallest and the largest possible reward; others are refused.
    seed : int, optional
        Makes the draws repeatable.

    Examples
    --------
    >>> import random
    >>> import bothworlds as bw
    >>> from river import bandit
    >>> rng = random.Random(1)
    >>> log = [(["a", "b"], None, rng.choice("ab"), rng.random() < 0.5) for _ in range(100)]
    >>> reward, used = bandit.evaluate_offline(RiverPolicy(bw.UCB1(), seed=1), log)
    >>> 30 < used < 70
    True
    """

    def __init__(
        self,
        policy: Policy,
        bounds: tuple[float, float] = (0.0, 1.0),
        seed: int | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            raise invalid("policy", "RiverPolicy", "a policy such as TsallisINF()", policy)
        super().__init__()
        # river clones by calling the constructor with the attributes of these names.
        self.policy = policy
        self.bounds = checked_bounds(bounds)
        self.seed = None if seed is None else checked_seed(seed, "RiverPolicy")
        self._bandit: Bandit | None = None
        self._decision: Decision | None = None

    @property
    def bandit(self) -> Bandit | None:
        """The bandit at work; None before the first pull names the arms."""
        return self._bandit

    def _pull(self, arm_ids: Iterable[Arm]) -> Arm:
        arms = list(arm_ids)
        if self._bandit is None:
            self._bandit = Bandit(self.policy, arms, seed=self.seed, bounds=self.bounds)
        bandit = self._bandit
        if self._decision is not None and self._decision.arm in arms:
            return self._decision.arm
        for arm in arms:
            if arm not in bandit.arms:
                bandit.add_arm(arm)
        decision = bandit.ask() if len(arms) == len(bandit.arms) else bandit.ask(arms)
        # A decision whose arm went away before its feedback came is given up.
        for number in bandit.pending:
            if number != decision.id:
                bandit.forget(number)
        self._decision = decision
        return decision.arm

    def update(self, arm_id: Arm, *reward_args: Any, **reward_kwargs: Any) -> None:
        """Learn the reward of the last pull.

        Parameters
        ----------
        arm_id : str or int
            The arm it gave.
        *reward_args, **reward_kwargs
            The reward; what follows it goes to river's own statistics.
        """
        if self._bandit is None or self._decision is None or self._decision.arm != arm_id:
            expected = "the arm of the last pull, not updated before"
            raise UnknownDecision(must("arm_id", "RiverPolicy.update", expected, arm_id))
        self._bandit.tell(self._decision, reward=reward_args[0] if reward_args else None)
        self._decision = None
        super().update(arm_id, *reward_args, **reward_kwargs)  # type: ignore[no-untyped-call]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"policy": TsallisINF()}
