"""Deciding: an arm is drawn in memory, signed, and answered; the log follows."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from bothworlds.protocol import DECISION_BATCH
from bothworlds.serve.domain import records
from bothworlds.serve.domain.advised import Advice
from bothworlds.serve.domain.answers import Decided, Principal, Replayed
from bothworlds.serve.domain.draws import Lineup
from bothworlds.serve.domain.experiment import MODE_NUMBERS, Experiment
from bothworlds.serve.domain.part import Part
from bothworlds.serve.domain.replicas import Replicas
from bothworlds.serve.domain.rules import check_name, check_request_key, check_unit
from bothworlds.serve.domain.segments import Segment
from bothworlds.serve.domain.state import CHUNK, DAY, State
from bothworlds.serve.domain.sums import Counts
from bothworlds.serve.domain.tokens import Identities, unit_hash
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.rows import Claimed, ClaimRow, DecisionRow

REQUEST_SECONDS = DAY
"""How long an Idempotency-Key is remembered."""
AFTER = 5e-7
"""Seconds by which an id is later than the one before at least: doubles and ids can tell these."""


class Deciding(Part):
    """Decisions of a service."""

    def __init__(self, state: State, replicas: Replicas) -> None:
        super().__init__(state, replicas)
        self._by_name = state.experiments.by_name
        self._replica = state.store.replica
        self._identities = Identities()
        self._seq = 0

    async def decide(
        self,
        who: Principal,
        name: str,
        *,
        available: Sequence[str] | None = None,
        unit: str | None = None,
        deferred: bool = False,
        idempotency_key: str | None = None,
        vector: bool = False,
        advice: Advice | None = None,
        asleep: Sequence[str] | None = None,
        segment: str | None = None,
    ) -> Decided:
        """Decide which arm to play.

        Parameters
        ----------
        who : Principal
            The caller.
        name : str
            The experiment.
        available : sequence of str, optional
            The arms that can be played; by default all active ones.
        unit : str, optional
            Unit of the decision, such as a user id. It is kept as a keyed hash; with
            ``sticky_seconds`` the same unit gets the same decision again.
        deferred : bool
            Whether the decision counts only once it is activated.
        idempotency_key : str, optional
            Name of the request: the same request with the same name gets the same decision.
        vector : bool
            Whether the answer has the probabilities of all arms, and the weights of all experts.
        advice : mapping, optional
            What every expert of the experiment recommends: an arm, or probabilities of arms.
        asleep : sequence of str, optional
            Experts without advice for this decision.
        segment : str, optional
            The segment it is drawn in, such as a country; a new one is created. A unit that sticks
            to a decision gets it in any segment.
        """
        if unit is None and idempotency_key is None:
            made = self.decide_at_once(
                who, name, available=available, deferred=deferred, vector=vector, advice=advice,
                asleep=asleep, segment=segment,
            )  # fmt: skip
            if made is not None:
                return made
        if idempotency_key is not None:
            check_request_key(idempotency_key)
        experiment = self._find(who, name)
        self._state.check_open()
        lineup = experiment.lineup if available is None else experiment.lineup_of([*available])
        hashed = b"" if unit is None else self._unit(experiment, unit)
        part = None
        if segment is not None:
            part = await self._segment(experiment, segment, lineup)
            # Arms may have come and gone meanwhile.
            lineup = experiment.lineup if available is None else experiment.lineup_of([*available])
        decided, row = self._draw(
            experiment, lineup, hashed, deferred, vector, advice, asleep, part
        )  # fmt: skip
        counts = experiment.counts
        drawn: tuple[Decided, DecisionRow | None] = decided, row
        sticky = experiment.config.sticky_seconds if hashed else 0.0
        if sticky and decided.mode == "learn":
            drawn = await self._stick(experiment, drawn, hashed, sticky, lineup.places)
        if idempotency_key is not None:
            # The request as it was sent, without the current arms: a retry may meet others.
            asked: tuple[Any, ...] = (available and sorted({*available}), hashed.hex(), deferred)
            if experiment.config.experts:
                asked += (advice, asleep and sorted({*asleep}))
            if segment is not None:
                asked += (segment,)
            drawn = await self._remember(experiment, drawn, idempotency_key, asked)
        decided, row_left = drawn
        if row_left is not None:
            if experiment.config.log == "before":
                await self._committer.written(who.tenant, decisions=[row_left])
            else:
                self._committer.append(row_left)
        if not decided.replayed:
            self._count(experiment, counts, decided, row, part)
        return decided

    def decide_at_once(
        self,
        who: Principal,
        name: str,
        *,
        available: Sequence[str] | None = None,
        deferred: bool = False,
        vector: bool = False,
        advice: Advice | None = None,
        asleep: Sequence[str] | None = None,
        segment: str | None = None,
    ) -> Decided | None:
        """Decide without a unit; None if something must be written first."""
        experiment = self._by_name[who.tenant].get(name)
        if experiment is None or who.experiment is not None:
            experiment = self._find(who, name)
        if self._state.closing or self._state.lost is not None:
            self._state.check_open()
        if experiment.rules.log != "after":
            return None
        part = None
        if segment is not None:
            part = experiment.segments.get(segment)
            if part is None or not experiment.config.max_segments:
                return None
        lineup = experiment.lineup if available is None else experiment.lineup_of([*available])
        decided, row = self._draw(experiment, lineup, b"", deferred, vector, advice, asleep, part)
        self._committer.append(row)
        self._count(experiment, experiment.counts, decided, row, part)
        return decided

    async def decide_many(
        self, who: Principal, name: str, count: int, *, advice: Advice | None = None,
        asleep: Sequence[str] | None = None, segment: str | None = None,
    ) -> list[Decided]:  # fmt: skip
        """Make up to 256 decisions at once, all by the same advice or in the same segment."""
        experiment = self._find(who, name)
        self._state.check_open()
        if type(count) is not int or not 1 <= count <= DECISION_BATCH:
            raise Problem(
                "invalid_request",
                f"The count must be a whole number in [1, {DECISION_BATCH}].",
            )
        part = None
        if segment is not None:
            part = await self._segment(experiment, segment, experiment.lineup)
        made = []
        for place in range(count):
            if place % CHUNK == CHUNK - 1:
                # Requests of other tenants must not wait for all of them.
                await asyncio.sleep(0)
                self._check_current(experiment)
            drawn = self._draw(
                experiment, experiment.lineup, b"", False, False, advice, asleep, part
            )  # fmt: skip
            made.append((*drawn, experiment.counts))
        self._state.check_open()
        rows = [row for _, row, _ in made]
        if experiment.config.log == "before":
            await self._committer.written(who.tenant, decisions=rows)
        else:
            for row in rows:
                self._committer.append(row)
        for decided, row, counts in made:
            self._count(experiment, counts, decided, row, part)
        return [decided for decided, _, _ in made]

    def _find(self, who: Principal, name: str) -> Experiment:
        """Return an experiment that the caller may use."""
        if not who.may_use(name):
            raise Problem("scope_missing", f"The token is valid for {who.experiment!r} only.")
        return self._experiments.find(who.tenant, name)

    async def _segment(self, experiment: Experiment, name: str, lineup: Lineup) -> Segment:
        """Return a segment, created on first use if the decision would not be refused."""
        check_name(name, "segment")
        experiment.config.check_segments()
        found = experiment.segments.get(name)
        if found is None:
            experiment.draw(lineup, 0.5)
            found = await self._replicas.begin_segment(experiment, name)
            self._check_current(experiment)
        return found

    def _check_current(self, experiment: Experiment) -> None:
        """Refuse a request if the store went back in time while it waited.

        It would draw from arms that the store has lost, and sign with the keys of now.
        """
        if self._experiments.by_id.get(experiment.id) is not experiment:
            raise Problem("store_unavailable", retry_after=1.0)

    def _draw(
        self, experiment: Experiment, lineup: Lineup, unit: bytes, deferred: bool, vector: bool,
        advice: Advice | None, asleep: Sequence[str] | None, segment: Segment | None,
    ) -> tuple[Decided, DecisionRow]:  # fmt: skip
        """Draw and sign; nothing is written or counted yet."""
        committer = self._committer
        if len(committer.log) >= committer.log_limit:
            self._counters["overloaded"] += 1
            raise Problem("overloaded", "The buffer of the log is full.", retry_after=1.0)
        identities, keyring = self._identities, self._state.keyring
        drawn, mode, shadow = experiment.draw(
            lineup, identities.uniform(), advice, asleep, segment
        )  # fmt: skip
        state = self._state
        # `State.now`, without the call: every decision passes here.
        now = time.time() + state.offset
        if now <= state.latest <= now + DAY:
            # A clock that was put back must not date a decision before what was swept already, and
            # ids of one process sort by time.
            now = state.latest + AFTER
        state.latest = now
        id = identities.identity(now)
        raw, number = experiment.record(
            drawn, mode, keyring.current, id, lineup, unit, deferred, segment
        )  # fmt: skip
        self._seq += 1
        row = DecisionRow(
            experiment.id, id, raw, self._replica.shard, self._replica.run, self._seq, shadow
        )
        arm = experiment.arms[drawn.arm]
        shares = weights = None
        if vector:
            advisers = experiment.advisers
            drew = advisers.probabilities(lineup) if advisers else lineup.probabilities()
            shares = experiment.probabilities(lineup, segment) if mode != "learn" else {
                experiment.arms[place].name: share
                for place, share in zip(lineup.places, drew.tolist(), strict=True)
            }  # fmt: skip
            weights = advisers.weights() if advisers and mode != "pinned" else None
        decided = Decided(
            keyring.sign(raw), arm.name, min(1.0, 1.0 / drawn.inverse_p), number, mode,  # type: ignore[arg-type]
            records.made_at(id) + experiment.rules.feedback_window, arm.value, shares, weights,
        )  # fmt: skip
        return decided, row

    def _count(
        self, experiment: Experiment, counts: Counts, decided: Decided, row: DecisionRow,
        segment: Segment | None,
    ) -> None:  # fmt: skip
        """Count a decision for its arm, in the epoch of the decision."""
        # A look-up by name would fetch more of the experiment into the processor's caches.
        _, place = records.epoch_and_arm(row.record)
        if segment is not None:
            segment.counts.grow(experiment.known)
            segment.counts.by_arm[place] += 1
        self._counters["decisions"] += 1
        counts.by_arm[place] += 1
        experiment.made[place * len(MODE_NUMBERS) + MODE_NUMBERS[decided.mode]] += 1

    def _unit(self, experiment: Experiment, unit: str) -> bytes:
        check_unit(unit)
        return unit_hash(self._state.configuration.unit_key, experiment.id, unit)

    async def _stick(
        self,
        experiment: Experiment,
        drawn: tuple[Decided, DecisionRow | None],
        hashed: bytes,
        sticky: float,
        places: tuple[int, ...],
    ) -> tuple[Decided, DecisionRow | None]:
        """Return the unit's decision: the one it has, or this one, which it has from now on."""
        decided, row = drawn
        now = self._state.now()
        claim = ClaimRow(
            experiment.id, "unit", hashed, b"", decided.decision_id, now + sticky, now, row
        )
        before = (await self._committer.written(experiment.tenant, claims=[claim])).claims[0]
        if before is None:
            return decided, None
        again = self._again(experiment, before)
        if again is not None and experiment.places[again.arm] in places:
            return again, None
        # It was for another epoch, or an arm that cannot be played: this one takes its place.
        await self._committer.written(experiment.tenant, claims=[claim._replace(now=float("inf"))])
        return decided, None

    async def _remember(
        self,
        experiment: Experiment,
        drawn: tuple[Decided, DecisionRow | None],
        key: str,
        asked: tuple[Any, ...],
    ) -> tuple[Decided, DecisionRow | None]:
        """Return the decision that the request of this name was given, or give it this one."""
        decided, row = drawn
        now = self._state.now()
        secret = self._state.configuration.unit_key
        hashed = hashlib.blake2b(
            key.encode(), digest_size=16, key=secret, person=b"bw-request"
        ).digest()
        written = json.dumps(asked, sort_keys=True).encode()
        fingerprint = hashlib.blake2b(written, digest_size=16).digest()
        claim = ClaimRow(
            experiment.id, "request", hashed, fingerprint, decided.decision_id,
            now + REQUEST_SECONDS, now, row,
        )  # fmt: skip
        before = (await self._committer.written(experiment.tenant, claims=[claim])).claims[0]
        if before is None:
            return decided, None
        if before.fingerprint != fingerprint:
            raise Problem("idempotency_key_reused")
        again = self._again(experiment, before)
        if again is None:
            raise Problem("epoch_over", "The request was answered before the experiment's reset.")
        return again, None

    def _again(self, experiment: Experiment, claimed: Claimed) -> Decided | None:
        """Return a decision that was given before; None if it is of another epoch."""
        try:
            raw, record = self._state.keyring.verify(claimed.token)
        except Problem:
            # Its key was retired.
            return None
        if record.epoch != experiment.epoch or record.arm >= experiment.known:
            return None
        arm = experiment.arms[record.arm]
        return Replayed(
            claimed.token, arm.name, min(1.0, 1.0 / record.inverse_p), record.round,
            record.mode, record.at + experiment.config.feedback_window, arm.value,  # type: ignore[arg-type]
        )  # fmt: skip
