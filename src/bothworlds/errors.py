"""Everything bothworlds raises on purpose.

::

    BothworldsError
    ├── InvalidParameter   (ValueError)      a parameter has a value that is not accepted
    ├── InvalidFeedback    (ValueError)      a reward, loss or winner that cannot be accepted
    ├── UnknownDecision    (KeyError)        feedback for a decision this bandit is not waiting for
    │   └── DecisionClosed                   ... because it was already answered, or expired
    ├── StateFileError     (ValueError)      a saved bandit that is damaged, foreign or too new
    ├── ResultFileError    (ValueError)      a saved result that is damaged, foreign or too new
    ├── KernelError        (RuntimeError)    a user's own policy or environment misbehaved
    ├── ForkError          (RuntimeError)    a bandit was created in the parent process
    ├── ClusterError       (RuntimeError)    workers, or their scheduler, cannot be used
    ├── ServiceError       (RuntimeError)    the decision service refused a request
    │   └── ServiceAway    (ConnectionError) ... or cannot be reached, or is overloaded
    ├── StoreError         (RuntimeError)    a store of decisions that cannot be opened or used
    ├── CheckFailed        (AssertionError)  a policy or environment failed its checks
    └── MissingExtra       (ImportError)     an optional package is not installed

    CacheWarning           (UserWarning)     compiled code cannot be kept for later processes

Each error also descends from the built-in exception in parentheses, so code that knows nothing
of bothworlds can still catch it. A call that raises one of these has changed nothing.
"""

import re
import reprlib

__all__ = [
    "BothworldsError",
    "CacheWarning",
    "CheckFailed",
    "ClusterError",
    "DecisionClosed",
    "ForkError",
    "InvalidFeedback",
    "InvalidParameter",
    "KernelError",
    "MissingExtra",
    "ResultFileError",
    "ServiceAway",
    "ServiceError",
    "StateFileError",
    "StoreError",
    "UnknownDecision",
    "missing_extra",
    "must",
]


class BothworldsError(Exception):
    """The root of every error bothworlds raises on purpose."""


class CacheWarning(UserWarning):
    """Compiled code cannot be kept, so every process compiles again."""


class InvalidParameter(BothworldsError, ValueError):
    """A parameter of a constructor or function has a value that it does not accept."""


class InvalidFeedback(BothworldsError, ValueError):
    """A reward, loss or winner is missing, ambiguous, not finite or out of bounds."""


class UnknownDecision(BothworldsError, KeyError):
    """Feedback names a decision for which none is outstanding.

    Examples
    --------
    >>> print(UnknownDecision("a sentence"))
    a sentence
    """

    def __str__(self) -> str:
        # KeyError shows the repr of its key, which would put our sentence in quotes.
        return Exception.__str__(self)


class DecisionClosed(UnknownDecision):
    """Feedback names a decision that was already answered or has expired."""


class StateFileError(BothworldsError, ValueError):
    """A file is not a saved bandit this version can continue."""


class ResultFileError(BothworldsError, ValueError):
    """A file is not a saved simulation result this version can read."""


class KernelError(BothworldsError, RuntimeError):
    """A policy or environment written by the user broke the contract of its kernel."""


class ForkError(BothworldsError, RuntimeError):
    """A bandit created before a fork would draw the same arms in every child."""


class ClusterError(BothworldsError, RuntimeError):
    """Workers on this or other machines, or their scheduler, cannot be used."""


class ServiceError(BothworldsError, RuntimeError):
    """The decision service refused a request.

    Parameters
    ----------
    message : str
        One sentence, the service's own where it gave one.
    code : str
        The stable code of the refusal, such as ``"already_told"``.
    status : int, default 0
        The HTTP status, 0 where there was no answer.
    request_id : str, optional
        What the service's log calls the request.
    """

    def __init__(
        self, message: str, code: str = "", status: int = 0, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.request_id = request_id


class ServiceAway(ServiceError, ConnectionError):
    """The decision service cannot be reached, is overloaded, or did not answer in time."""

    def __new__(cls, *args: object, **named: object) -> "ServiceAway":
        """Make an empty error in the memory of a `ConnectionError`, whichever base comes first."""
        # What unpickles errors of other processes calls this by itself.
        return ConnectionError.__new__(cls, *args[:1])


class StoreError(BothworldsError, RuntimeError):
    """A store of the decision service cannot be opened, or its tables are of another version."""


class CheckFailed(BothworldsError, AssertionError):
    """A policy or environment does not have the properties it must have.

    Parameters
    ----------
    message : str
        Every failed check and what it found.
    report : bothworlds.checks.Report, optional
        The outcomes of all checks.
    """

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class MissingExtra(BothworldsError, ImportError):
    """A feature needs an optional package that is not installed."""


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def must(parameter: str, owner: str, expected: str, got: object) -> str:
    """Return one sentence: which parameter of which owner must be what, and the value received.

    Parameters
    ----------
    parameter : str
        The parameter's name as the user wrote it.
    owner : str
        The class or function it belongs to.
    expected : str
        What would have been accepted; completes "must be ...".
    got : object
        The value received. Long values are abbreviated, NumPy scalars printed as plain numbers.

    Returns
    -------
    str
        The sentence, for the constructor of an exception.

    Examples
    --------
    >>> must("alpha", "TsallisINF", "a number in [0, 1]", 1.5)
    'The alpha of TsallisINF must be a number in [0, 1], got 1.5.'
    """
    item = getattr(got, "item", None)
    if item is not None and getattr(got, "ndim", None) == 0:
        got = item()
    # Arrays print over several lines; line breaks in strings are escaped already.
    try:
        shown = re.sub(r"\s*\n\s*", " ", _SHORT.repr(got))
    except ValueError:  # Python writes no integer of more than some thousand digits
        shown = f"one too long to show ({type(got).__name__})"
    return f"The {parameter} of {owner} must be {expected}, got {shown}."


def invalid(parameter: str, owner: str, expected: str, got: object) -> InvalidParameter:
    """Build the error about a value that a parameter does not accept, with the words of `must`."""
    return InvalidParameter(must(parameter, owner, expected, got))


def missing_extra(extra: str, package: str) -> MissingExtra:
    """Build the error that names the one command installing an optional package.

    Parameters
    ----------
    extra : str
        The extra of bothworlds that installs the package, such as ``"lab"``.
    package : str
        The package whose import failed.

    Returns
    -------
    MissingExtra
        To be raised ``from`` the import error.

    Examples
    --------
    >>> print(missing_extra("lab", "matplotlib"))
    The package matplotlib must be installed for this, run: pip install "bothworlds[lab]"
    """
    return MissingExtra(
        f'The package {package} must be installed for this, run: pip install "bothworlds[{extra}]"',
        name=package,
    )
