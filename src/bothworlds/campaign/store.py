"""Store of finished shards: one folder, one Parquet file each, named by a hash of its inputs.

====================================  =============================================================
``<stem>.json``                       a curve: its settings and the repetitions that are wanted
``<stem>-<first>-<count>.parquet``    a shard: ``count`` of its repetitions from number ``first`` on
``claims.lock``                       which process is working on what, see `Store.reserve`
====================================  =============================================================

A stem is a `Curve`'s.  Files appear whole or not at all, so any number of processes can read and
write one folder; each shard holds its own settings, so files of several folders can be copied
together.  A damaged file is noticed, set aside and computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bothworlds.campaign import shard_file as shardfile
from bothworlds.campaign.continuing import continued, shorter
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.shard import cut
from bothworlds.campaign.store_view import CurveFiles as CurveFiles
from bothworlds.campaign.store_view import StoreView, content, missing_spans
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.tile import TileJob
from bothworlds.errors import ResultFileError, invalid
from bothworlds.files import RangeLock, pyarrow, sweep

TRUSTED = 3
"""How often one shard may turn out to be damaged before a run gives up."""


class Store(StoreView):
    """A folder of finished shards, to find and to keep them.

    Parameters
    ----------
    folder : path
        Folder of the files; created when the first one is saved.
    say : callable
        Takes a sentence about a file that could not be used.

    Examples
    --------
    >>> import tempfile
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(4, 0.25)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = bw.simulate(bw.UCB1(), world, horizon=100, repetitions=20, store=folder)
    ...     [(shelf.about["name"], shelf.done) for shelf in Store(folder).shelves()]
    [('UCB1()', 20)]
    """

    def __init__(self, folder: str | os.PathLike[str], say: Callable[[str], Any] = print) -> None:
        super().__init__(folder, say)
        # Named so by earlier versions, which may be at work in the same folder.
        self._reserved = RangeLock(self.folder / "claims.lock")
        self._damages: Counter[str] = Counter()

    def make(self) -> None:
        """Make the folder, so that a place that cannot be written is known at once."""
        pyarrow()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            expected = f"a folder that can be written ({error.strerror})"
            raise invalid("store", "simulate", expected, str(self.folder)) from error
        sweep(self.folder)

    def missing(self, curve: Curve) -> list[tuple[int, int]]:
        """Return the repetitions of a curve that have no file yet."""
        return _missing(self._spans.get(curve.stem, ()), curve)

    def lacks(self, curve: Curve, span: tuple[int, int]) -> bool:
        """Return whether some of these repetitions have no file of any process yet."""
        changed = self._last_change() != self._modified
        # Looking takes longer the more files there are; it may take a hundredth of the time.
        if changed and time.monotonic() - self._refreshed > 100 * self._took:
            self.refresh()
        have = self._spans.get(curve.stem, ())
        return _overlap(missing_spans(have, span[1]), span)

    def reserve(self, stem: str, span: tuple[int, int]) -> bool:
        """Reserve repetitions of a curve for this process; False where another one has them.

        This only saves work: where it is not possible (no locks on this system, or on this file
        system) two processes may run the same shard, and both write the same file.
        """
        return self._reserved.take(_place(stem, span[0]), span[1] - span[0])

    def release(self, stem: str, span: tuple[int, int]) -> None:
        """Release the reserved shards."""
        self._reserved.drop(_place(stem, span[0]), span[1] - span[0])

    def release_all(self) -> None:
        """Give up all that was reserved."""
        self._reserved.close()

    def jobs(self, curve: Curve, keep: bool = False) -> list[TileJob]:
        """Return the missing jobs of a curve, continuing from shorter runs where there are any.

        With ``keep``, longer runs can continue from these.
        """
        if not self.missing(curve):
            return []
        going_on = self._continued(curve, keep)
        have = [*self._spans.get(curve.stem, ()), *(job.span for job in going_on)]
        fresh = cut(curve, _missing(have, curve), keep)
        return sorted([*going_on, *fresh], key=lambda job: job.span)

    def want(self, curves: Iterable[Curve]) -> None:
        """Write the settings of curves that are going to be run, so that others can follow them."""
        for curve in curves:
            path = self.folder / f"{curve.stem}.json"
            known = content(path)
            # A file that makes no sense is written again.
            if not shardfile.sensible(known):
                known = {}
            labels = {curve.label, *known.get("labels", ())} - {""}
            told = {
                **curve.settings,
                "labels": sorted(labels),
                "repetitions": max(curve.span[1], known.get("repetitions", 0)),
            }
            if told != known:
                with shardfile.saving(path, durable=False) as draft:
                    draft.write_text(json.dumps(told), encoding="utf-8")

    def save(self, curve: Curve, outcomes: Sequence[TileOutcome]) -> None:
        """Keep finished tiles, which follow one another, as one file."""
        span = outcomes[0].first, outcomes[-1].first + outcomes[-1].count
        path = self.path(curve.stem, span)
        shardfile.write(path, curve.stem, curve.settings, outcomes)
        with self._lock:
            self._refused.discard((curve.stem, span))
            self._spans.setdefault(curve.stem, set()).add(span)
            self._stems[curve.key].add(curve.stem)

    def load(self, curve: Curve) -> list[TileOutcome]:
        """Return the outcomes of the repetitions wanted, in order, each once.

        A file that cannot be used is reported and set aside; its repetitions are missing then.
        """
        return [outcome for _, outcome in self._parts(curve.stem, curve.span[1], curve.first)]

    def _unusable(self, path: Path, error: ResultFileError) -> None:
        """Set a file aside, so that its runs are computed again."""
        self._damages[path.name] += 1
        if self._damages[path.name] == TRUSTED:
            raise ResultFileError(
                f"The file {path.name} keeps getting corrupted after it is saved. Check the "
                f"disk that holds {self.folder}."
            ) from error
        aside = path.with_name(f"{path.name}.damaged")
        number = 1
        # A folder cannot take the place of anything.
        while path.is_dir() and aside.exists():
            number += 1
            aside = path.with_name(f"{path.name}.{number}.damaged")
        with contextlib.suppress(OSError):
            path.replace(aside)
        self._say(f"{error} It is set aside as {aside.name}; its content is missing.")

    def _continued(self, curve: Curve, keep: bool) -> list[TileJob]:
        """Return the missing tiles that can continue where shorter runs ended."""
        jobs: list[TileJob] = []
        for stem in shorter(curve, self._stems.get(curve.key, ())):
            for span in sorted(self._spans[stem]):
                have = [*self._spans.get(curve.stem, ()), *(job.span for job in jobs)]
                missing = _missing(have, curve)
                if _overlap(missing, span) and (found := self._usable(stem, span, states=True)):
                    about, tiles = found
                    jobs += continued(curve, about["checkpoints"], tiles, missing, keep)
        return jobs


def _missing(have: Iterable[tuple[int, int]], curve: Curve) -> list[tuple[int, int]]:
    """Return the repetitions of a curve that no span covers."""
    return missing_spans(have, curve.span[1], curve.first)


def _overlap(spans: Iterable[tuple[int, int]], span: tuple[int, int]) -> bool:
    """Return whether any of the spans has a repetition of this one."""
    return any(low < span[1] and span[0] < high for low, high in spans)


def _place(stem: str, first: int) -> int:
    """Return the byte of the lock file that stands for a repetition of a curve."""
    return (int.from_bytes(hashlib.sha256(stem.encode()).digest()[:4], "little") << 30) + first
