"""Administration: experiments are created and changed, each change with its audit row."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal, TypeVar

from bothworlds.arguments import is_number
from bothworlds.errors import InvalidParameter
from bothworlds.serve.domain import records
from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.config import Arm, Config, NewExperiment, check_arm, checked
from bothworlds.serve.domain.experiment import Experiment, short
from bothworlds.serve.domain.folds import Fold
from bothworlds.serve.domain.part import Part
from bothworlds.serve.domain.rules import check_name
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import folding, segments
from bothworlds.serve.store.rows import ArmRow, AuditRow, ExperimentRow
from bothworlds.serve.store.writer import Writer

_LOG = logging.getLogger("bothworlds.serve")
T = TypeVar("T")

ATTEMPTS = 5
"""How often a change is tried while other changes of the experiment come first."""


class Administration(Part):
    """Changes of the configuration of a service."""

    def _document(self, who: Principal, name: str) -> dict[str, Any]:
        found = self._experiments.find(who.tenant, name)
        return found.document(self._replicas.state_age())

    async def administer(
        self,
        who: Principal,
        action: str,
        name: str | None,
        change: Mapping[str, Any],
        work: Callable[[Writer], Any],
        expected: Experiment | None = None,
    ) -> None:
        """Run a change and its audit row as one transaction, and serve the new configuration."""
        self._state.check_open()
        audit = audit_row(who, action, name, dict(change))
        pair = None if expected is None else (expected.id, expected.version)
        try:
            await self._committer.run(lambda writer: writer.administer(audit, work, pair))
        except LookupError:
            await self._replicas.reload()
            raise Problem("config_changed") from None
        await self._replicas.reload()
        log_change(audit)

    async def _insist(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Try a change again while other requests change the experiment at the same time."""
        for _ in range(ATTEMPTS - 1):
            try:
                return await attempt()
            except Problem as problem:
                if problem.code != "config_changed":
                    raise
        return await attempt()

    async def create(self, who: Principal, spec: NewExperiment) -> dict[str, Any]:
        """Create an experiment; return its document."""
        config, arms = checked(spec)
        # Before any caller can ask for it, so that no request waits for the compiler.
        await self._state.loop.run_in_executor(None, config.warm_up)
        now = time.time()
        row = ExperimentRow(
            0, who.tenant, spec.name, config.document(), "learn", None, 0, 1, now,
            tuple(
                ArmRow(place, arm.name, arm.value, "active", 0, now)
                for place, arm in enumerate(arms)
            ),
        )  # fmt: skip

        def work(writer: Writer) -> None:
            number = writer.put_experiment(row)
            if number is None:
                raise Problem(
                    "experiment_exists", f"The experiment {short(spec.name)} exists already."
                )
            if config.order is not None:
                n = len(arms)
                folding.begin(writer, (number, 0), Fold.blank(config.order, range(n), n))

        change = {"config": config.document(), "arms": [arm.name for arm in arms]}
        await self.administer(who, "create", spec.name, change, work)
        return self._document(who, spec.name)

    async def create_tenant(self, who: Principal, tenant: str) -> None:
        """Create a tenant, unless there is one of this name."""
        check_name(tenant, "tenant")

        def work(writer: Writer) -> None:
            writer.put_tenant(tenant, time.time())

        await self.administer(who, "create_tenant", None, {"tenant": tenant}, work)

    async def patch(
        self, who: Principal, name: str, changes: Mapping[str, Any], *, if_match: int
    ) -> dict[str, Any]:
        """Change the configuration of an experiment, if it still has version ``if_match``."""
        experiment = self._experiments.find(who.tenant, name)
        config = experiment.config.changed(changes)
        config.check_shares([*experiment.places], experiment.names(experiment.active))
        if experiment.version != if_match:
            raise Problem("config_changed")
        await self._state.loop.run_in_executor(None, config.warm_up)

        def work(writer: Writer) -> None:
            _put_config(writer, experiment, config)

        before = experiment.config.document()
        change = {key: [before[key], value] for key, value in changes.items()}
        await self.administer(who, "patch", name, change, work, experiment)
        return self._document(who, name)

    async def set_mode(
        self,
        who: Principal,
        name: str,
        action: Literal["pin", "uniform", "pause", "resume", "archive", "reset", "shadow"],
        *,
        arm: str | None = None,
    ) -> dict[str, Any]:
        """Pin an arm, decide evenly, pause, resume, archive, reset, or play an arm for a shadow.

        ``pin`` and ``shadow`` play ``arm`` alone, with probability 1, so that nothing is learned;
        ``shadow`` also logs what the policy would have drawn. ``pause`` and ``archive`` decide
        nothing; feedback is still learned. ``reset`` starts a new epoch with nothing learned.
        """

        async def attempt() -> dict[str, Any]:
            experiment = self._experiments.find(who.tenant, name)
            mode, pinned, epoch = _next_mode(experiment, action, arm)

            def work(writer: Writer) -> None:
                writer.put_config(experiment.id, experiment.config.document(), mode, pinned, epoch)
                if epoch != experiment.epoch:
                    writer.clear_entries(experiment.id)
                    segments.evict_all(writer, experiment.id, time.time())
                    writer.put_seal(experiment.id, epoch, experiment.known)
                    order = experiment.config.order
                    if order is not None:
                        fold = Fold.blank(order, experiment.active, experiment.known)
                        folding.begin(writer, (experiment.id, epoch), fold)

            change = {
                "mode": [experiment.mode, mode], "epoch": [experiment.epoch, epoch], "arm": arm,
            }  # fmt: skip
            await self.administer(who, action, name, change, work, experiment)
            return self._document(who, name)

        return await self._insist(attempt)

    async def add_arm(
        self, who: Principal, name: str, arm: Arm, *, probability: float | None = None
    ) -> dict[str, Any]:
        """Add an arm with an initial probability, by default 1 / K."""
        check_arm(arm)
        if probability is not None and not (is_number(probability) and 0 < probability < 1):
            raise Problem("invalid_request", "The probability must be strictly between 0 and 1.")

        async def attempt() -> dict[str, Any]:
            experiment = self._experiments.find(who.tenant, name)
            if arm.name in experiment.places:
                raise Problem("arm_id_used")
            if experiment.known >= records.MOST_ARMS:
                raise Problem(
                    "invalid_request", f"An experiment has at most {records.MOST_ARMS} arms."
                )
            order = experiment.config.order
            # A fold places the arm itself, at its place in the order.
            entry = experiment.entry(probability) if order is None else 0
            row = ArmRow(experiment.known, arm.name, arm.value, "active", entry, time.time())
            entries = {
                each.id: each.entry(experiment, entry, probability)
                for each in experiment.segments.values()
            }

            def work(writer: Writer) -> None:
                if not writer.put_arm(experiment.id, row):
                    raise Problem("arm_id_used")
                writer.put_seal(experiment.id, experiment.epoch, row.place + 1)
                if order is not None:
                    try:
                        folding.join(writer, experiment.place, order, row.place, probability)
                    except InvalidParameter as error:
                        raise Problem("invalid_request", str(error)) from error
                segments.enter(writer, experiment.id, row.place, entries)
                _put_config(writer, experiment, experiment.config)

            change = {"arm": arm.name, "place": row.place, "entry": row.entry}
            await self.administer(who, "add_arm", name, change, work, experiment)
            return self._document(who, name)

        return await self._insist(attempt)

    async def retire_arm(self, who: Principal, name: str, arm: str) -> None:
        """Retire an arm for good; its name is not used again."""

        async def attempt() -> None:
            experiment = self._experiments.find(who.tenant, name)
            place = experiment.places.get(arm)
            if place is None or place not in experiment.active:
                raise Problem("arm_not_found", f"There is no active arm {short(arm)}.")
            if len(experiment.active) <= 2:
                raise Problem("last_arms")
            if place == experiment.pinned:
                raise Problem("mode_conflict", "The arm is pinned; resume the experiment first.")
            experiment.served([each for each in experiment.active if each != place])

            def work(writer: Writer) -> None:
                writer.retire_arm(experiment.id, place)
                order = experiment.config.order
                if order is not None:
                    folding.leave(writer, experiment.place, order, place)
                _put_config(writer, experiment, experiment.config)

            change = {"arm": arm, "place": place}
            await self.administer(who, "retire_arm", name, change, work, experiment)

        await self._insist(attempt)


def audit_row(
    who: Principal, action: str, experiment: str | None, change: dict[str, Any]
) -> AuditRow:
    """Return the row of the audit log for a change that a caller makes now."""
    return AuditRow(time.time(), who.tenant, who.key_id, action, experiment, who.request_id, change)


def log_change(audit: AuditRow) -> None:
    """Log a change that was committed, with the experiment and the action."""
    _LOG.info(
        "changed",
        extra={
            "action": audit.action, "experiment": audit.experiment, "key": audit.key_id,
            "request_id": audit.request_id,
        },
    )  # fmt: skip


def _next_mode(experiment: Experiment, action: str, arm: str | None) -> tuple[str, int | None, int]:
    """Return mode, pinned arm and epoch after an action."""
    if action in ("pin", "shadow"):
        if arm is None:
            raise Problem("invalid_request", f"The action {action} needs an arm.")
        place = experiment.places.get(arm)
        if place is None or place not in experiment.active:
            raise Problem("arm_not_found", f"There is no active arm {short(arm)}.")
        return ("pinned" if action == "pin" else "shadow"), place, experiment.epoch
    if arm is not None:
        raise Problem("invalid_request", f"The action {action} takes no arm.")
    if action == "reset":
        if experiment.mode == "archived":
            raise Problem("mode_conflict", "An archived experiment cannot be reset.")
        if experiment.epoch >= 2**16 - 1:
            raise Problem("mode_conflict", "The experiment was reset too often.")
        return experiment.mode, experiment.pinned, experiment.epoch + 1
    modes = {
        "uniform": "uniform", "pause": "paused", "resume": "learn", "archive": "archived",
    }  # fmt: skip
    if action not in modes:
        raise Problem("invalid_request", f"There is no action {short(action)}.")
    return modes[action], None, experiment.epoch


def _put_config(writer: Writer, experiment: Experiment, config: Config) -> None:
    """Give an experiment its next version, with this configuration."""
    mode, pinned, epoch = experiment.mode, experiment.pinned, experiment.epoch
    writer.put_config(experiment.id, config.document(), mode, pinned, epoch)
