"""Statements that an experiment judges: the sentence, its source, and why it may not hold.

An explanation is given only after an investigation: it names what was measured. ``differs`` marks
the claims that fail for a known reason that lies outside their substance.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from bothworlds.experiments.model import Claim, Owner, Settings, Verdict

FULL_SCALE = Path(__file__).with_name("full_scale.json")
"""Verdicts and measurements at the paper's own scale, by the ids of the claims."""

FIRST, SECOND = "Section 8, on Figures 1 and 2", "Section 8, on Figures 3 and 4"
BOTH = "Section 8, the sentence on both experiments"
ITO = "Ito, Tsuchiya and Honda, COLT 2022"
HUANG = "Huang, Dai and Huang, ICML 2022"
HONDA = "Honda, Ito and Tsuchiya, ALT 2023"
LEE = "Lee, Honda, Ito and Oh, COLT 2024"
AISTATS = "Conference version (AISTATS 2019)"

UNSEEN = (
    "Beyond the tolerance, which was not seen at the scales of this project: settings of "
    "your own, or an installation that is wrong."
)
"""The explanation of failures that no statement explains."""


P = ParamSpec("P")


@dataclass(frozen=True)
class Statement:
    """A claim before it is judged.

    Parameters
    ----------
    owner : {"paper", "authors", "ours"}
        Whose it is.
    id : str
        Stable, ``experiment.claim``.
    sentence : str
        What is claimed.
    place : str
        Where the paper or the authors state it, or what the claim extends.
    figure : str
        The figure that shows it; the experiment's own by default.
    why : str
        Why it fails, where it was seen to.
    differs : bool
        Whether that cause is outside the claim's substance.
    """

    owner: Owner
    id: str
    sentence: str
    place: str
    figure: str = ""
    why: str = ""
    differs: bool = False

    def judged(
        self, measured: str, threshold: str, verdict: Verdict, *, panel: str = "", why: str = ""
    ) -> Claim:
        """Return the claim with a verdict, its source, and the reason where it does not hold.

        Examples
        --------
        >>> statement = ours("a.b", "It is small", "an example", why="It is large.", differs=True)
        >>> statement.judged("7", "at most 1", "fails").verdict
        'differs'
        """
        if verdict == "fails":
            verdict, why = "differs" if self.differs else verdict, self.why or UNSEEN
        elif verdict == "open" and self.why:
            why = f"{why} {self.why}"
        figure = self.figure or self.id.partition(".")[0]
        return Claim(
            self.id, self.sentence, measured, threshold, verdict, self.owner, self.place, figure,
            why, panel=panel,
        )  # fmt: skip

    def by(
        self, rule: Callable[Concatenate[Statement, P], Claim], /, *args: P.args, **kwargs: P.kwargs
    ) -> Claim:
        """Judge the statement by a rule, such as those of `bothworlds.experiments.claims.rules`."""
        return rule(self, *args, **kwargs)


paper = functools.partial(Statement, "paper")
"""A statement of the paper."""

authors = functools.partial(Statement, "authors")
"""A statement by the authors of later work."""

ours = functools.partial(Statement, "ours")
"""A conjecture or extension of this project."""


@functools.cache
def full_scale() -> dict[str, Any]:
    """Return the results at the paper's own scale; empty where the package lacks them."""
    if not FULL_SCALE.is_file():
        return {"claims": {}}
    return dict(json.loads(FULL_SCALE.read_text(encoding="utf-8")))


def with_context(
    claims: Iterable[Claim], settings: Settings, figures: Sequence[str] = ()
) -> tuple[Claim, ...]:
    """Return claims with the figures that were drawn and the results at the full scale.

    Parameters
    ----------
    claims : iterable of Claim
        As they were judged.
    settings : Settings
        How large the run was.
    figures : sequence of str
        The figures there are.
    """
    known = {} if settings.scale == "full" else full_scale()["claims"]
    full = {id: f"{found['verdict']}: {found['measured']}" for id, found in known.items()}
    return tuple(
        replace(claim, full=full.get(claim.id, ""), figure=_drawn(claim.figure, figures))
        for claim in claims
    )


def _drawn(figure: str, figures: Sequence[str]) -> str:
    """Return the figure that shows late rounds, or the nearest that a short run has drawn."""
    for name in (f"{figure}-log", figure):
        if name in figures:
            return name
    near = [name for name in figures if name.startswith(figure)]
    return next(iter([*near, *figures]), figure)
