"""Finished shards on disk: one folder, one Parquet file each, named by what determines it.

====================================  =============================================================
``<stem>.json``                       a curve: its settings and the repetitions that are wanted
``<stem>-<first>-<count>.parquet``    a shard: ``count`` of its repetitions from number ``first`` on
``claims.lock``                       who is working on what, see `bothworlds.simulation.claims`
====================================  =============================================================

A stem is a `Curve`'s.  Files appear whole or not at all, so any number of processes can read and
write one folder; each shard says all about itself, so files of several folders can be copied
together.  A damaged file is noticed, set aside and computed again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bothworlds.errors import InvalidParameter, ResultFileError, must
from bothworlds.simulation import shardfile
from bothworlds.simulation.claims import Claims
from bothworlds.simulation.curves import Curve
from bothworlds.simulation.shardfile import About
from bothworlds.simulation.shards import Piece, Span, cut, missing_spans
from bothworlds.simulation.tile import TileOutcome

_SHARD = re.compile(r"([0-9a-f]{20}-\d+-[0-9a-f]{8})-(\d+)-(\d+)\.parquet")
_CURVE = re.compile(r"([0-9a-f]{20}-\d+-[0-9a-f]{8})\.json")


@dataclass(frozen=True)
class Shelf:
    """What a store has of one curve.

    Parameters
    ----------
    stem : str
        Its name in the store.
    about : dict
        Its settings, see `Curve.settings`.
    labels : tuple of str
        Where it belongs.
    wanted : int
        Repetitions asked for.
    spans : tuple of Span
        Repetitions that are there.
    """

    stem: str
    about: About
    labels: tuple[str, ...]
    wanted: int
    spans: tuple[Span, ...]

    @property
    def done(self) -> int:
        """How many different repetitions there are."""
        end = max((end for _, end in self.spans), default=0)
        return end - sum(high - low for low, high in missing_spans(self.spans, end))

    @property
    def complete(self) -> bool:
        """Whether all the repetitions asked for are there."""
        return not missing_spans(self.spans, self.wanted)


class Store:
    """A folder of finished shards.

    Parameters
    ----------
    folder : path
        Where the files are; made when the first one is saved.
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
        self.folder = Path(folder)
        self.claims = Claims(self.folder / "claims.lock")
        self._say = say
        self._spans: dict[str, set[Span]] = {}
        self._stems: dict[str, set[str]] = {}
        self.refresh()

    def make(self) -> None:
        """Make the folder, so that a place that cannot be written is known at once."""
        shardfile.pyarrow()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            expected = f"a folder that can be written ({error.strerror})"
            raise InvalidParameter(must("store", "simulate", expected, str(self.folder))) from error

    def refresh(self) -> None:
        """Look at the folder again: other processes may have added to it."""
        spans: dict[str, set[Span]] = defaultdict(set)
        self._refreshed = time.monotonic()
        for found in self._names(_SHARD):
            first, count = int(found[2]), int(found[3])
            spans[found[1]].add((first, first + count))
        self._spans = dict(spans)
        self._stems = defaultdict(set)
        for stem in spans:
            self._stems[stem.split("-")[0]].add(stem)

    def path(self, stem: str, span: Span) -> Path:
        """Return the file of a shard, whether it exists or not."""
        return self.folder / f"{stem}-{span[0]}-{span[1] - span[0]}.parquet"

    def missing(self, curve: Curve) -> list[Span]:
        """Return the repetitions of a curve that have no file yet."""
        return missing_spans(self._spans.get(curve.stem, ()), curve.repetitions)

    def lacks(self, curve: Curve, span: Span) -> bool:
        """Return whether some of these repetitions have no file, as of about a second ago."""
        if time.monotonic() - self._refreshed > 1.0:
            self.refresh()
        have = self._spans.get(curve.stem, ())
        return any(low < span[1] and span[0] < high for low, high in missing_spans(have, span[1]))

    def pieces(self, curve: Curve, keep: bool = False) -> list[Piece]:
        """Return what has to be run for a curve, going on from shorter runs where there are any.

        With ``keep``, longer runs will be able to go on from these.
        """
        if not self.missing(curve):
            return []
        going_on = self._continued(curve, keep)
        have = [*self._spans.get(curve.stem, ()), *(piece.span for piece in going_on)]
        fresh = cut(curve, missing_spans(have, curve.repetitions), keep)
        return sorted([*going_on, *fresh], key=lambda piece: piece.span)

    def want(self, curves: Iterable[Curve]) -> None:
        """Write down what is going to be run, so that others can see how far it is."""
        for curve in curves:
            path = self.folder / f"{curve.stem}.json"
            known = _json(path)
            labels = {curve.label, *known.get("labels", ())} - {""}
            content = {
                **curve.settings,
                "labels": sorted(labels),
                "repetitions": max(curve.repetitions, known.get("repetitions", 0)),
            }
            if content != known:
                with shardfile.saving(path) as draft:
                    draft.write_text(json.dumps(content), encoding="utf-8")

    def save(self, curve: Curve, outcomes: Sequence[TileOutcome]) -> None:
        """Keep finished tiles, which follow one another, as one file."""
        span = outcomes[0].first, outcomes[-1].first + outcomes[-1].count
        path = self.path(curve.stem, span)
        shardfile.write(path, curve.stem, curve.settings, outcomes)
        self._spans.setdefault(curve.stem, set()).add(span)
        self._stems[curve.key].add(curve.stem)

    def load(self, curve: Curve) -> list[TileOutcome]:
        """Return the outcomes of the repetitions wanted, in order, each once.

        A file that cannot be used is reported and set aside; its repetitions are missing then.
        """
        return self._load(curve.stem, curve.repetitions)[1]

    def read(self, shelf: Shelf) -> tuple[About, list[TileOutcome]]:
        """Return the settings of a curve, as its files tell them, and all its outcomes."""
        return self._load(shelf.stem, max((end for _, end in shelf.spans), default=0))

    def shelves(self) -> list[Shelf]:
        """Return what there is of every curve, by label, arms, horizon and name."""
        known = {found[1]: _json(self.folder / found[0]) for found in self._names(_CURVE)}
        for stem, spans in self._spans.items():
            if not known.get(stem) and spans:
                with contextlib.suppress(ResultFileError, FileNotFoundError):
                    known[stem] = shardfile.settings(self.path(stem, min(spans)))
        shelves = [
            Shelf(
                stem, about, tuple(about.get("labels", ())), about.get("repetitions", 0),
                tuple(sorted(self._spans.get(stem, ()))),
            )
            for stem, about in known.items()
            if about
        ]  # fmt: skip
        return sorted(shelves, key=_order)

    def _names(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        try:
            names = [path.name for path in self.folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [found for found in map(pattern.fullmatch, names) if found]

    def _load(self, stem: str, wanted: int) -> tuple[About, list[TileOutcome]]:
        about: About = {}
        outcomes: list[TileOutcome] = []
        at = 0
        # Of files that begin alike, the one that reaches further comes first.
        for span in sorted(self._spans.get(stem, ()), key=lambda span: (span[0], -span[1])):
            low, high = max(span[0], at), min(span[1], wanted)
            if low < high and (found := self._usable(stem, span)):
                about, (outcome,) = found
                outcomes.append(shardfile.part(outcome, low - span[0], high - span[0]))
                at = high
        return about, outcomes

    def _usable(
        self, stem: str, span: Span, states: bool = False
    ) -> tuple[About, list[TileOutcome]] | None:
        """Read a shard; one that cannot be used is set aside and counts as missing."""
        path = self.path(stem, span)
        try:
            return shardfile.read(path, states)
        except FileNotFoundError:
            pass
        except ResultFileError as error:
            aside = path.with_name(f"{path.name}.damaged")
            with contextlib.suppress(OSError):
                path.replace(aside)
            self._say(f"{error} It is set aside as {aside.name}; what it held is missing.")
        self._spans[stem].discard(span)
        return None

    def _continued(self, curve: Curve, keep: bool) -> list[Piece]:
        """Return the missing tiles that can go on where shorter runs ended."""
        pieces: list[Piece] = []
        for stem in self._shorter(curve):
            for span in sorted(self._spans[stem]):
                missing = missing_spans(
                    [*self._spans.get(curve.stem, ()), *(piece.span for piece in pieces)],
                    curve.repetitions,
                )
                if any(low < span[1] and span[0] < high for low, high in missing):
                    found = self._usable(stem, span, states=True)
                    if found:
                        pieces += _going_on(curve, *found, missing, keep)
        return pieces

    def _shorter(self, curve: Curve) -> list[str]:
        """Return the stems of the same runs with shorter horizons, the longest first."""
        horizons = {stem: int(stem.split("-")[1]) for stem in self._stems.get(curve.key, ())}
        fits = [stem for stem, horizon in horizons.items() if horizon < curve.horizon]
        return sorted(fits, key=lambda stem: -horizons[stem])


def _going_on(
    curve: Curve, about: About, tiles: list[TileOutcome], missing: list[Span], keep: bool
) -> list[Piece]:
    """Return the tiles of a shorter run's shard that lie in what is missing, as pieces."""
    after = about["checkpoints"][-1]
    before = [t for t in curve.checkpoints if t <= after]
    if not set(before) <= set(about["checkpoints"]):
        return []
    columns = np.searchsorted(about["checkpoints"], before)
    pieces = []
    for tile in tiles:
        first, end = tile.first, tile.first + tile.count
        if any(low <= first and end <= high for low, high in missing):
            (piece,) = cut(curve, [(first, end)], keep, whole=True)
            job = replace(piece.job, saved=tile.state, checkpoints=curve.checkpoints[len(before) :])
            earlier = replace(
                tile,
                cost=tile.cost[:, columns],
                tracked=None if tile.tracked is None else tile.tracked[:, columns],
            )
            pieces.append(Piece(job, earlier, after))
    return pieces


def _json(path: Path) -> dict[str, Any]:
    """Return what a file says, or nothing where it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    return {}


def _order(shelf: Shelf) -> tuple[Any, ...]:
    return shelf.labels, shelf.about["environment"], shelf.about["checkpoints"][-1], shelf.stem
