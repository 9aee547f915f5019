"""Registry of the environments: one added to it is found wherever an environment must appear."""

from pathlib import Path

import pytest

import bothworlds as bw
from bothworlds import registry
from bothworlds.checks import check_environment
from bothworlds.cli import parse
from bothworlds.environments import Stochastic
from bothworlds.errors import InvalidParameter
from bothworlds.registry import Regime, World
from helpers.bandits import registered_environments
from registered import MARKS, with_registered

PAGE = Path(__file__).parents[2] / "docs" / "api" / "environments.md"
REGIME = Regime("Toy([0.25, 0.5])", {"toy": World("fixed means", "Toy.gap")}, "gap")


class Toy(Stochastic):
    """An environment that a contributor adds."""


@pytest.fixture
def toy(monkeypatch):
    """Register the environment, and forget it afterwards."""
    monkeypatch.setattr(bw.environments, "Toy", Toy, raising=False)
    monkeypatch.setitem(registry.ENVIRONMENTS, REGIME.name, REGIME)
    return Toy([0.25, 0.5])


def test_a_shell_has_its_word(toy):
    assert parse.environment("toy", 4, 0.2) == Toy.gap(4, 0.2)
    with pytest.raises(InvalidParameter, match="did you mean 'toy'"):
        parse.environment("toyy", 4, 0.2)


def test_the_lists_of_the_tests_have_it_and_it_is_checked(toy):
    assert toy in registered_environments()
    assert {o.status for o in check_environment(toy)} <= {"passed", "skipped", "not applicable"}


def test_the_reference_describes_it(toy):
    page = PAGE.read_text(encoding="utf-8")
    assert MARKS["environments"] in page
    assert "::: bothworlds.environments.Toy\n    options: { members: [gap] }" in with_registered(
        page
    )


def test_one_that_is_not_registered_is_found_nowhere():
    assert "toy" not in registry.worlds()
    assert "Toy(" not in with_registered(PAGE.read_text(encoding="utf-8"))
    with pytest.raises(InvalidParameter, match="Unknown environment"):
        parse.environment("toy", 4, 0.2)


def test_every_environment_of_the_package_is_registered():
    kinds = {
        name
        for name in bw.environments.__all__
        if isinstance(value := getattr(bw.environments, name), type)
        and issubclass(value, bw.environments.Environment)
    }
    assert set(registry.ENVIRONMENTS) == kinds - {"Environment"}
    assert [type(made).__name__ for made in registered_environments()] == list(
        registry.ENVIRONMENTS
    )
