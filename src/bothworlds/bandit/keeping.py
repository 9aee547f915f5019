"""Keeping a bandit of either kind: copies, pickles and state files that continue bit for bit."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Generic, Self, TypeVar

from bothworlds import policies
from bothworlds.bandit import statefile
from bothworlds.errors import InvalidParameter, must
from bothworlds.omd import learning_rates

Config = TypeVar("Config")


class Keeping(Generic[Config]):
    """The part of `bothworlds.Bandit` and `bothworlds.DuelingBandit` that makes another one.

    A bandit is its policy and what `_document` says of it; `_restored` makes it of these again.
    """

    __slots__ = ("_policy", "_round", "_seed")

    _OWNER: ClassVar[str]
    """The name of the class in error messages."""
    _FORMAT: ClassVar[str]
    """What its state files say they are."""
    _VERSION: ClassVar[int]
    """The newest version of them."""
    _CLASSES: ClassVar[tuple[type, ...]] = ()
    """Of what a saved policy may be made besides this package's policies."""

    _policy: Config
    _round: int
    _seed: int

    @abstractmethod
    def _document(self) -> dict[str, Any]:
        """Return everything but the policy as JSON values."""

    @classmethod
    @abstractmethod
    def _restored(cls, policy: Config, document: dict[str, Any]) -> Self:
        """Return the bandit that `_document` described."""

    def _twin(self) -> Self:
        """Return an independent bandit in the same state."""
        return self._restored(self._policy, self._document())

    def __reduce__(self) -> tuple[Any, ...]:
        return self._restored, (self._policy, self._document())

    def _write(self, path: statefile.Path) -> None:
        """Write the bandit to a state file."""
        description = statefile.describe(self._policy, f"{self._OWNER}.save")
        content = {"policy": description, **self._document()}
        statefile.write(path, self._FORMAT, self._VERSION, content)

    @classmethod
    def _read(cls, path: statefile.Path, policy: Config | None) -> Self:
        """Return the bandit of a state file.

        ``policy`` is the one a caller expects, or None to take the saved one.
        """
        content = statefile.read(path, cls._FORMAT, cls._VERSION)
        description = content.get("policy")
        owner = f"{cls._OWNER}.load"
        if policy is not None and statefile.describe(policy, owner) != description:
            expected = f"the one that was saved, {description}"
            raise InvalidParameter(must("policy", owner, expected, policy))
        try:
            if policy is None:
                policy = statefile.recreate(description, _configurations(cls._CLASSES))
            return cls._restored(policy, content)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise statefile.damaged(path, f"{type(error).__name__} {error}") from error


def _configurations(further: tuple[type, ...]) -> dict[str, type]:
    """Return the classes a saved policy may be made of."""
    found = [getattr(policies, name) for name in policies.__all__]
    found += [learning_rates.Constant, learning_rates.InverseSqrt, *further]
    return {kind.__name__: kind for kind in found if isinstance(kind, type)}
