"""Display of bandits: what is printed can be pasted back, and notebooks get a table."""

import html.parser

import numpy as np
import pytest

import bothworlds as bw
from bothworlds import environments as env
from helpers.bandits import registered, registered_environments


def pasted(printed):
    """Return what a user gets who pastes it after importing the names."""
    names = {name: getattr(bw, name) for name in bw.__all__}
    names |= {name: getattr(env, name) for name in env.__all__}
    names |= {name: getattr(bw.omd, name) for name in ("Constant", "InverseSqrt")}
    return eval(printed, {"__builtins__": {"True": True, "False": False}}, names)


POLICIES = [
    *registered(1000),
    bw.TsallisINF(alpha=0.25, estimator="iw", gaps=(0.0, 0.5)),
    bw.TsallisINF(learning_rate=0.1),
    bw.TsallisINF(learning_rate=bw.omd.InverseSqrt(3.0)),
    bw.TsallisINF(learning_rate=bw.omd.Constant(0.5)),
    bw.Exp3PlusPlus(rate="published", beta=300),
    bw.UCB1(c=2),
    bw.Sparring(),
    bw.Sparring(bw.UCB1(c=2)),
    bw.Sparring(shared=False),
]

ENVIRONMENTS = [
    *registered_environments(),
    env.Stochastic.gap(16, 0.1, shuffle=False),
    env.UniformDelay(0, 20),
    env.GeometricDelay(2.5),
    env.ListedDelay((0, 9), (0.25, 0.75)),
]


@pytest.mark.parametrize("made", [*POLICIES, *ENVIRONMENTS], ids=repr)
def test_a_configuration_can_be_pasted_back(made):
    again = pasted(repr(made))
    assert type(again) is type(made)
    assert again == made
    assert repr(again) == repr(made)


def test_every_policy_and_environment_is_asked():
    asked = {type(made).__name__ for made in [*POLICIES, *ENVIRONMENTS]}
    policies = {name for name in bw.policies.__all__ if isinstance(getattr(bw, name, None), type)}
    worlds = set(env.__all__) - {"Attack", "Environment", "custom"}
    assert asked == policies | worlds | {"Sparring"}


def test_configurations_that_differ_print_differently():
    assert len({repr(made) for made in [*POLICIES, *ENVIRONMENTS]}) == len(POLICIES + ENVIRONMENTS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bw.Bandit(bw.TsallisINF(), arms=["blue", "it's", 3], seed=7, bounds=(-1, 250)),
        lambda: bw.Bandit(bw.UCB1(), arms=3),
        lambda: bw.DuelingBandit(bw.Sparring(bw.Exp3()), arms=["a", "b"], seed=2),
    ],
    ids=["named", "fresh seed", "duel"],
)
def test_a_bandit_pasted_back_plays_the_same_rounds(make):
    made = make()
    again = pasted(repr(made))
    assert repr(again) == repr(made)
    mine, other = [made.ask() for _ in range(20)], [again.ask() for _ in range(20)]
    assert list(map(repr, mine)) == list(map(repr, other))


class Table(html.parser.HTMLParser):
    """Collects the cells of a page and sees that every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells.append(data)


def test_a_bandit_shows_itself_as_a_table():
    bandit = bw.Bandit(bw.TsallisINF(), arms=["<b>blue</b>", "green"], seed=7)
    bandit.tell(bandit.ask(), loss=0.25)
    shown = Table(bandit._repr_html_()).cells
    assert "<b>blue</b>" in shown
    assert "0.2500" in shown
    assert "TsallisINF(), round 1" in shown
    unknown = bw.Bandit(bw.ThompsonSampling(), arms=2, seed=7)
    assert "unknown" in Table(unknown._repr_html_()).cells
    duel = bw.DuelingBandit(bw.Sparring(), arms=["<b>blue</b>", "green"], seed=7)
    assert "<b>blue</b>" in Table(duel._repr_html_()).cells


def test_a_result_shows_itself_as_its_summary():
    world = env.Stochastic.gap(2, 0.5)
    policies = {"mine": bw.TsallisINF()}
    result = bw.simulate(policies, world, horizon=100, repetitions=8, seed=1)
    shown = "".join(Table(result._repr_html_()).cells)
    assert "Pseudo-regret at round 100" in shown
    assert "mine" in shown
    assert repr(result).startswith("<Result: mine in Stochastic(means=[0.25, 0.75])")
    assert np.isfinite(result.regret["mine"]).all()
