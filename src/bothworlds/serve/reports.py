"""Report of an experiment: `bothworlds.inference.report` on its log, read as it is needed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from bothworlds.bandit.logged import LoggedDecision
from bothworlds.inference import report as inferred
from bothworlds.serve.exports import logged
from bothworlds.serve.problems import Problem

if TYPE_CHECKING:
    from bothworlds.serve.service import Principal, Service

Page = list[dict[str, Any]]


async def report(service: Service, who: Principal, name: str, confidence: float) -> dict[str, Any]:
    """Return how good every arm is and how sure that is, from the log of the current epoch.

    Rows are read in the event loop and counted in a thread, a page at a time, so that decisions go
    on and the log may be larger than memory.
    """
    described = service.experiment(who, name)
    pages = service.rows(who, name)
    low, high = described["bounds"]
    rows = _decisions(pages, described["epoch"], asyncio.get_running_loop())

    def counted() -> dict[str, Any]:
        first = next(rows, None)
        if first is None:
            raise Problem("nothing_logged")
        every = itertools.chain([first], rows)
        return inferred(every, confidence=confidence, bounds=(low, high)).as_dict()

    found = await asyncio.to_thread(counted)
    return {**found, "source": f"{name}, epoch {described['epoch']}"}


def _decisions(
    pages: AsyncIterator[Page], epoch: int, loop: asyncio.AbstractEventLoop
) -> Iterator[LoggedDecision]:
    """Yield the decisions of an epoch; each page is asked for in the event loop."""

    async def following() -> Page | None:
        return await anext(pages, None)

    while (page := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
        yield from (logged(row) for row in page if row["epoch"] == epoch)
