"""Registry of the policies: one added to it is found wherever a policy must appear.

README:

| `Toy()` | linear | linear | a contributor |
"""

import runpy
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

import bothworlds as bw
from bothworlds import registry
from bothworlds.checks import check_policy
from bothworlds.cli import parse
from bothworlds.errors import InvalidParameter, StateFileError
from bothworlds.plotting import LOOKS, looks
from bothworlds.policies.base import Traits
from bothworlds.registry import Entry, Variant
from helpers.bandits import registered
from registered import MARKS, with_registered

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
generate = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "generate.py")))
ENTRY = Entry(
    "Toy",
    __name__,
    (Variant("toy", "The toy", "plays evenly", "#123456", (0, (3, 1)), "1", 1.5),),
)


@dataclass(frozen=True, repr=False)
class Toy(bw.Uniform):
    """A policy that a contributor adds."""

    spin: int = 1

    registered: ClassVar[Entry | None] = ENTRY
    traits: ClassVar[Traits] = replace(bw.Uniform.traits, unproved="")


@pytest.fixture
def toy(monkeypatch):
    """Register the policy, and forget it afterwards."""
    assert sys.modules[__name__].Toy is Toy
    monkeypatch.setitem(registry.POLICIES, "Toy", ENTRY)
    yield Toy()
    for room in (bw, bw.policies):
        vars(room).pop("Toy", None)


def test_the_package_has_it_by_name(toy):
    assert bw.Toy is bw.policies.Toy is Toy
    assert "Toy" in dir(bw) and "Toy" in dir(bw.policies)


def test_a_shell_has_its_word_and_tables_its_label(toy):
    assert parse.policy("toy") == ("The toy", toy)
    assert parse.policy("toy:spin=2") == ("Toy(spin=2)", Toy(spin=2))
    assert list(parse.policies("toy,ucb1", 100)) == ["The toy", "UCB1"]
    with pytest.raises(InvalidParameter, match="did you mean 'toy'"):
        parse.policy("toyy")


@pytest.mark.parametrize("name", ["Toy()", "Toy(spin=2)", "Sparring(Toy())"])
def test_figures_draw_it_in_its_own_look(toy, name):
    look = looks([name])[name]
    assert (look.colour, look.line, look.marker, look.width) == ("#123456", (0, (3, 1)), "1", 1.5)


def test_the_lists_of_the_tests_have_it_and_it_is_checked(toy):
    assert toy in registered(100)
    slow = ["constant_losses", "better_than_uniform", "frequencies", "permutation"]
    assert {o.status for o in check_policy(toy, skip=slow)} <= {
        "passed", "skipped", "not applicable"
    }  # fmt: skip


def test_a_state_file_brings_it_back(toy, tmp_path):
    path = tmp_path / "state.json"
    bandit = bw.Bandit(Toy(spin=3), arms=3, seed=1)
    bandit.tell(bandit.ask(), loss=1.0)
    bandit.save(path)
    again = bw.Bandit.load(path)
    assert again.policy == Toy(spin=3)
    assert [again.ask().arm for _ in range(20)] == [bandit.ask().arm for _ in range(20)]


def test_no_result_covers_it(toy):
    answer = bw.bounds.guarantee(toy, n_arms=3, horizon=100)
    assert answer.reason == "no result of the article covers the policy Toy"


def test_the_reference_and_the_lists_that_are_written_have_it(toy):
    page = (ROOT / "docs" / "api" / "policies.md").read_text(encoding="utf-8")
    assert MARKS["policies"] in page
    assert f"::: {__name__}.Toy\n" in with_registered(page)
    assert f"from {__name__} import Toy\n" in generate.typing_module()
    assert '    "Toy",\n' in generate.typing_module()
    row = "| `Toy()` | linear | linear | a contributor |"
    assert f"\n{row}\n" in generate.with_table(README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", generate.generated(), ids=lambda path: path.name)
def test_what_is_generated_is_committed(path):
    assert path.read_text(encoding="utf-8") == generate.generated()[path], (
        "run python tools/generate.py"
    )


def test_a_policy_that_is_not_registered_is_found_nowhere(tmp_path):
    assert not hasattr(bw, "Toy") and not hasattr(bw.policies, "Toy")
    assert "Toy" not in dir(bw) and Toy() not in registered(100)
    assert "toy" not in registry.words() and registry.variant_of("Toy()") is None
    assert looks(["Toy()"])["Toy()"].colour != "#123456"
    bw.Bandit(Toy(), arms=3, seed=1).save(tmp_path / "state.json")
    with pytest.raises(StateFileError):
        bw.Bandit.load(tmp_path / "state.json")
    assert bw.Bandit.load(tmp_path / "state.json", policy=Toy()).policy == Toy()


def test_every_policy_has_a_row_in_the_readme():
    rows = [row for entry in registry.POLICIES.values() for row in generate.rows_of(entry.module)]
    for name, entry in registry.POLICIES.items():
        own = generate.rows_of(entry.module) or [row for row in rows if f"`{name}(" in row]
        assert own and f"`{name}(" in own[0].split("|")[1], name


def test_words_and_labels_name_one_variant_each():
    variants = registry.variants()
    for field in ("word", "label", "colour", "line", "marker"):
        assert len({getattr(each, field) for each in variants}) == len(variants), field
    assert list(LOOKS) == [variant.label for variant in variants]


@pytest.mark.parametrize("policy", registered(100), ids=repr)
def test_a_variant_is_known_by_its_constructor(policy):
    variant = registry.variant_of(repr(policy))
    assert variant in type(policy).registered.variants
    assert parse.policy(variant.word, 100) == (variant.label, policy)
