"""Experiments in memory: configuration, state, and draws from it.

All of it belongs to the event loop.  The state is the sum of what this replica has learned, which
`bothworlds.serve.store.commit` hands over after every commit, and of what its peers have learned,
which `bothworlds.serve.domain.replicas` polls.  An experiment that learns in order draws from its
fold instead, which comes the same two ways; its sums only count.
"""

from __future__ import annotations

import functools
import json
import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from bothworlds.bandit.alarms import acted_on
from bothworlds.errors import InvalidParameter
from bothworlds.policies.base import Policy
from bothworlds.serve.domain import records
from bothworlds.serve.domain.advised import Advice, Advisers
from bothworlds.serve.domain.config import Config, in_experiment
from bothworlds.serve.domain.draws import LARGEST_SUM, Draw, Lineup, Units
from bothworlds.serve.domain.folds import Fold, FoldedLineup
from bothworlds.serve.domain.records import CARRIED, DEFERRED, MODE, MOST_ROUNDS, PRESENT
from bothworlds.serve.domain.records import UNIT as HAS_UNIT
from bothworlds.serve.domain.segments import Learned, Segment, mean_loss, placed
from bothworlds.serve.domain.sums import Place, StateKey, StateRow
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.rows import ArmRow, ExperimentRow, FoldRow, SegmentRow

MOST_LINEUPS = 256
"""How many selections of available arms are kept ready."""
DIFFERENT = 0.001
"""Probability below which a difference between missing rates raises an alarm."""
FEWEST = 100
"""Decisions of an arm before its missing rate is judged."""

MODE_NUMBERS = {name: number for number, name in enumerate(records.MODES)}


@functools.lru_cache(maxsize=1024)
def _shared_lineup(served: Policy, places: tuple[int, ...], known: int) -> Lineup:
    """Return the lineup of all experiments with this policy and these arms.

    It holds nothing between two draws, and one that a thousand experiments share stays in the
    caches of the processor.
    """
    return Lineup(served, places, known)


class Snapshot(NamedTuple):
    """An experiment at one moment, for work that another thread or process does."""

    id: int
    tenant: int
    name: str
    epoch: int
    config: Config
    arms: tuple[ArmRow, ...]
    active: tuple[int, ...]
    weights: dict[str, float]
    """The weight of every expert in the next decision."""
    rewarded: bool | None
    """Whether the newest feedback came as a reward; None before there is any."""

    @property
    def known(self) -> int:
        """How many arms there ever were."""
        return len(self.arms)

    @property
    def names(self) -> list[str]:
        """The names of all arms, by place."""
        return [arm.name for arm in self.arms]


class Experiment(Learned):
    """An experiment.

    Parameters
    ----------
    row : ExperimentRow
        Its configuration in the store.
    fold : FoldRow, optional
        What it has learned, if it learns in order.
    """

    # A dictionary of so many attributes would be spread over the memory.
    __slots__ = (
        "active", "advisers", "alarm", "arms", "config", "drawn_from", "entries", "epoch",
        "estimates", "fold", "forgotten", "id", "known", "largest", "lineup", "lineups", "made",
        "mode", "name", "pinned", "places", "promised", "rewarded", "row", "rules", "segments",
        "segments_by_id", "tenant", "total", "version",
    )  # fmt: skip

    def __init__(self, row: ExperimentRow, fold: FoldRow | None = None) -> None:
        self.alarm: str | None = None
        # Retention has deleted feedback up to this id.
        self.forgotten = b""
        # Whether the newest feedback of this process came as a reward; None before any. The
        # dashboard counts the same way.
        self.rewarded: bool | None = None
        # Decisions since this process started, by arm and mode. Numbers next to each other are
        # fetched into the processor's caches at once, which entries of a dictionary are not.
        self.made = array("q")
        self.lineups: dict[tuple[int, ...], Lineup] = {}
        self.segments: dict[str, Segment] = {}
        self.segments_by_id: dict[bytes, Segment] = {}
        self.epoch = -1
        self.config: Config
        self.configure(row, fold)

    # --- configuration ---------------------------------------------------------------------------

    def configure(self, row: ExperimentRow, fold: FoldRow | None = None) -> None:
        """Take another configuration; a new epoch starts with nothing learned."""
        self.row = row
        if row.epoch != self.epoch:
            self.start_over()
            self.fold: Fold | None = None
            self.promised = 0.0
            self.segments.clear()
            self.segments_by_id.clear()
        self.id = row.id
        self.tenant = row.tenant
        self.name = row.name
        self.config = Config.from_document(row.config)
        # What decisions and feedback read: the same, shared with experiments of equal settings.
        self.rules = self.config
        if self.config.description:
            self.rules = Config.from_document({**row.config, "description": ""})
        self.mode = row.mode
        self.pinned = row.pinned
        self.epoch = row.epoch
        self.version = row.version
        self.arms: tuple[ArmRow, ...] = row.arms
        self.known = len(row.arms)
        self.places = {arm.name: arm.place for arm in row.arms}
        self.active = tuple(arm.place for arm in row.arms if arm.status == "active")
        self.entries = np.array([arm.entry for arm in row.arms], np.int64)
        order = self.config.order
        if order is not None and fold is not None:
            self._newer(Fold.read(order, fold.number, fold.state))
        self._line_up()
        self.advisers: Advisers | None = None
        if self.config.experts:
            names = [arm.name for arm in row.arms]
            self.advisers = Advisers(
                self.config.served, self.config.experts, names, even=self.mode == "uniform"
            )
        self.counts.grow(self.known)
        self.made.extend([0] * (self.known * len(records.MODES) - len(self.made)))
        self.refresh()

    @property
    def place(self) -> Place:
        """The experiment and its epoch."""
        return self.id, self.epoch

    @property
    def key(self) -> StateKey:
        """Key under which the states of all its decisions are kept."""
        return self.id, self.epoch, b""

    def take_segment(self, row: SegmentRow) -> Segment | None:
        """Take a segment of this epoch that lives; return it if it was not known."""
        known = self.segments_by_id.get(row.id)
        if known is not None:
            known.enter(row)
            return None
        found = self.segments[row.name] = self.segments_by_id[row.id] = Segment(row)
        return found

    def drop_segments(self, ids: Iterable[bytes]) -> None:
        """Forget segments that were evicted; another of the same name may live by now."""
        for id in ids:
            gone = self.segments_by_id.pop(id, None)
            if gone is not None and self.segments.get(gone.name) is gone:
                del self.segments[gone.name]

    def _line_up(self) -> None:
        self.lineups.clear()
        if self.fold is not None:
            # Another replica may have retired an arm whose configuration is not read yet.
            self.active = tuple(place for place in self.active if place in self.fold.places)
        try:
            served = self.served(self.active)
        except Problem:
            # Another replica changed the shares as well, which this one has not read yet.
            served = self.config.among([""] * len(self.active))
        self.lineup = self._lineup(served, self.active)

    def _lineup(self, served: Policy, places: tuple[int, ...]) -> Lineup:
        if self.config.order is None:
            return _shared_lineup(served, places, self.known)
        return FoldedLineup(served, self.config.learner, places, self.known)

    def names(self, places: Sequence[int]) -> list[str]:
        """Return the names of arms."""
        return [self.arms[place].name for place in places]

    def served(self, places: Sequence[int]) -> Policy:
        """Return the policy that draws from some arms.

        Raises
        ------
        Problem
            ``shares_conflict`` if no distribution of these arms can have their shares.
        """
        config = self.config
        if not config.limited:
            return config.served
        if self.mode not in ("learn", "shadow"):
            # The operator decides, and not the policy.
            return config.among([""] * len(places))
        names = self.names(places)
        if config.control is not None and config.control not in names:
            raise Problem(
                "shares_conflict",
                f"The control arm {config.control!r} must be among the available arms.",
            )
        try:
            return config.among(names)
        except InvalidParameter as error:
            raise Problem("shares_conflict", in_experiment(error)) from None

    def _newer(self, fold: Fold) -> None:
        if self.fold is None or fold.number > self.fold.number:
            self.fold = fold

    def folded(self, fold: Fold) -> None:
        """Take a fold, unless a newer one is known."""
        self._newer(fold)
        assert self.fold is not None
        if not set(self.active) <= set(self.fold.places):
            self._line_up()
        self.refresh()

    def refresh(self) -> None:
        """Compute the estimates from the learned states of this replica and its peers."""
        own, experts = self.own, len(self.config.experts)
        if own.told.size < self.known or (experts and own.experts.size < experts):
            own = self.own = own.grown(self.known, experts)
        total = own if self.peers is None else own.plus(self.peers)
        self.total = total
        # A peer may have learned from an arm whose configuration this replica has not read yet.
        self.estimates: Units = (
            total.experts if experts else total.sums[: self.known] + self.entries
        )
        self.drawn_from: Units | Fold = self.estimates if self.fold is None else self.fold
        counted = self.counts.rounds + self.peer_counts.rounds
        # A crash can lose the last rounds, but none whose feedback came.
        self.round = max(self.round, counted, total.newest)
        self.largest = float(np.abs(total.sums).max())

    def lineup_of(self, available: list[str] | tuple[str, ...]) -> Lineup:
        """Return the lineup of some arms by name.

        Raises
        ------
        Problem
            ``arm_not_found`` for a name that never was an arm's, ``nothing_available`` if none
            of them is active, ``shares_conflict`` if they cannot have their shares.
        """
        try:
            asked = {self.places[name] for name in available}
        except (KeyError, TypeError):
            unknown = [name for name in available if name not in self.places]
            raise Problem("arm_not_found", f"There is no arm {unknown[0]!r}.") from None
        places = tuple(place for place in self.active if place in asked)
        if len(places) == len(self.active):
            return self.lineup
        if not places:
            raise Problem("nothing_available")
        found = self.lineups.get(places)
        if found is None:
            if len(self.lineups) >= MOST_LINEUPS:
                self.lineups.pop(next(iter(self.lineups)))
            found = self.lineups[places] = self._lineup(self.served(places), places)
        return found

    # --- deciding --------------------------------------------------------------------------------

    def draw(
        self, lineup: Lineup, u: float, advice: Advice | None = None,
        asleep: Sequence[str] | None = None, segment: Segment | None = None,
    ) -> tuple[Draw, str, str | None]:  # fmt: skip
        """Return a draw in this mode, the mode of the record, and the draw of a shadow.

        Advice is read where the draw depends on it: not while an arm is pinned.

        Raises
        ------
        Problem
            If the mode decides nothing, or the advice is refused.
        """
        mode, advisers = self.mode, self.advisers
        if advisers is None and (advice is not None or asleep is not None):
            raise Problem("advice_invalid", f"The experiment {self.name!r} has no experts.")
        basis: tuple[Any, int] = self.drawn_from, self.round
        if segment is not None:
            basis = segment.drawn_from(self)
        if mode == "learn" or (mode == "uniform" and advisers is not None):
            if self.round >= MOST_ROUNDS:
                raise Problem("mode_conflict", "All rounds are used up; reset the experiment.")
            drawn = (
                lineup.draw(basis[0], basis[1] + 1, u)
                if advisers is None
                else advisers.draw(self.estimates, self.round + 1, u, advice, asleep, lineup)
            )
            if drawn.inverse_p > records.LARGEST_INVERSE_P:
                self.alarm = "A probability fell below 2^-32; set an exploration floor."
                raise Problem("contribution_too_large")
            return drawn, mode, None
        if mode == "uniform":
            return lineup.even(self.drawn_from, self.round + 1, u), mode, None
        if mode == "archived":
            raise Problem("experiment_archived", f"The experiment {self.name!r} is archived.")
        if mode == "paused":
            raise Problem("experiment_paused", f"The experiment {self.name!r} is paused.")
        pinned = self.pinned
        assert pinned is not None
        if pinned not in lineup.places:
            raise Problem("nothing_available", "The pinned arm is not available.")
        shadow = None
        if mode == "shadow":
            would = (
                lineup.draw(basis[0], basis[1] + 1, u)
                if advisers is None
                else advisers.draw(self.estimates, self.round + 1, u, advice, asleep, lineup)
            )
            shadow = json.dumps(
                {"arm": self.arms[would.arm].name, "probability": 1.0 / would.inverse_p}
            )
        return Draw(pinned, 1.0, records.NEAR_NONE, 0.0, b""), mode, shadow

    def record(
        self, drawn: Draw, mode: str, key: int, id: bytes, lineup: Lineup, unit: bytes,
        deferred: bool, segment: Segment | None = None,
    ) -> tuple[bytes, int]:  # fmt: skip
        """Return the record of a draw, and its round; the round advances if it can be learned."""
        number = MODE_NUMBERS[mode]
        flags = drawn.near | number << MODE
        if number < records.UNLEARNABLE_FROM:
            self.round += 1
            self.counts.rounds += 1
            if segment is not None:
                segment.round += 1
                segment.counts.rounds += 1
        present = lineup.mask
        if present:
            flags |= PRESENT
        if unit:
            flags |= HAS_UNIT
        if deferred:
            flags |= DEFERRED
        if drawn.carried:
            flags |= CARRIED
        raw = records.encode(
            key, self.id, self.epoch, drawn.arm, lineup.known, self.round, id, drawn.inverse_p,
            flags, drawn.baseline, drawn.mask, present, unit, drawn.carried,
            b"" if segment is None else segment.id,
        )  # fmt: skip
        return raw, self.round

    def probabilities(
        self, lineup: Lineup | None = None, segment: Segment | None = None
    ) -> dict[str, float]:
        """Return the distribution of the next decision, or of a segment's, by name.

        With experts that depends on their advice: these are the shares of the decisions so far.
        """
        lineup = lineup or self.lineup
        names = self.names(lineup.places)
        if self.mode in ("pinned", "shadow"):
            return {name: float(self.places[name] == self.pinned) for name in names}
        if self.mode == "uniform":
            return dict.fromkeys(names, 1.0 / len(names))
        if self.advisers is not None:
            made = self.counts.plus(self.peer_counts).by_arm
            counts = [made[place] if place < len(made) else 0 for place in lineup.places]
            total = sum(counts)
            even = 1.0 / len(names)
            return {
                name: count / total if total else even
                for name, count in zip(names, counts, strict=True)
            }
        basis: tuple[Any, int] = self.drawn_from, self.round
        if segment is not None:
            basis = segment.drawn_from(self)
        lineup.draw(basis[0], basis[1] + 1, 0.5)
        return dict(zip(names, lineup.probabilities().tolist(), strict=True))

    def made_by_mode(self) -> Iterator[tuple[str, int, int]]:
        """Yield modes, arms and how many decisions this process has made of them, if any."""
        for n, number in enumerate(self.made):
            if number:
                place, mode = divmod(n, len(records.MODES))
                yield records.MODES[mode], place, number

    def snapshot(self) -> Snapshot:
        """Return the part that other threads and processes may read."""
        return Snapshot(
            self.id, self.tenant, self.name, self.epoch, self.config, self.arms, self.active,
            self.weights(), self.rewarded,
        )  # fmt: skip

    def weights(self) -> dict[str, float]:
        """Return the weight of every expert in the next decision, by name."""
        if self.advisers is None:
            return {}
        return self.advisers.next_weights(self.estimates, self.round + 1)

    # --- learning --------------------------------------------------------------------------------

    def entry(self, probability: float | None) -> int:
        """Return the entry of a new arm, at which it has this probability in the next round."""
        if self.advisers is not None:
            if probability is not None:
                raise Problem(
                    "invalid_request",
                    "In an experiment with experts, arms have no probability of their own.",
                )
            return 0
        place = placed(self, self.estimates, self.round, probability)
        entry = place - int(self.total.grown(self.known).sums[-1])
        if abs(entry) > LARGEST_SUM // 2:
            raise Problem("contribution_too_large")
        return entry

    # --- showing ---------------------------------------------------------------------------------

    def document(self, state_age: float) -> dict[str, Any]:
        """Return configuration and state as JSON values."""
        shares = self.probabilities() if self.mode != "archived" else {}
        total = self.total
        decided, awaited = self.counts.plus(self.peer_counts).by_arm, self._awaited()
        arms = []
        for arm in self.arms:
            place = arm.place
            told = int(total.told[place])
            made = decided[place] if place < len(decided) else 0
            wanted = awaited[place] if made else 0
            arms.append(
                {
                    "name": arm.name,
                    "value": arm.value,
                    "status": arm.status,
                    "probability": shares.get(arm.name, 0.0),
                    "decided": made,
                    "told": told,
                    "mean_loss": mean_loss(self, total, place),
                    "missing_rate": max(0.0, 1.0 - told / wanted) if wanted else None,
                }
            )
        return {
            "name": self.name,
            **self.config.document(),
            "mode": self.mode,
            "pinned_arm": None if self.pinned is None else self.arms[self.pinned].name,
            "epoch": self.epoch,
            "config_version": self.version,
            "created_at": self.row.created_at,
            "round": self.round,
            "learned": total.learned,
            "state_age": state_age,
            "arms": arms,
            "experts": [
                {"name": name, "weight": weight} for name, weight in self.weights().items()
            ],
            "segments": len(self.segments),
            "alarms": self.alarms(),
            "policy_alarms": self.policy_alarms(),
        }

    def _awaited(self) -> list[int]:
        """Return how many decisions of every arm could be learned from, at least.

        Those of a pin cannot, and their arms are not counted: they are taken from every arm.
        """
        counts = self.counts.plus(self.peer_counts)
        others = max(0, sum(counts.by_arm) - counts.rounds)
        return [max(0, made - others) for made in counts.by_arm]

    def policy_alarms(self) -> list[dict[str, Any]]:
        """Return the changes of losses on which the policy has acted, by round."""
        if self.fold is None:
            return []
        low, high = self.config.bounds
        sounded, restarted = self.fold.alarms()
        names = [self.arms[place].name for place in self.fold.places]
        found = [
            asdict(each)
            for each in acted_on(sounded, names, lambda loss: low + loss * (high - low))
        ]
        return [*found, {"kind": "restart", "round": restarted}] if restarted else found

    def alarms(self) -> list[str]:
        """Return warnings for an operator; nothing is done about them."""
        found = [] if self.alarm is None else [self.alarm]
        told, least = self.total.told.tolist(), self._awaited()
        most = self.counts.plus(self.peer_counts).by_arm
        places = [n for n, awaited in enumerate(least) if awaited >= FEWEST]
        if len(places) > 1:
            # Decisions of a pin leave a range: the lower share at its largest, the higher at its
            # smallest.
            low = min(places, key=lambda n: told[n] / least[n])
            high = max(places, key=lambda n: told[n] / most[n])
            ends = min(told[low], least[low]), least[low], told[high], most[high]
            above = ends[2] / ends[3] > ends[0] / ends[1]
            if above and unequal(*ends) < DIFFERENT / len(places):
                # The numbers, because decisions that are still pending count here, too.
                found.append(
                    f"Arm {self.arms[low].name!r} has feedback on {100 * ends[0] / ends[1]:.0f} % "
                    f"of all its decisions, arm {self.arms[high].name!r} on "
                    f"{100 * ends[2] / ends[3]:.0f} %."
                )
        return found


COLD = "This replica is still compiling the experiment's draws."


class Experiments:
    """The experiments of a service.

    Attributes
    ----------
    by_id : dict of int to Experiment
        By number.
    by_name : dict of dicts to Experiment
        By tenant, then by name.
    cold : dict of int to pairs
        Tenant and name of experiments whose draws are being compiled, by number.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Experiment] = {}
        self.by_name: dict[int, dict[str, Experiment]] = defaultdict(dict)
        self.cold: dict[int, tuple[int, str]] = {}

    def add(self, row: ExperimentRow, fold: FoldRow | None) -> Experiment:
        """Take an experiment over from the store."""
        made = Experiment(row, fold)
        self.by_id[row.id] = self.by_name[row.tenant][row.name] = made
        return made

    def clear(self) -> None:
        """Remove all experiments."""
        self.by_id.clear()
        self.by_name.clear()

    def find(self, tenant: int, name: str) -> Experiment:
        """Return an experiment of a tenant.

        Raises
        ------
        Problem
            If there is none, or this replica is not ready for it yet.
        """
        found = self.by_name[tenant].get(name)
        if found is None:
            if (tenant, name) in self.cold.values():
                raise Problem("store_unavailable", COLD, retry_after=1.0)
            raise Problem("experiment_not_found", f"There is no experiment {short(name)}.")
        return found

    def of_tenant(self, tenant: int) -> list[Experiment]:
        """Return all experiments of a tenant."""
        return [each for each in self.by_id.values() if each.tenant == tenant]

    def forget(self, upto: dict[int, bytes]) -> None:
        """Refuse ids from now on whose feedback retention has deleted."""
        for number, id in upto.items():
            if number in self.by_id:
                self.by_id[number].forgotten = id

    def learned(self, states: list[StateRow], folds: Mapping[Place, Fold]) -> None:
        """Apply states of this replica, and folds, that were committed."""
        for place, fold in folds.items():
            known = self.by_id.get(place[0])
            if known is not None and known.epoch == place[1]:
                known.folded(fold)
        for row in states:
            experiment = self.by_id.get(row.experiment)
            if experiment is not None and experiment.epoch == row.epoch:
                changed = experiment.segments_by_id.get(row.segment) if row.segment else experiment
                if changed is not None:
                    changed.own = row.sums
                    changed.refresh()


def short(name: object) -> str:
    """Return a name that a caller sent, quoted for a message and not too long."""
    text = repr(name)
    return text if len(text) <= 100 else text[:97] + "..."


def unequal(k1: int, n1: int, k2: int, n2: int) -> float:
    """Return how likely two shares differ as much as these by chance: the two-proportion test.

    Examples
    --------
    >>> round(unequal(50, 100, 60, 100), 3), unequal(5, 10, 5, 10)
    (0.155, 1.0)
    """
    pooled = (k1 + k2) / (n1 + n2)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
    return 1.0 if spread == 0 else math.erfc(abs(k1 / n1 - k2 / n2) / spread / math.sqrt(2))
