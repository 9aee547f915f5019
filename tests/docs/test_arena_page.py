"""The page on the arena: written from its data, which holds every world and run."""

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.experiments.arena import WORLDS, entrants, fitting

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def maker():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "pictures"))
        yield importlib.import_module("make_arena_page")


@pytest.fixture(scope="module")
def results(maker):
    return maker.stored()


def test_the_data_has_every_world_and_run(maker, results):
    assert list(results) == list(WORLDS)
    for name, result in results.items():
        rounds = WORLDS[name].times * maker.HORIZON
        world = WORLDS[name].make(maker.N_ARMS, maker.GAP, rounds)
        known = fitting(entrants(rounds), world)
        # A policy may be newer than the data, and then the page does not have it yet.
        assert set(result.regret) <= set(known)
        assert world.unbounded or set(result.regret) == set(results["fixed means"].regret)
        assert {len(runs) for runs in result.regret.values()} == {maker.RUNS}
    assert sorted(world for _, worlds in maker.GROUPS for world in worlds) == sorted(WORLDS)


@pytest.mark.slow
def test_the_page_is_that_of_the_data(maker, results):
    assert maker.page(results) == (DOCS / "arena.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_other_data_would_be_another_page(maker, results):
    """The negative control: AllWorlds with three times its regret fails in most worlds."""
    name = maker.ALLWORLDS
    worse = {
        world: replace(result, regret={**result.regret, name: 3.0 * result.regret[name]})
        for world, result in results.items()
        if name in result.regret
    }
    few, many = ("".join(maker.comparison(each)).count("✗") for each in (results, worse))
    assert few < 10 < 15 < many


@pytest.mark.slow
@pytest.mark.parametrize("world", ["fixed means", "delay", "sine"])
def test_a_sample_is_reproduced(maker, results, world):
    rounds = WORLDS[world].times * maker.HORIZON
    made = WORLDS[world].make(maker.N_ARMS, maker.GAP, rounds)
    again = bw.simulate(
        {maker.ALLWORLDS: bw.AllWorlds()}, made, horizon=rounds, repetitions=16, seed=maker.SEED,
        checkpoints=[rounds], progress=False,
    )  # fmt: skip
    found = results[world].regret[maker.ALLWORLDS][:16]
    np.testing.assert_array_equal(again.regret[maker.ALLWORLDS], found)
