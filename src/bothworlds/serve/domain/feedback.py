"""Feedback: a token is verified, its loss checked, and the answer given once it is committed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from bothworlds.arguments import is_number
from bothworlds.bandit.feedback import loss_within
from bothworlds.errors import InvalidFeedback, must
from bothworlds.protocol import FEEDBACK_BATCH
from bothworlds.serve.domain import records
from bothworlds.serve.domain.answers import FeedbackItem, Principal, Told
from bothworlds.serve.domain.draws import LARGEST_SUM, PER_ONE
from bothworlds.serve.domain.experiment import COLD, Experiment
from bothworlds.serve.domain.folds import Order
from bothworlds.serve.domain.part import Part
from bothworlds.serve.domain.records import Record
from bothworlds.serve.domain.replicas import StaleReplica
from bothworlds.serve.domain.state import CHUNK
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.commit import Item, Written, resolve
from bothworlds.serve.store.rows import Activation, FeedbackRow, Stored

Checked = tuple[FeedbackRow, Experiment, float]
"""A feedback that can be written: its row, its experiment, and its reservation there."""


class Feedback(Part):
    """Feedback of a service."""

    async def feedback(
        self,
        who: Principal,
        decision_id: str,
        *,
        loss: float | None = None,
        reward: float | None = None,
    ) -> Told:
        """Learn from the loss or reward of a decision, once; answered when it is committed.

        Parameters
        ----------
        who : Principal
            The caller.
        decision_id : str
            The decision's token.
        loss, reward : float
            One of them, within the experiment's bounds.
        """
        told: asyncio.Future[Told] = self._state.loop.create_future()
        then = partial(resolve, told)
        await self._replicas.knowing(partial(self.tell, who, decision_id, loss, reward, then))
        return await told

    def tell(
        self,
        who: Principal,
        decision_id: str,
        loss: float | None,
        reward: float | None,
        then: Callable[[Told | Problem], None],
        caught_up: bool = False,
    ) -> None:
        """Learn as `feedback` does, and call ``then`` in the event loop when it is committed.

        Raises
        ------
        StaleReplica
            If another replica may know more of the decision, unless this one has ``caught_up``.
        """
        if self._state.closing or self._state.lost is not None:
            self._state.check_open()
        row, experiment, promised = self._checked(who, decision_id, loss, reward, caught_up)

        def done(written: Written | Problem) -> None:
            told: Told | Problem
            try:
                told = (
                    written
                    if isinstance(written, Problem)
                    else self._told(row, written.feedback[0])
                )
            except Problem as problem:
                told = problem
            _give_back(experiment, promised)
            then(told)

        self._committer.submit(Item(done, who.tenant, (row,)))

    async def feedback_many(
        self, who: Principal, items: Sequence[FeedbackItem]
    ) -> list[Told | Problem]:
        """Learn from up to 1,000 answers, all of them in one transaction.

        A refused feedback does not affect the rest of the batch; its place has the `Problem`.
        """
        self._state.check_open()
        if len(items) > FEEDBACK_BATCH:
            raise Problem("invalid_request", f"A batch must have at most {FEEDBACK_BATCH} items.")
        answers: list[Told | Problem | None] = []
        rows: list[tuple[int, FeedbackRow]] = []
        promises: list[tuple[Experiment, float]] = []
        for place, item in enumerate(items):
            if place % CHUNK == CHUNK - 1:
                # Requests of other tenants must not wait for all of them.
                await asyncio.sleep(0)
            try:
                row, experiment, promised = await self._replicas.knowing(
                    partial(self._checked, who, item.decision_id, *item.given())
                )
            except Problem as problem:
                answers.append(problem)
                continue
            answers.append(None)
            rows.append((place, row))
            promises.append((experiment, promised))
        if rows:
            try:
                self._state.check_open()
                written = await self._committer.written(
                    who.tenant, feedback=[row for _, row in rows]
                )
            finally:
                for experiment, promised in promises:
                    _give_back(experiment, promised)
            for (place, row), before in zip(rows, written.feedback, strict=True):
                try:
                    answers[place] = self._told(row, before)
                except Problem as problem:
                    answers[place] = problem
        return [answer for answer in answers if answer is not None]

    async def activate(self, who: Principal, decision_id: str) -> None:
        """Note that a deferred decision took effect."""
        self._state.check_open()
        _, record, experiment = await self._replicas.knowing(
            partial(self._verified, who, decision_id)
        )
        now = self._state.now()
        if now - record.at > experiment.config.feedback_window:
            raise Problem("expired")
        await self._committer.written(
            who.tenant, activations=[Activation(experiment.id, record.id, now)]
        )

    # --- checks ----------------------------------------------------------------------------------

    def _checked(
        self,
        who: Principal,
        decision_id: str,
        loss: float | None,
        reward: float | None,
        caught_up: bool,
    ) -> Checked:
        """Return the row of a feedback, and its reservation."""
        raw, record, experiment = self._verified(who, decision_id, caught_up)
        config = experiment.rules
        # `State.now`, without the call: every feedback passes here.
        now = time.time() + self._state.offset
        if now - record.at > config.feedback_window or record.id <= experiment.forgotten:
            raise Problem("expired")
        low, high = config.bounds
        given = loss if reward is None else reward
        experiment.rewarded = reward is not None
        # What most callers send; `loss_within` would return the same.
        if type(given) is float and low <= given <= high and (loss is None or reward is None):
            value = (given - low if reward is None else high - given) / (high - low)
        else:
            value = _loss(config.bounds, loss, reward)
        order = config.order
        if order is not None:
            _check_order(order, record, reward)
        status = "learned"
        promised = 0.0
        if not record.learnable:
            status = "not_learnable"
        else:
            # Room in the sums, until the feedback is committed and in them.
            promised = (record.inverse_p + 1.0) * PER_ONE
            largest = experiment.largest
            if record.segment and record.segment in experiment.segments_by_id:
                largest = max(largest, experiment.segments_by_id[record.segment].largest)
            if (
                record.inverse_p > records.LARGEST_INVERSE_P
                or largest + experiment.promised + promised > LARGEST_SUM
            ):
                experiment.alarm = "The experiment's sums would overflow; reset the experiment."
                raise Problem("contribution_too_large")
            experiment.promised += promised
        row = FeedbackRow(
            experiment.id, record.id, record.epoch, raw, value, "client", status, now, who.key_id,
            None, None if order is None else experiment.round,
        )  # fmt: skip
        return row, experiment, promised

    def _verified(
        self, who: Principal, decision_id: str, caught_up: bool
    ) -> tuple[bytes, Record, Experiment]:
        """Return the record of a token, as bytes and decoded, and its experiment.

        Raises
        ------
        StaleReplica
            If another replica may know more of it, unless this one has ``caught_up``.
        """
        state = self._state
        try:
            raw, record = state.keyring.verify(decision_id)
        except Problem as problem:
            if problem.code == "bad_signature" and not caught_up and state.store.has_peers:
                # It may be signed with a key that another replica created a moment ago.
                raise StaleReplica from None
            raise
        experiment = state.experiments.by_id.get(record.experiment)
        if not caught_up and (
            experiment is None or record.known > experiment.known or record.epoch > experiment.epoch
        ):
            raise StaleReplica
        if experiment is None and record.experiment in state.experiments.cold:
            raise Problem("store_unavailable", COLD, retry_after=1.0)
        if (
            experiment is None
            or experiment.tenant != who.tenant
            or (who.experiment is not None and not who.may_use(experiment.name))
        ):
            # A caller must not learn whether another tenant has such a decision.
            raise Problem("bad_signature")
        if record.epoch != experiment.epoch:
            raise Problem("epoch_over")
        if record.known > experiment.known:
            raise Problem(
                "store_unavailable",
                "This replica does not know all arms of the decision yet.",
                retry_after=1.0,
            )
        return raw, record, experiment

    def _told(self, row: FeedbackRow, before: Stored | None) -> Told:
        """Return the answer to a feedback that is in the store, by this request or another."""
        counters = self._counters
        if before is None or before.now:
            status = row.status if before is None else before.status
            counters[status] += 1
            return Told(status)  # type: ignore[arg-type]
        if before.status == "expired":
            raise Problem("expired")
        if before.loss == row.loss:
            counters["duplicates"] += 1
            return Told("duplicate")
        counters["contradictions"] += 1
        raise Problem("already_told")


def _give_back(experiment: Experiment, promised: float) -> None:
    """Free the room that a feedback reserved; a reset may have freed it already."""
    experiment.promised = max(0.0, experiment.promised - promised)


def _check_order(order: Order, record: Record, reward: float | None) -> None:
    """Refuse feedback that an experiment cannot fold."""
    if record.learnable and len(record.carried) != order.carried:
        # Signed by a version whose policy carried other numbers.
        raise Problem("bad_token")
    if reward is not None and order.policy.traits.unbounded:
        # Such a policy uses the distance from 0, which only a loss has.
        raise Problem(
            "invalid_request",
            f"The policy {order.policy!r} learns from losses; report the loss, minus the reward.",
        )


def _loss(bounds: tuple[float, float], loss: float | None, reward: float | None) -> float:
    """Return the loss in [0, 1] that a feedback reports, or refuse it."""
    for given in (loss, reward):
        if given is not None and not is_number(given):
            raise Problem("out_of_bounds", "A loss or reward must be a finite number.")
    try:
        value = loss_within(bounds, reward, loss, "a decision")
    except InvalidFeedback as error:
        both = (loss is None) == (reward is None)
        raise Problem("invalid_request" if both else "out_of_bounds", str(error)) from None
    name, given = ("loss", loss) if reward is None else ("reward", reward)
    low, high = bounds
    if low <= high and not (given is not None and low <= given <= high):
        # In memory, rounding may leave the bounds a little; a service takes what it is sent.
        expected = f"a number in [{low:g}, {high:g}]"
        raise Problem("out_of_bounds", must(name, "a decision", expected, given))
    return value
