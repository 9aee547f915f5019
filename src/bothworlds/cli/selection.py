"""Selection of simulated curves: the stores below a folder, and words that tell curves apart."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from bothworlds.campaign.store_view import CurveFiles, StoreView, holds_results
from bothworlds.cli.console import say
from bothworlds.errors import InvalidParameter, ResultFileError
from bothworlds.text import typed


@dataclass(frozen=True)
class Holding:
    """A curve, and the store that has it.

    Parameters
    ----------
    store : StoreView
        Where it is.
    shelf : CurveFiles
        What there is of it.
    """

    store: StoreView
    shelf: CurveFiles

    @property
    def text(self) -> str:
        """The text that is searched for words."""
        shelf = self.shelf
        numbers = f"horizon={typed(shelf.horizon)} seed={shelf.about['seed']}"
        return f"{shelf.title} {shelf.name} {numbers}".lower()


def stores_in(folder: Path) -> list[StoreView]:
    """Return every store at or below a folder; there is at least one."""
    try:
        # Walking on is silent about folders that cannot be opened; the first one must not be.
        os.listdir(folder)
    except FileNotFoundError:
        raise ResultFileError(
            f"There is no folder {str(folder)!r}; bothworlds paper creates 'results', and "
            "bothworlds compare 'comparison'."
        ) from None
    found = [Path(place) for place, _, names in os.walk(folder) if holds_results(names)]
    if not found:
        raise ResultFileError(
            f"There are no results in {str(folder)!r}; bothworlds paper or bothworlds compare "
            f"creates some with --output {shlex.quote(str(folder))}."
        )
    return [StoreView(place, say) for place in sorted(found)]


def holdings(folder: Path) -> list[Holding]:
    """Return the curves of all stores below a folder; of equal ones, that with the most runs."""
    fullest: dict[str, Holding] = {}
    for store in stores_in(folder):
        for shelf in store.shelves():
            known = fullest.get(shelf.stem)
            if known is None or known.shelf.done < shelf.done:
                fullest[shelf.stem] = Holding(store, shelf)
    return list(fullest.values())


def chosen(words: Sequence[str], among: Sequence[Holding]) -> list[Holding]:
    """Return the curves that any of the words means, in their order; all without words.

    A word is the beginning of a stem, or occurs in the label, the policy's name, or in such as
    "horizon=1e5" and "seed=0"; several in one string must all fit.
    """
    if not words:
        return list(among)
    stems = {holding.shelf.stem for word in words for holding in _meant(word, among)}
    return [holding for holding in among if holding.shelf.stem in stems]


def _meant(text: str, among: Sequence[Holding]) -> list[Holding]:
    parts = text.lower().split()
    if len(parts) == 1:
        begun = [holding for holding in among if _begins(parts[0], holding)]
        if begun:
            return begun
    found = [holding for holding in among if all(_fits(part, holding) for part in parts)]
    if not found or not parts:
        raise InvalidParameter(_unknown(text, among))
    return found


def _begins(word: str, holding: Holding) -> bool:
    """Return whether a stem begins so; shorter words are more likely to mean something else."""
    return len(word) >= 4 and holding.shelf.stem.startswith(word)


def _fits(word: str, holding: Holding) -> bool:
    return _begins(word, holding) or bool(_whole_numbers(word).search(holding.text))


def _whole_numbers(word: str) -> re.Pattern[str]:
    """Return the pattern that finds a word anywhere, but no number inside another.

    Examples
    --------
    >>> names = ["k=8, gap=1/8", "k=80, gap=1/16", "exp3", "exp3++"]
    >>> [[name for name in names if _whole_numbers(word).search(name)] for word in ("k=8", "exp3")]
    [['k=8, gap=1/8'], ['exp3']]
    """
    before = r"(?<![\d.])" if word[0].isdecimal() else ""
    after = r"(?![\d+]|[./]\d)" if word[-1].isdecimal() else ""
    return re.compile(before + re.escape(word) + after)


def _unknown(text: str, among: Sequence[Holding]) -> str:
    """Return the error for an unknown curve, with the nearest known word."""
    known: dict[str, str] = {}
    for holding in among:
        for phrase in (holding.shelf.title, holding.shelf.name):
            for word in (phrase, *(part.strip(",;") for part in phrase.split())):
                known.setdefault(word.lower(), word)
    strange = [
        part for part in text.split() if not any(_fits(part.lower(), holding) for holding in among)
    ]
    for word in strange:
        near = get_close_matches(word.lower(), known, n=1, cutoff=0.6)
        if near:
            return f"Unknown curve {text!r}; did you mean {known[near[0]]!r}?"
    return f"Unknown curve {text!r}; bothworlds results ls lists the curves."
