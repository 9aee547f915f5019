"""Player and Policy, the base classes, with their answers: a `Program` and `Traits`.

A policy holds no number of arms, no state and no generator.  Those live in a `bothworlds.Bandit`
or in a tile of the simulation engine, which call the kernels; `bothworlds.lanes.kernels` defines
their shape.  `Policy.program` returns the functions, the parameters and the first state for one
number of arms, and `Policy.traits` lists what the policy can do.

A state is `Traits.head_rows` rows followed by `Traits.rows_per_arm` groups of one row per arm, so
arms can be added, removed and masked without knowing the algorithm.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import Arm
from bothworlds.errors import BothworldsError, invalid
from bothworlds.lanes import native, wrap
from bothworlds.lanes.kernels import ARMS
from bothworlds.registry import POLICIES, Entry
from bothworlds.usercode import call, fault, no_arm

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LaneKernels:
    """Kernels of an inner policy in lanes, one repetition each.

    Parameters
    ----------
    weight : dispatcher
        ``(..., arm)``: the probability of an arm in this round.
    learn : dispatcher
        ``(..., arm, inverse_p, loss)``: learn from any arm and any probability of the round.
    fading : dispatcher, optional
        ``(..., arm, inverse_p, loss, retained)``: the same, and the earlier estimates, seen from
        the least, shrink by this factor. Which arms get a baseline is judged before.
    each_round : bool
        Whether ``choose`` and ``update`` take another round in every lane.
    """

    weight: Any
    learn: Any
    fading: Any = None
    each_round: bool = False


@dataclass(frozen=True)
class InnerKernels:
    """The kernels of which `Kernels.of` makes the wrappers, for policies around other policies.

    Every kernel has the shape ``(K, t, C, S, G, ...)``.

    Parameters
    ----------
    weights, near : dispatcher, optional
        ``(..., out)``; without ``weights`` the distribution of a draw is not known. Where
        ``choose`` leaves it in the state, not normalised, ``weights`` is where: the number of
        rows before the arms', and which of their groups.
    draws : bool
        Whether ``choose`` is given a random number, or 0.
    asked, answered : dispatcher, optional
        ``(..., arm)``: run by ``ask`` after ``choose`` and by ``tell`` after ``update``, for
        what only late feedback needs. Together they leave the state as ``update`` does.
    late : dispatcher, optional
        ``(..., arm, inverse_p, loss, near)``.
    estimates_changed, write_back : dispatcher, optional
        ``(K, t, C, S, G)``.
    any_draw : bool
        Whether ``update`` takes any arm and any probability of the round, as a policy around
        this one may draw, although there is ``late``.
    in_lanes : LaneKernels, optional
        What policies around this one need to run in lanes as well.
    """

    weights: Any = None
    draws: bool = True
    asked: Any = None
    answered: Any = None
    near: Any = None
    late: Any = None
    estimates_changed: Any = None
    write_back: Any = None
    any_draw: bool = False
    in_lanes: LaneKernels | None = None


@dataclass(frozen=True)
class Kernels:
    """The compiled functions of a policy.

    Parameters
    ----------
    choose, update : dispatcher
        The kernels of `bothworlds.lanes.kernels`.
    ask : dispatcher, optional
        ``ask(F) -> arm``: draw an arm for one bandit packed in one array. Kernels that only play
        in tiles have neither this nor those that follow.
    tell : dispatcher, optional
        ``tell(F, arm, inverse_p, loss)``: learn from it.
    weights : dispatcher, optional
        ``weights(F, out)``: the distribution the last ``ask`` drew from.
    roots : dispatcher, optional
        ``roots(F, out)``: the square roots of these probabilities, where they cost less.
    asked : dispatcher, optional
        ``asked(F, arm)``: count a decision that ``ask`` drew from another array, with fewer arms.
    near : dispatcher, optional
        ``near(F, out)``: mark the arms whose estimates get a baseline in this round.
    late : dispatcher, optional
        ``late(F, arm, inverse_p, loss, near)``: learn from a decision that is no longer the last
        one. Without it ``tell`` does.
    estimates_changed : dispatcher, optional
        ``estimates_changed(F)``: prepare for per-arm rows that changed otherwise than by ``tell``.
    write_back : dispatcher, optional
        ``write_back(F)``: write the per-arm rows, which are kept otherwise between rounds, where
        they can be read and changed.
    wide : bool
        Whether ``choose`` and ``update`` also compile for tiles of repetitions.
    parts : InnerKernels, optional
        Components of the wrappers.
    """

    choose: Any
    update: Any
    ask: Any = None
    tell: Any = None
    weights: Any = None
    roots: Any = None
    asked: Any = None
    near: Any = None
    late: Any = None
    estimates_changed: Any = None
    write_back: Any = None
    wide: bool = True
    parts: InnerKernels | None = None

    @property
    def opens(self) -> bool:
        """Whether a decision's baselines are added after it, by ``write_back`` at the latest.

        The last parameter of such a policy is 1 where estimates fade between decision and feedback;
        late feedback is then learned from with baseline 0.
        """
        return self.asked is not None and self.write_back is not None

    @classmethod
    def of(
        cls, choose: Any, update: Any, weights: Any = None, *, roots: Any = None,
        wide: bool = True, **inner: Any,
    ) -> Kernels:  # fmt: skip
        """Return the kernels of a policy with wrappers for one bandit around them.

        Every argument is a kernel of the shape ``(K, t, C, S, G, ...)``.

        Parameters
        ----------
        choose, update : dispatcher
            The policy; see `bothworlds.lanes.kernels`.
        weights : dispatcher, optional
            As in `InnerKernels`.
        roots : dispatcher, optional
            ``(..., out)``: the square roots of ``weights``.
        wide : bool
            Whether ``choose`` and ``update`` also compile for tiles of repetitions.
        **inner
            Other fields of `InnerKernels`.
        """
        parts = InnerKernels(weights, **inner)
        asked, answered = parts.asked, parts.answered

        def around(template: Any, kernel: Any) -> Any:
            return None if kernel is None else wrap.wrapped(template, kernel)

        if asked is None:
            ask = wrap.wrapped(wrap.drawing if parts.draws else wrap.choosing, choose)
        else:
            ask = wrap.wrapped(
                wrap.drawing_then if parts.draws else wrap.choosing_then, choose, asked
            )
        return cls(
            choose,
            update,
            ask=ask,
            tell=wrap.wrapped(wrap.telling, update)
            if answered is None
            else wrap.wrapped(wrap.telling_then, update, answered),
            weights=wrap.wrapped(wrap.normalising, choose, rows=weights)
            if isinstance(weights, tuple)
            else around(wrap.filling, weights),
            roots=around(wrap.filling, roots),
            asked=around(wrap.of_an_arm, asked),
            near=around(wrap.filling, parts.near),
            late=around(wrap.telling_late, parts.late),
            estimates_changed=around(wrap.changing, parts.estimates_changed),
            write_back=around(wrap.changing, parts.write_back),
            wide=wide,
            parts=parts,
        )


LARGEST = 1e100
"""Bound of the numbers in a state file; possible values are far below it."""


@dataclass(frozen=True)
class Saved:
    """A number that a state file keeps, under a descriptive name.

    Parameters
    ----------
    name : str
        Its name in the file.
    low, high : float
        The range it must lie in.
    whole : bool
        Whether it counts something.
    finite : bool
        Whether infinity and NaN are refused.
    optional : bool
        Whether a file may lack it, which then is 0.
    """

    name: str
    low: float = -LARGEST
    high: float = LARGEST
    whole: bool = False
    finite: bool = True
    optional: bool = False


ASYMPTOTIC = "its guarantee is asymptotic and for independent losses only, see lai_robbins"
"""Why there is no bound for `Traits.unproved`, where the literature has only a limit."""

LARGEST_LOSS = 1e50
"""Largest loss, of either sign, where losses have no bounds."""

ESTIMATES = Saved("estimates")
TOLD = Saved("told", low=0.0, high=2.0**53, whole=True)
LOSSES = Saved("losses", low=0.0, high=2.0**53)
SKIPPED = Saved("skipped", low=0.0, high=2.0**53, whole=True)
OUTSTANDING = Saved("outstanding", low=0.0, high=2.0**53, whole=True, optional=True)


def constructor(config: object) -> str:
    """Return the call that makes ``config``, with the arguments that are not defaults.

    Examples
    --------
    >>> import bothworlds as bw
    >>> constructor(bw.TsallisINF(estimator="iw"))
    "TsallisINF(estimator='iw')"
    """
    given = [
        f"{field.name}={getattr(config, field.name)!r}"
        for field in (dataclasses.fields(config) if dataclasses.is_dataclass(config) else ())
        if field.repr and getattr(config, field.name) != field.default
    ]
    return f"{type(config).__name__}({', '.join(given)})"


class Ahead(NamedTuple):
    """Kernels for rounds whose arms are known before, in tiles; they use no generator.

    Parameters
    ----------
    leader : dispatcher
        ``leader(K, S, like)`` returns the arms that lead.
    sure : dispatcher
        ``sure(K, t, end, C, S, like)`` returns whether every u below some number plays them in
        rounds t to ``end``, and the number.
    stay : dispatcher
        ``stay(K, t, n, C, S, X, like)`` chooses and updates in n rounds in which they are played,
        with the losses in the rows of ``X``.
    """

    leader: Any
    sure: Any
    stay: Any


@dataclass(frozen=True)
class Phases:
    """Kernels for rounds in which no lane of a tile is in a leader mode, and in which all are.

    Parameters
    ----------
    without, within : pair of dispatcher
        ``choose`` and ``update`` while no lane is in the mode, and while all are.
    row : int
        Row of the state that is 0 in lanes that are not in the mode.
    every : int
        Lanes enter and leave the mode only in rounds that are multiples of this, which need the
        full kernels.
    ahead : Ahead, optional
        What plays several rounds at once while all lanes are in the mode.
    """

    without: tuple[Any, Any]
    within: tuple[Any, Any]
    row: int
    every: int
    ahead: Ahead | None = None


class Program(NamedTuple):
    """Everything that plays a policy with one number of arms; see `Policy.program`.

    Parameters
    ----------
    parameters : callable
        Returns the configuration numbers the kernels read.
    start : callable
        Returns the state before the first round; of one side in duels.
    sound : callable
        Takes a state from a file, one column per repetition, and returns whether the kernels can
        continue from it; see `Player.sound`.
    kernels : Kernels
        The compiled functions; of the left side in duels.
    prompt : Kernels
        The functions of one bandit for this number of arms alone. They do the same with the same
        state, and there may be less to compile.
    head_rows, rows_per_arm : int
        Layout of the state of one bandit. The policy's own rows come first in both parts.
    plain : bool
        Whether the state has the policy's own rows and nothing else.
    right : Kernels, optional
        The functions of the right side, in duels only.
    one_state : bool
        Whether both sides of a duel play from one state.
    alone : bool
        Whether wide kernels, compiled for one repetition, play it from its rows of the state with
        the same bits.
    idle_row : int, optional
        Row of the state that is 1 in those lanes of a tile that have no repetition, for kernels
        that play some lanes one by one.
    phases : Phases, optional
        What plays while no lane of a tile is in the leader mode, and while all are.
    registers : int
        How many registers a vector of repetitions takes; results do not depend on it.
    """

    parameters: Callable[[], Array]
    start: Callable[[], Array]
    sound: Callable[[Array], bool]
    kernels: Kernels
    prompt: Kernels
    head_rows: int
    rows_per_arm: int
    plain: bool = True
    right: Kernels | None = None
    one_state: bool = False
    alone: bool = False
    idle_row: int | None = None
    phases: Phases | None = None
    registers: int = native.REGISTERS

    @classmethod
    def of(cls, policy: Player, n_arms: int, kernels: Kernels, **others: Any) -> Program:
        """Return the program of these kernels; all but ``others`` is the policy's own.

        Parameters
        ----------
        policy : Player
            The algorithm.
        n_arms : int
            The number of arms.
        kernels : Kernels
            The compiled functions.
        **others
            Parameters of the program that differ from the policy's.
        """
        given: dict[str, Any] = {
            "parameters": partial(policy.parameters, n_arms),
            "start": partial(policy.start, n_arms),
            "sound": partial(policy.sound, n_arms),
            "kernels": kernels,
            "prompt": kernels,
            "head_rows": policy.traits.head_rows,
            "rows_per_arm": policy.traits.rows_per_arm,
            "alone": kernels.wide,
        }
        return cls(**(given | others))

    @property
    def by_side(self) -> tuple[Kernels, ...]:
        """The functions of each side: one, or two in duels."""
        return (self.kernels,) if self.right is None else (self.kernels, self.right)


@dataclass(frozen=True)
class Traits:
    """Capabilities of a policy, and the layout of its state and its state file.

    Parameters
    ----------
    kind : {"bandit", "duel"}
        What it plays in: a policy takes one arm a round, `bothworlds.Sparring` two.
    trusted : bool
        Whether its choices are arms without a check; a user's functions may return anything.
    nanoseconds : tuple of float
        Rough cost of a round in a tile, for the round and for each arm: with it a campaign orders
        its work until it has measured.
    unproved : str
        Why `bothworlds.bounds.guarantee` knows no bound of its regret, where there is a reason.
    needs_horizon : bool
        Whether it needs the number of rounds in advance, in the parameter ``horizon``.
    order_invariant : bool
        Whether late losses of 0 and 1 leave the same numbers in any order of arrival.
    late_as_prompt : bool
        Whether a loss teaches the same late as at once; not where a baseline moves with losses.
    unbounded : bool
        Whether losses may be any finite numbers instead of numbers in [0, 1].
    unbiased : bool
        Whether loss estimates are unbiased for losses in [0, 1].
    skipped_row : int, optional
        Head row that counts the losses that were too large to learn from, where there is one.
    head_rows : int
        State rows before the per-arm ones; row 0 is the inverse probability of the last draw.
    rows_per_arm : int
        Rows per arm.
    carried_rows : int
        Head rows after row 0 that `choose` writes for `update`: kept with a late decision.
    bandit_rows : tuple of int
        Head rows that only a bandit's ask and tell write, and the engine does not.
    bandit_fields : tuple of int
        Fields of the arms that a tile of the engine keeps in another order, or not at all.
    knows_probability : bool
        Whether the probability of the chosen arm is known.
    estimates : bool
        Whether the first field is a cumulative loss estimate weighted by the probability.
    predicted : int
        The field whose numbers, predictions of the next losses, are part of the first; 0 if none.
    saved_rows : mapping, optional
        Rows of every arm that a state file keeps, by their place. The other rows are
        computed from them. None keeps the whole state.
    saved_head : mapping
        What a state file keeps of the head, by row.
    saved_carried : tuple of Saved
        The carried rows, which a state file keeps with every pending decision.
    floored : bool
        Whether every arm's probability stays high enough for intervals of all arms.
    retained : float
        Share of the earlier estimates, beyond the least, that remains when new ones arrive.
    recentres : bool
        Whether learning may move all estimates by one number, which changes no probability.
    resizable : bool
        Whether arms can be added and retired while it runs.
    labelled : bool
        Whether its parameters name arms by their place in the environment's constructor. It then
        meets them in that order, also where the environment shuffles them for others.
    wrappable : bool
        Whether floors, restarts, discounts and alarms may be put around it.
    separable : bool
        Whether it can decide among some of its arms, because no number describes several.
    """

    kind: Literal["bandit", "duel"] = "bandit"
    trusted: bool = True
    nanoseconds: tuple[float, float] = (10.0, 1.0)
    unproved: str = ""
    needs_horizon: bool = False
    order_invariant: bool = True
    late_as_prompt: bool = True
    unbounded: bool = False
    unbiased: bool = True
    skipped_row: int | None = None
    head_rows: int = 1
    rows_per_arm: int = 1
    carried_rows: int = 0
    bandit_rows: tuple[int, ...] = ()
    bandit_fields: tuple[int, ...] = ()
    knows_probability: bool = True
    estimates: bool = False
    predicted: int = 0
    saved_rows: Mapping[int, Saved] | None = None
    saved_head: Mapping[int, Saved] = field(default_factory=dict)
    saved_carried: tuple[Saved, ...] = ()
    floored: bool = False
    retained: float = 1.0
    recentres: bool = False
    resizable: bool = False
    labelled: bool = False
    separable: bool = True
    wrappable: bool = True

    def bandit_only(self, n_arms: int) -> list[int]:
        """Return the rows of a state with this many arms that a tile need not have alike."""
        firsts = (self.head_rows + field * n_arms for field in self.bandit_fields)
        return [
            *self.bandit_rows,
            *(row for first in firsts for row in range(first, first + n_arms)),
        ]


class Sounded(NamedTuple):
    """An alarm of a change test: one that a policy has acted on, or that of a bandit's evidence.

    Parameters
    ----------
    kind : {"level", "side", "change"}
        Whether the leader's losses have changed, or those of another arm; "change" in evidence.
    slot : int
        The place of the arm.
    round, statistic, observed, cut : float
        When it sounded, the test's statistic, how many losses were tested, and where they were cut.
    before, after : float
        The mean loss before the cut and after it.
    """

    kind: Literal["level", "side", "change"]
    slot: int
    round: float
    statistic: float
    observed: float
    cut: float
    before: float
    after: float


class Player:
    """Base class of everything that can be simulated: policies, and pairs of them in duels.

    Subclasses are frozen dataclasses (``repr=False``); they print as their constructor and
    compare by value.
    """

    traits: ClassVar[Traits] = Traits()
    """Its capabilities. Where they depend on the configuration, an object has its own traits."""

    def __repr__(self) -> str:
        return constructor(self)

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return everything that plays this configuration with ``n_arms`` arms.

        Parameters
        ----------
        n_arms : int
            The number of arms.
        lanes : bool
            Whether the engine plays it in tiles of repetitions, with prompt feedback. Such a
            program makes the same decisions in distribution, and may have a state of its own.
        horizon : int, optional
            The round with which every run in lanes ends for good. A program for short runs plays
            them with the same bits and has less to compile. Without it, runs may continue.
        """
        raise TypeError(f"{type(self).__name__} defines no kernels.")

    def parameters(self, n_arms: int) -> Array:
        """Return the configuration numbers the kernels read."""
        return np.zeros(0)

    def start(self, n_arms: int) -> Array:
        """Return the state of a side before the first round."""
        raise TypeError(f"{type(self).__name__} defines no state.")

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether the kernels can continue from ``state``, which comes from a file.

        One row per row of the state, one column per repetition.  What a kernel uses as an index
        or loops over must be right; other numbers must be finite and not absurdly large.
        """
        return bool((np.abs(state) <= LARGEST).all())

    def rehearse(self, n_arms: int, name: str, horizon: int) -> None:
        """Run a user's functions, checked, for some rounds; raise `KernelError` if they fail.

        ``name`` is what the sentence calls the player.
        """


class Policy(Player):
    """Base class of every policy, which plays one arm a round."""

    registered: ClassVar[Entry | None] = None
    """Its entry in `bothworlds.registry`: names and looks. None for a policy of the user."""
    own_kernels: ClassVar[Kernels | None] = None
    """Kernels that serve every configuration; `kernels` returns them."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        entry = POLICIES.get(cls.__name__)
        if entry is not None and entry.module == cls.__module__:
            cls.registered = entry

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the program of this configuration: `kernels`, for any number of arms."""
        return Program.of(self, n_arms, self.kernels())

    def start(self, n_arms: int) -> Array:
        """Return the state before the first round."""
        return np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)

    def start_of(self, names: Sequence[Arm]) -> Array | None:
        """Return the state before the first round where it depends on the names of the arms."""
        return None

    def saved_shape(self, n_arms: int) -> dict[str, tuple[Saved, int | None]]:
        """Return the rows of a state file, by name, and how many of each; None is a single one."""
        if self.traits.saved_rows is None:
            whole = Saved("state", low=-np.inf, high=np.inf, finite=False)
            return {"state": (whole, self.start(n_arms).size)}
        rows = {row.name: (row, n_arms) for row in self.traits.saved_rows.values()}
        return {**rows, **{each.name: (each, None) for each in self.traits.saved_head.values()}}

    def saved_state(self, n_arms: int, state: Array) -> dict[str, Array]:
        """Return the numbers of ``state`` that a state file keeps, by name."""
        if self.traits.saved_rows is None:
            return {"state": state}
        rows = state[self.traits.head_rows :].reshape(self.traits.rows_per_arm, -1)
        saved = {each.name: rows[place] for place, each in self.traits.saved_rows.items()}
        head = {each.name: state[row : row + 1] for row, each in self.traits.saved_head.items()}
        return {**saved, **head}

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return a state with these numbers, and everything else computed from them."""
        if self.traits.saved_rows is None:
            return saved["state"].copy()
        state = self.start(n_arms)
        rows = state[self.traits.head_rows :].reshape(self.traits.rows_per_arm, -1)
        for place, each in self.traits.saved_rows.items():
            rows[place] = saved[each.name]
        for row, each in self.traits.saved_head.items():
            state[row] = saved[each.name][0]
        return state

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether the kernels can continue from ``state``; see `Player.sound`."""
        return not self.traits.trusted or super().sound(n_arms, state)

    def estimated(self, rows: Array) -> Array:
        """Return the cumulative loss estimates of the arms, from their ``rows``."""
        return np.asarray(rows[0])

    def sounded(self, rows: Array) -> list[Sounded]:
        """Return the alarms that the policy has acted on, from the ``rows`` of its arms."""
        return []

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return the per-arm numbers of an arm that joins ``rows``, the other arms' columns.

        Policies that place an arm give it the probability in round ``t``, by default 1 / K.
        Others, as this one, let it start like any arm, and take no probability.
        """
        if probability is not None:
            expected = f"None for {self!r}, which treats a new arm like any arm at the start"
            raise invalid("probability", "Bandit.add_arm", expected, probability)
        return self.start(1)[self.traits.head_rows :][: self.traits.rows_per_arm]

    def missing(self, rows: Array, kept: Sequence[int]) -> str:
        """Return the reason why some of the arms cannot be drawn alone: the rest of a sentence.

        ``rows`` are the columns of all arms, ``kept`` the places of those. Empty if they lack
        nothing.
        """
        return ""

    def kernels(self) -> Kernels:
        """Return the compiled functions."""
        if self.own_kernels is None:
            raise TypeError(f"{type(self).__name__} defines no kernels.")
        return self.own_kernels

    def guard_choice(self, ask: Callable[[Array], int]) -> Callable[[Array], int]:
        """Return ``ask``; around a user's functions, one that changes nothing unless it succeeds.

        A `Bandit` calls the result with its packed state.
        """
        if self.traits.trusted:
            return ask

        def guarded(F: Array) -> int:
            tried = F.copy()
            try:
                arm = int(ask(tried))
            except Exception as error:
                raise self.fault(F, None, error) from None
            if not 0 <= arm < F[ARMS]:
                raise self.fault(F, arm, None)
            F[:] = tried
            return arm

        return guarded

    def guard_learning(self, learn: Callable[..., None]) -> Callable[..., None]:
        """Return ``learn``, guarded as `guard_choice` does."""
        if self.traits.trusted:
            return learn

        def guarded(F: Array, *rest: Any) -> None:
            tried = F.copy()
            call(learn, "update", type(self).__name__, tried, *rest)
            F[:] = tried

        return guarded

    def fault(self, F: Array, arm: int | None, error: Exception | None) -> BothworldsError:
        """Return the error for a user's choice from a packed bandit that failed or gave no arm."""
        owner = type(self).__name__
        if error is not None:
            return fault("choice", owner, error)
        return no_arm("choice", owner, int(F[ARMS]), arm)


def unchecked(policy: Policy, n_arms: int) -> Kernels:
    """Return a policy's own kernels; of a user's functions, those without checks of indices."""
    if policy.traits.trusted:
        return policy.kernels()
    return policy.program(n_arms, lanes=True).kernels


def keeps_kernels(policy: Policy, of: type[Policy]) -> bool:
    """Return whether a policy has the kernels of class ``of``; a subclass may have others."""
    return type(policy).kernels is of.kernels and policy.own_kernels is of.own_kernels
