"""Report of an experiment: `bothworlds.inference.report` on its log, and values of targets.

The log has the probability of the arm that was played, and not those of the others: they would
make a record as long as the experiment has arms. That one probability suffices for what is exact
here. Weighting an answer by its inverse gives, for every arm and for every target, terms whose
expectation is the arm's or the target's mean whatever was known before: means, confidence
sequences and off-policy values need nothing else. An interval for a time fixed in advance needs
weights that even out the noise of adaptive draws, made of every arm's probability at every
decision, and is left out; the sequence holds at that time, too.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bothworlds.inference import report as inferred
from bothworlds.inference import value as valued
from bothworlds.logs.record import LoggedDecision
from bothworlds.serve.domain import records
from bothworlds.serve.problems import Problem

if TYPE_CHECKING:
    from bothworlds.serve.domain.service import Principal, Service

Page = list[dict[str, Any]]

MOST_TARGETS = 16
"""Targets of one report: each reads the log once."""
UNIFORM, ARM = "uniform", "arm:"


async def report(
    service: Service, who: Principal, name: str, confidence: float, targets: Sequence[str] = ()
) -> dict[str, Any]:
    """Return how good every arm is and how sure that is, from the log of the current epoch.

    Decisions count whose mode was learn or uniform, and feedback that was learned. Rows are read
    in the event loop and counted in a thread, a page at a time, so that decisions go on and the
    log may be larger than memory.

    Parameters
    ----------
    service : Service
        Whose log it is.
    who : Principal
        Who asks.
    name : str
        The experiment.
    confidence : float
        How sure every statement is.
    targets : sequence of str
        ``uniform`` for a draw among the arms that could be drawn, ``arm:NAME`` for one arm, over
        the decisions in which it could be drawn.
    """
    described = service.experiment(who, name)
    arms = [arm["name"] for arm in described["arms"]]
    bounds = tuple(described["bounds"])
    loop = asyncio.get_running_loop()
    if len(targets) > MOST_TARGETS:
        raise Problem("invalid_request", f"A report has at most {MOST_TARGETS} targets.")
    for target in targets:
        _check_target(target, arms)

    def log(keep: Callable[[LoggedDecision], bool] = lambda row: True) -> Iterator[LoggedDecision]:
        pages = service.rows(who, name)
        return filter(keep, _decisions(pages, described["epoch"], arms, loop))

    def counted() -> dict[str, Any]:
        rows = log()
        first = next(rows, None)
        if first is None:
            raise Problem("nothing_logged")
        every = itertools.chain([first], rows)
        found = inferred(every, confidence=confidence, bounds=bounds, arms=arms).as_dict()
        if targets:
            found["targets"] = {target: _worth(target) for target in targets}
        return found

    def _worth(target: str) -> dict[str, Any] | None:
        arm = target.removeprefix(ARM)
        rows = log() if target == UNIFORM else log(lambda row: arm in _present(row))
        first = next(rows, None)
        if first is None:
            return None
        every = itertools.chain([first], rows)
        wanted = _evenly if target == UNIFORM else arm
        return valued(every, wanted, confidence=confidence, bounds=bounds, arms=arms).as_dict()

    async with service.reporting:
        # Each takes a core for as long as the log is: several would starve other readers.
        found = await asyncio.to_thread(counted)
    return {**found, "source": f"{name}, epoch {described['epoch']}"}


def _check_target(target: str, arms: Sequence[str]) -> None:
    if target == UNIFORM:
        return
    if not target.startswith(ARM):
        raise Problem("invalid_request", "A target is `uniform`, or `arm:` and the name of one.")
    if target.removeprefix(ARM) not in arms:
        raise Problem("arm_not_found", f"There is no arm {target.removeprefix(ARM)[:100]!r}.")


@lru_cache(maxsize=256)
def _shares(present: str) -> dict[str, float]:
    names = json.loads(present)
    return dict.fromkeys(names, 1.0 / len(names))


def _present(row: LoggedDecision) -> dict[str, float]:
    return _shares(str(row.extra["present"]))


def _evenly(row: LoggedDecision) -> dict[str, float]:
    """Return a draw in which all arms are alike that could be drawn."""
    return _present(row)


def _decisions(
    pages: AsyncIterator[Page], epoch: int, arms: Sequence[str], loop: asyncio.AbstractEventLoop
) -> Iterator[LoggedDecision]:
    """Yield the decisions of an epoch; each page is asked for in the event loop."""
    numbers = itertools.count(1)
    texts: dict[int, str] = {}

    async def following() -> Page | None:
        return await anext(pages, None)

    while (page := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
        for row in page:
            if row["epoch"] != epoch or row["mode"] not in records.LEARNABLE:
                continue
            if row["available"] is None:
                known = row["known"]
                text = texts.get(known) or texts.setdefault(known, json.dumps(arms[:known]))
            else:
                text = json.dumps(row["available"])
            loss = row["loss"] if row["status"] == "learned" else None
            # Renumbered: replicas may use a round of the experiment twice.
            yield LoggedDecision(
                next(numbers), row["arm"], row["probability"], loss=loss, extra={"present": text}
            )
