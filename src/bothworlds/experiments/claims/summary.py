"""Summary of claims in words: how many hold, the paper's first and ours apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from bothworlds.experiments.model import Claim, Owner, Verdict

if TYPE_CHECKING:
    from bothworlds.experiments.claims.sample import Reproduced

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_VERBS: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "differs": ("differs for a known reason", "differ for known reasons"),
    "fails": ("fails", "fail"),
    "open": ("is open at this scale", "are open at this scale"),
}
"""Verbs of each verdict for one claim and for several, in the order of a sentence."""

WHOSE: dict[Owner, str] = {"paper": "the paper's", "authors": "the authors'", "ours": "our own"}
"""Owners of claims, in the order of a report."""

OWNERS: dict[Owner, str] = {"paper": "The paper's", "authors": "The authors'", "ours": "Ours"}
"""The same as a heading, or before the place of one claim."""


def counts(claims: Iterable[Claim], owner: Owner | None = None) -> dict[Verdict, int]:
    """Return how many claims have each verdict, of one owner or of both."""
    chosen = [claim for claim in claims if owner in (None, claim.owner)]
    return {verdict: sum(claim.verdict == verdict for claim in chosen) for verdict in VERDICTS}


def tally(verdicts: Sequence[str]) -> list[str]:
    """Return how often each verdict occurs.

    Examples
    --------
    >>> tally(["open", "holds", "holds"])
    ['2 hold', '1 open']
    """
    found = {verdict: verdicts.count(verdict) for verdict in VERDICTS}
    return [f"{n} {word if n == 1 else word.removesuffix('s')}" for word, n in found.items() if n]


def sentence(claims: Sequence[Claim], owner: Owner) -> str:
    """Return the verdicts on the claims of one owner in a sentence; "" without claims.

    Examples
    --------
    >>> from bothworlds.experiments.model import Claim
    >>> made = [Claim("a.b", "", "", "", word, "paper") for word in ("holds", "holds", "open")]
    >>> sentence(made, "paper")
    "2 of the paper's 3 claims hold and 1 is open at this scale."
    >>> sentence(made[:1], "paper")
    "The paper's only claim holds."
    """
    found = counts(claims, owner)
    total = sum(found.values())
    if not total:
        return ""
    if total == 1:
        verdict = next(verdict for verdict in _VERBS if found[verdict])
        return f"{WHOSE[owner].capitalize()} only claim {_VERBS[verdict][0]}."
    whose = f" of {WHOSE[owner]} {total} claims"
    parts: list[str] = []
    for verdict, (one, many) in _VERBS.items():
        if found[verdict]:
            verb = one if found[verdict] == 1 else many
            parts.append(f"{found[verdict]}{'' if parts else whose} {verb}")
    *first, last = parts
    return f"{', '.join(first)} and {last}." if first else f"{last}."


def said(claims: Sequence[Claim]) -> list[str]:
    """Return a sentence on the claims of every owner with claims, ours last."""
    every = [sentence(claims, owner) for owner in WHOSE]
    return [each for each in every if each]


def lead(
    claims: Sequence[Claim], full: Mapping[str, Any], reproduced: Reproduced | None = None
) -> list[str]:
    """Return the first sentences of a report: the strongest true statement first.

    Parameters
    ----------
    claims : sequence of Claim
        As judged by this run.
    full : mapping
        Results at the paper's own scale, see `full_scale`; empty for a run of that scale.
    reproduced : Reproduced, optional
        What a repeated sample of that run gave.

    Examples
    --------
    >>> from bothworlds.experiments.model import Claim
    >>> made = [Claim(name, "", "", "", "open", "paper") for name in ("a.b", "a.c")]
    >>> known = {"scale": "100 rounds", "claims": {"a.b": {"verdict": "holds"}}}
    >>> print(*lead(made, known), sep=" / ")  # doctest: +NORMALIZE_WHITESPACE
    At the paper's own scale, 100 rounds: the paper's only claim holds. / Of the claims settled
    there, this shorter run confirms 0, contradicts 0 and cannot settle 1. / All other claims,
    judged by this run: the paper's only claim is open at this scale.
    """
    known = {name: each["verdict"] for name, each in full.get("claims", {}).items()}
    both = [claim for claim in claims if claim.id in known and claim.owner == "paper"]
    if not both:
        return said(claims)
    at_scale = [replace(claim, verdict=known[claim.id]) for claim in both]
    settled = [claim for claim in both if known[claim.id] != "open"]
    confirmed = sum(claim.verdict == known[claim.id] for claim in settled)
    unsettled = sum(claim.verdict == "open" for claim in settled)
    told = [
        f"At the paper's own scale, {full['scale']}: {_lowered(sentence(at_scale, 'paper'))}",
        "" if reproduced is None else str(reproduced),
        f"Of the claims settled there, this shorter run confirms {confirmed}, contradicts "
        f"{len(settled) - confirmed - unsettled} and cannot settle {unsettled}.",
    ]
    others = said([claim for claim in claims if claim not in both])
    if others:
        told.append("All other claims, judged by this run: " + _lowered(" ".join(others)))
    return [each for each in told if each]


def _lowered(text: str) -> str:
    """Return a sentence as it continues after a colon."""
    return text[:1].lower() + text[1:]


def ordered(claims: Iterable[Claim]) -> list[Claim]:
    """Return claims with ours last, and failures before claims that hold."""
    owners = list(WHOSE)
    rank = {"fails": 0, "differs": 1, "open": 2, "holds": 3}
    return sorted(claims, key=lambda claim: (owners.index(claim.owner), rank[claim.verdict]))
