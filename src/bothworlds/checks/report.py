"""Report of a series of checks, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from bothworlds.errors import CheckFailed, invalid, must

Status = Literal["passed", "failed", "skipped", "not applicable"]
Subject = TypeVar("Subject")


class Violation(Exception):
    """A check failed; the message names the fault."""


class NotApplicable(Exception):
    """A check does not apply; the message gives the reason."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one check.

    Parameters
    ----------
    name : str
        The check, as ``skip`` takes it.
    status : {"passed", "failed", "skipped", "not applicable"}
        How it ended.
    found : str
        What was measured, what is wrong, or why the check does not apply.
    """

    name: str
    status: Status
    found: str


@dataclass(frozen=True)
class Report:
    """The outcomes of a series of checks; prints as a table.

    Parameters
    ----------
    subject : str
        What was checked.
    outcomes : tuple of Outcome
        One per check, in the order they ran.

    Examples
    --------
    >>> print(Report("Uniform()", (Outcome("simplex", "passed", "largest error 0"),)))
    Uniform()
    simplex  passed  largest error 0
    """

    subject: str
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The checks that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def __getitem__(self, name: str) -> Outcome:
        for outcome in self.outcomes:
            if outcome.name == name:
                return outcome
        names = [outcome.name for outcome in self.outcomes]
        raise KeyError(must("name", "Report", f"one of {', '.join(names)}", name))

    def __str__(self) -> str:
        name_width = max((len(outcome.name) for outcome in self.outcomes), default=0)
        status_width = max((len(outcome.status) for outcome in self.outcomes), default=0)
        rows = [
            f"{outcome.name:{name_width}}  {outcome.status:{status_width}}  {outcome.found}"
            for outcome in self.outcomes
        ]
        return "\n".join([self.subject, *rows])


Check = Callable[[Subject], str]
"""Return a measurement, or raise `Violation` or `NotApplicable`."""


def checked_skip(skip: object, checks: Iterable[str], owner: str) -> frozenset[str]:
    """Return the names of checks to leave out."""
    known = list(checks)
    several = isinstance(skip, Iterable) and not isinstance(skip, str | bytes)
    names: list[Any] = list(skip) if several else [skip]  # type: ignore[call-overload]
    for name in names:
        if name not in known:
            raise invalid("skip", owner, f"names among {', '.join(known)}", name)
    return frozenset(names)


def run_checks(
    kind: str,
    title: str,
    subject: Subject,
    checks: Mapping[str, Check[Subject]],
    skip: frozenset[str],
) -> Report:
    """Run every check and return the report, or raise one error that names all failures."""
    outcomes = [
        Outcome(name, "skipped", "on request") if name in skip else _run(name, check, subject)
        for name, check in checks.items()
    ]
    report = Report(title, tuple(outcomes))
    if report.failures:
        found = "; ".join(f"{failure.name}: {failure.found}" for failure in report.failures)
        raise CheckFailed(f"The {kind} {title} must pass every check, got {found}.", report)
    return report


def _run(name: str, check: Check[Subject], subject: Subject) -> Outcome:
    try:
        return Outcome(name, "passed", check(subject))
    except NotApplicable as reason:
        return Outcome(name, "not applicable", str(reason))
    except Violation as violation:
        return Outcome(name, "failed", str(violation))
    except Exception as error:
        # Anything that a stranger's code raises is a finding about it, not about the other checks.
        sentence = str(error).strip().rstrip(".").partition("\n")[0]
        return Outcome(name, "failed", f"{type(error).__name__}: {sentence}")
