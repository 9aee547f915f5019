"""Read-only view of a store: nothing is changed, and nothing has to be compiled.

The files and their names are described in `bothworlds.campaign.store`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bothworlds.campaign import shard_file as shardfile
from bothworlds.campaign.shard_file import About
from bothworlds.errors import ResultFileError

if TYPE_CHECKING:
    from bothworlds.engine.outcome import TileOutcome

_STEM = r"[0-9a-f]{20}-\d+-[0-9a-f]{8}"
_SHARD = re.compile(rf"({_STEM})-(\d+)-(\d+)\.parquet")
_CURVE = re.compile(rf"({_STEM})\.json")
_ASIDE = re.compile(rf"({_STEM})-\d+-\d+\.parquet(\.\d+)?\.damaged")


def missing_spans(
    have: Iterable[tuple[int, int]], wanted: int, first: int = 0
) -> list[tuple[int, int]]:
    """Return the repetitions from ``first`` on and below ``wanted`` that no span covers.

    A span reaches from its first number up to its second, which is not included.

    Examples
    --------
    >>> missing_spans([(0, 16), (32, 48)], 64)
    [(16, 32), (48, 64)]
    >>> missing_spans([(16, 32)], 0)
    []
    """
    at, missing = first, []
    for first, end in sorted(have):
        if min(first, wanted) > at:
            missing.append((at, min(first, wanted)))
        at = max(at, end)
        if at >= wanted:
            break
    if at < wanted:
        missing.append((at, wanted))
    return missing


@dataclass(frozen=True)
class CurveFiles:
    """Finished runs of one curve in a store.

    Parameters
    ----------
    stem : str
        Its name in the store.
    about : dict
        Its settings, see `Curve.settings`.
    labels : tuple of str
        Where it belongs.
    wanted : int
        Repetitions asked for; 0 where the number is unknown.
    spans : tuple of (int, int)
        Repetitions that are there.
    """

    stem: str
    about: About
    labels: tuple[str, ...]
    wanted: int
    spans: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """The policy's name."""
        return str(self.about["name"])

    @property
    def title(self) -> str:
        """Where it belongs, in words: its labels, or else its environment."""
        return "; ".join(self.labels) or str(self.about["environment"])

    @property
    def horizon(self) -> int:
        """Rounds of a run."""
        return int(self.about["checkpoints"][-1])

    @property
    def done(self) -> int:
        """How many different repetitions there are."""
        end = max((end for _, end in self.spans), default=0)
        return end - sum(high - low for low, high in missing_spans(self.spans, end))

    @property
    def missing(self) -> list[tuple[int, int]]:
        """Repetitions asked for that are not there."""
        return missing_spans(self.spans, self.wanted)

    @property
    def complete(self) -> bool:
        """Whether all the repetitions asked for are there."""
        return not self.missing


class StoreView:
    """A folder of finished shards that other processes may be adding to.

    Parameters
    ----------
    folder : path
        Where the files are.
    say : callable
        Takes a sentence about a file that could not be used.

    Examples
    --------
    >>> import tempfile
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(4, 0.25)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = bw.simulate(bw.UCB1(), world, horizon=100, repetitions=20, store=folder)
    ...     [(shelf.name, shelf.done, shelf.wanted) for shelf in StoreView(folder).shelves()]
    [('UCB1()', 20, 20)]
    """

    def __init__(self, folder: str | os.PathLike[str], say: Callable[[str], Any] = print) -> None:
        self.folder = Path(folder)
        self._say = say
        self._spans: dict[str, set[tuple[int, int]]] = {}
        self._stems: dict[str, set[str]] = {}
        # What turned out to be unusable; it may still be there under its name.
        self._refused: set[tuple[str, tuple[int, int]]] = set()
        # One thread may read while another saves.
        self._lock = threading.RLock()
        self.refresh()

    def refresh(self) -> None:
        """Look at the folder again: other processes may have added to it."""
        spans: dict[str, set[tuple[int, int]]] = defaultdict(set)
        with self._lock:
            began = time.monotonic()
            self._modified = self._last_change()
            for found in self._names(_SHARD):
                first, count = int(found[2]), int(found[3])
                if (found[1], (first, first + count)) not in self._refused:
                    spans[found[1]].add((first, first + count))
            self._spans = dict(spans)
            self._stems = defaultdict(set)
            for stem in spans:
                self._stems[stem.split("-")[0]].add(stem)
            self._refreshed = time.monotonic()
            self._took = self._refreshed - began

    def path(self, stem: str, span: tuple[int, int]) -> Path:
        """Return the file of a shard, whether it exists or not."""
        return self.folder / f"{stem}-{span[0]}-{span[1] - span[0]}.parquet"

    def shelves(self) -> list[CurveFiles]:
        """Return the finished runs of every curve, by label, arms, horizon and name."""
        known = {found[1]: _settings(self.folder / found[0]) for found in self._names(_CURVE)}
        shelves = []
        for stem in sorted({*known, *self._spans}):
            about = known.get(stem) or self._told(stem)
            if about:
                labels = tuple(about.get("labels", ()))
                spans = tuple(sorted(self._spans.get(stem, ())))
                shelves.append(CurveFiles(stem, about, labels, about.get("repetitions", 0), spans))
        return sorted(shelves, key=_order)

    def parts(self, shelf: CurveFiles) -> Iterator[tuple[About, TileOutcome]]:
        """Yield the metadata of each file of a curve, and its outcomes: in order, each once."""
        return self._parts(shelf.stem, max((end for _, end in shelf.spans), default=0))

    def read(self, shelf: CurveFiles) -> tuple[About, list[TileOutcome]]:
        """Return the settings of a curve, as its files hold them, and all its outcomes."""
        parts = list(self.parts(shelf))
        return parts[-1][0] if parts else {}, [outcome for _, outcome in parts]

    def sizes(self) -> tuple[Counter[str], Counter[str]]:
        """Return how many files every curve has, and how many bytes they take."""
        files, size = Counter[str](), Counter[str]()
        for found in [*self._names(_SHARD), *self._names(_CURVE)]:
            # Another process may have set it aside.
            with contextlib.suppress(FileNotFoundError):
                size[found[1]] += (self.folder / found[0]).stat().st_size
                files[found[1]] += 1
        return files, size

    def damaged(self) -> list[str]:
        """Return the names of the files that were set aside because they could not be used."""
        return sorted(found[0] for found in self._names(_ASIDE))

    def _last_change(self) -> int:
        """Return when the folder was last changed, or 0 where the system does not know."""
        try:
            return os.stat(self.folder).st_mtime_ns
        except OSError:
            return 0

    def _names(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [found for found in map(pattern.fullmatch, names) if found]

    def _told(self, stem: str) -> About:
        """Return the settings of a curve that no file of its own describes, from a shard."""
        for span in sorted(self._spans[stem]):
            try:
                return shardfile.settings(self.path(stem, span))
            except FileNotFoundError:
                continue
            except ResultFileError as error:
                self._say(_left_out(error))
        return {}

    def _parts(self, stem: str, wanted: int, first: int = 0) -> Iterator[tuple[About, TileOutcome]]:
        at = first
        # Of files that begin alike, the one that reaches further comes first.
        for span in sorted(self._spans.get(stem, ()), key=lambda span: (span[0], -span[1])):
            low, high = max(span[0], at), min(span[1], wanted)
            if low < high and (found := self._usable(stem, span)):
                about, (outcome,) = found
                yield about, shardfile.part(outcome, low - span[0], high - span[0])
                at = high

    def _usable(
        self, stem: str, span: tuple[int, int], states: bool = False
    ) -> tuple[About, list[TileOutcome]] | None:
        """Read a shard; one that cannot be used counts as missing."""
        try:
            return shardfile.read(self.path(stem, span), states)
        except FileNotFoundError:
            pass
        except ResultFileError as error:
            self._refused.add((stem, span))
            self._unusable(self.path(stem, span), error)
        with self._lock:
            self._spans.get(stem, set()).discard(span)
        return None

    def _unusable(self, path: Path, error: ResultFileError) -> None:
        """Return the message that a file cannot be used."""
        self._say(_left_out(error))


def _left_out(error: ResultFileError) -> str:
    return f"{str(error).removesuffix('.')}; its content is left out."


def holds_results(names: list[str]) -> bool:
    """Return whether a folder with these files is a store.

    Examples
    --------
    >>> holds_results(["report.html"]), holds_results([f"{20 * 'a'}-1000-{8 * 'b'}.json"])
    (False, True)
    """
    return any(_SHARD.fullmatch(name) or _CURVE.fullmatch(name) for name in names)


def content(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file, or nothing where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _settings(path: Path) -> About:
    """Return the content of a curve's own file, or nothing where it makes no sense."""
    found = content(path)
    return found if shardfile.sensible(found) else {}


def _order(shelf: CurveFiles) -> tuple[Any, ...]:
    world = str(shelf.about["environment"])
    place = [_natural(label) for label in shelf.labels], shelf.about["arms"], _natural(world)
    return *place, shelf.horizon, _natural(shelf.name), shelf.stem


def _natural(text: str) -> list[tuple[int, str]]:
    """Return the sort key of a text in natural order, numbers by their size.

    Examples
    --------
    >>> sorted(["K=16", "K=8"], key=_natural)
    ['K=8', 'K=16']
    """
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
