"""Figures: one look per algorithm, no settings changed, files whole or not at all."""

import itertools
import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest

import bothworlds as bw
from bothworlds import plotting
from bothworlds.errors import InvalidParameter, MissingExtra, ResultFileError
from bothworlds.experiments.algorithms import KL, lineup
from bothworlds.plotting import LOOKS, draw_curve, looks, panels, plot_result, save, style
from bothworlds.simulation.result import Result


def made_up(names=("TsallisINF()", "UCB1()"), rounds=(1, 100, 2500, 10_000, 20_000, 50_000)):
    """Return a result whose mean regret is sqrt(t) times one more than the policy's place."""
    t = np.array(rounds)
    spread = np.linspace(0.9, 1.1, 5)[:, None]
    regret = {name: (i + 1) * np.sqrt(t) * spread for i, name in enumerate(names)}
    return Result(
        checkpoints=t,
        regret=regret,
        plays={name: np.ones((5, 2), dtype=np.int64) for name in names},
        repetitions={name: np.arange(5) for name in names},
        wall=dict.fromkeys(names, 1.0),
        cpu=dict.fromkeys(names, 1.0),
        policies={name: name for name in names},
        environment="Stochastic(means=[0.4, 0.6])",
        seed=0,
    )


def lightness(colour):
    """Return the share of white a black-and-white printer makes of a colour."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_algorithm_of_the_paper_has_a_look_of_its_own():
    names = lineup(1000, with_kl_ucb=True)
    assert set(names) <= set(LOOKS)
    for attribute in ("colour", "line", "marker"):
        values = [str(getattr(look, attribute)) for look in LOOKS.values()]
        assert len(set(values)) == len(values), attribute


def test_no_colour_vanishes_on_white_paper():
    assert all(lightness(look.colour) < 0.75 for look in LOOKS.values())


def test_a_constructor_looks_like_the_algorithm():
    for name, policy in lineup(1000, (*lineup(1000), KL)).items():
        assert looks([repr(policy)])[repr(policy)].colour == LOOKS[name].colour


def test_no_two_curves_of_a_figure_look_alike():
    names = ["UCB1()", "UCB1(c=2.0)", "UCB1", "TsallisINF(alpha=0.3)", "mine", "yours", "theirs"]
    chosen = looks(names)
    assert list(chosen) == names
    for one, other in itertools.combinations(chosen.values(), 2):
        assert (one.colour, one.line, one.marker) != (other.colour, other.line, other.marker)


def test_adding_a_policy_changes_no_known_look():
    alone = looks(["EXP3"])["EXP3"]
    assert looks(["mine", "UCB1", "EXP3"])["EXP3"] == alone


@pytest.mark.slow
def test_style_ends_with_its_block():
    before = dict(matplotlib.rcParams)
    with style():
        assert matplotlib.rcParams["axes.grid"] is True
    plot_result(made_up())
    assert dict(matplotlib.rcParams) == before


@pytest.mark.processes
def test_pyplot_is_never_loaded():
    # pyplot keeps figures alive and may open windows.
    code = (
        "import sys, test_plotting as t; from bothworlds.plotting import plot_result\n"
        "plot_result(t.made_up()); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
    )  # fmt: skip
    assert done.stdout.strip() == "False"


def test_plot_shows_the_means_on_a_linear_and_a_logarithmic_panel():
    result = made_up()
    figure = plot_result(result)
    linear, late = figure.axes
    assert linear.get_xlim() == (0, 10_000)
    assert late.get_xscale() == late.get_yscale() == "log"
    assert late.get_xlim() == (10_000, 50_000)
    for panel, chosen in ((linear, slice(0, 4)), (late, slice(3, None))):
        for line, name in zip(panel.get_lines(), result.names, strict=True):
            assert line.get_label() == name
            np.testing.assert_array_equal(line.get_xdata(), result.checkpoints[chosen])
            np.testing.assert_allclose(line.get_ydata(), result.regret[name].mean(0)[chosen])


def test_plot_of_a_short_run_has_one_panel():
    figure = plot_result(made_up(rounds=(1, 50, 500)))
    assert len(figure.axes) == 1
    assert figure.axes[0].get_xlabel() == "round t"


def test_every_curve_is_named_once_at_its_end():
    figure = plot_result(made_up())
    assert figure.legends == []
    linear, late = figure.axes
    assert [text.get_text() for text in late.texts] == ["TsallisINF()", "UCB1()"]
    assert list(linear.texts) == []


def test_many_curves_or_long_names_have_a_legend():
    names = [f"policy {i}" for i in range(12)]
    (legend,) = plot_result(made_up(names)).legends
    assert [text.get_text() for text in legend.get_texts()] == names
    assert plot_result(made_up(["a name that is too long to stand beside its curve"])).legends


@pytest.mark.parametrize("plot", ["plot", "plot_tail"])
def test_a_title_does_not_lie_on_the_legend(plot):
    figure = getattr(made_up([f"policy {i}" for i in range(12)]), plot)()
    (legend,) = figure.legends
    assert figure.get_suptitle() == ""
    assert legend.get_title().get_text() == "Stochastic(means=[0.4, 0.6]), K = 2"
    figure.draw_without_rendering()
    title = legend.get_title().get_window_extent()
    covered = [*(text for text in legend.get_texts()), *figure.axes]
    assert not any(title.overlaps(each.get_window_extent()) for each in covered)


@pytest.mark.slow
def test_the_figure_says_what_was_run():
    figure = plot_result(made_up())
    said = figure.get_supxlabel()
    assert "50,000 rounds" in said
    assert "5 repetitions" in said
    assert "two standard errors" in said
    assert figure.get_suptitle() == "Stochastic(means=[0.4, 0.6]), K = 2"
    assert "two standard deviations" in plot_result(made_up(), band="sd").get_supxlabel()
    assert "band" not in plot_result(made_up(), band="none").get_supxlabel()


@pytest.mark.parametrize(
    ("band", "width"),
    [("sd", 4.0), ("se", 4.0 / np.sqrt(8))],
)
def test_the_band_is_two_standard_deviations_each_way(band, width):
    runs = np.random.default_rng(1).normal(50.0, 3.0, size=(8, 4))
    with style():
        _, grid = panels(1, 1, 3.0)
        draw_curve(grid[0, 0], np.arange(1, 5), runs, LOOKS["UCB1"], band=band)
    (drawn,) = grid[0, 0].collections
    heights = drawn.get_paths()[0].vertices
    at_two = heights[heights[:, 0] == 2.0][:, 1]
    assert np.ptp(at_two) == pytest.approx(width * runs[:, 1].std(ddof=1))


def test_labels_at_the_ends_do_not_overlap():
    with style():
        _, grid = panels(1, 1, 3.0)
        panel = grid[0, 0]
        panel.set_ylim(0, 100)
        ends = [(50.0, "a", "#000000"), (50.5, "b", "#000000"), (51.0, "c", "#000000")]
        plotting.end_labels(panel, [*ends, (10.0, "d", "#000000")])
    heights = [text.xy[1] for text in panel.texts]
    assert [text.get_text() for text in panel.texts] == ["d", "a", "b", "c"]
    assert np.diff(heights).min() > 0.08
    assert heights[0] == pytest.approx(0.1, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_saved_twice_is_the_same_file(kind, tmp_path):
    first, second = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"
    plot_result(made_up(), first)
    plot_result(made_up(), second)
    assert first.read_bytes() == second.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {first.name, second.name}


@pytest.mark.parametrize("name", ["figure", "figure.docx", "figure."])
def test_an_unknown_ending_is_refused_before_anything_is_written(name, tmp_path):
    with pytest.raises(InvalidParameter, match=r"^The path of plot must be a file name ending in"):
        plot_result(made_up(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(tmp_path):
    target = tmp_path / "figure.png"
    target.write_bytes(b"old")
    figure = plot_result(made_up())
    figure.savefig = None
    with pytest.raises(TypeError):
        save(figure, target)
    assert target.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_not_there_is_named_as_the_user_did(tmp_path):
    with pytest.raises(ResultFileError) as caught:
        plot_result(made_up(), tmp_path / "none" / "a.png")
    told = f"The figure was not saved to {tmp_path / 'none' / 'a.png'}: No such file or directory."
    assert str(caught.value) == told


def test_without_matplotlib_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r'pip install "bothworlds\[lab\]"'):
        plot_result(made_up())


# The packages under Matplotlib may have names that will change.
@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("factor", "scale"), [(0.0, "linear"), (-1.0, "symlog")])
def test_regret_of_zero_or_less_is_drawn_on_one_panel(factor, scale):
    result = made_up()
    for runs in result.regret.values():
        runs *= factor
    (panel,) = plot_result(result).axes
    assert panel.get_yscale() == scale
    assert panel.get_xlim()[1] == 50_000
    assert panel.get_ylim()[0] <= factor * 2 * np.sqrt(50_000)


def test_quantiles_hold_nine_runs_in_ten():
    low, high = plotting.draw.band_of(np.arange(101.0)[:, None], "quantiles")
    assert (low, high) == (5.0, 95.0)


def test_a_panel_of_ones_own_with_a_subset_a_scale_and_bounds():
    with style():
        figure, grid = panels(1, 1, 3.0)
    result = made_up()
    bounds = {"above": lambda t: 9 * np.sqrt(t), "lower": np.sqrt(result.checkpoints) / 2}
    drawn = plot_result(
        result, ax=grid[0, 0], policies=["UCB1()"], scale="log", bounds=bounds, title="mine"
    )
    assert drawn is figure
    panel = grid[0, 0]
    curve, above, lower = panel.get_lines()
    assert curve.get_color() == LOOKS["UCB1"].colour
    np.testing.assert_allclose(above.get_ydata(), 9 * np.sqrt(result.checkpoints))
    np.testing.assert_allclose(lower.get_ydata(), np.sqrt(result.checkpoints) / 2)
    assert [text.get_text() for text in panel.texts] == ["above", "lower"]
    assert panel.get_title(loc="left") == "mine"
    assert panel.get_ylim()[1] > 9 * np.sqrt(50_000)


@pytest.mark.slow
def test_a_column_of_a_journal():
    assert tuple(plot_result(made_up(), size="column").get_size_inches()) == (3.4, 2.5)
    assert tuple(plot_result(made_up(), size=(4, 3)).get_size_inches()) == (4.0, 3.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"band": "wide"}, "The band of plot must be one of"),
        ({"scale": "cubic"}, "The scale of plot must be"),
        ({"policies": ["UCB2"]}, "The policies of plot must be among"),
        ({"policies": []}, "The policies of plot must be at least one name"),
        ({"size": "huge"}, "The size of plot must be"),
        ({"bounds": {"b": [1.0]}}, "The bounds of plot must be functions of the rounds, or 6"),
    ],
)
def test_wrong_options_are_refused(given, sentence, tmp_path):
    with pytest.raises(InvalidParameter, match=f"^{sentence}"):
        plot_result(made_up(), tmp_path / "a.png", **given)
    assert list(tmp_path.iterdir()) == []


def test_the_colour_is_the_algorithms_whatever_it_is_called():
    result = made_up(["mine", "theirs"])
    result.policies.update(mine="UCB1(c=2.0)", theirs="ThompsonSampling()")
    lines = plot_result(result).axes[0].get_lines()
    colours = [line.get_color() for line in lines]
    assert colours == [LOOKS["UCB1"].colour, LOOKS["Thompson sampling"].colour]


def test_the_table_of_many_results_shows_every_mean(tmp_path):
    results = {"one": made_up(), "two": made_up(("UCB1()", "EXP3"))}
    figure = plotting.plot_regret_table(results, tmp_path / "table.png")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "TsallisINF()",
        "UCB1()",
        "EXP3",
    ]
    # Two means of the first result, and two of the second; the other cells are empty.
    assert sorted(text.get_text() for text in axes.texts) == ["223.6", "223.6", "447.2", "447.2"]
    with pytest.raises(InvalidParameter, match="at least one"):
        plotting.plot_regret_table({})
    with pytest.raises(InvalidParameter, match="a checkpoint of every result"):
        plotting.plot_regret_table(results, at=7)


# --- several results, tails -------------------------------------------------------------------


def two_results():
    """Return results of two policies in two worlds, one of them with negative regret."""
    rng = np.random.default_rng(5)
    t = np.array([1, 10, 100])
    found = {}
    for title, sign in (("gain", -1.0), ("loss", 1.0)):
        regret = {
            name: sign * np.outer(rng.gamma(4.0, 1.0, 32), t) * factor
            for name, factor in (("a", 1.0), ("b", 2.0))
        }
        found[title] = bw.Result(
            checkpoints=t, regret=regret, plays={n: np.ones((32, 2), dtype=int) for n in regret},
            repetitions={n: np.arange(32) for n in regret}, wall={}, cpu={},
            policies={n: n for n in regret}, environment=title, seed=1,
        )  # fmt: skip
    return found


@pytest.mark.parametrize("show", ["regret", "tail"])
def test_a_figure_has_a_panel_for_every_result_and_one_legend(show, tmp_path):
    results = two_results()
    drawn = bw.figure(results, tmp_path / "figure.png", show=show)
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert [axes.get_title("left") for axes in drawn.axes] == ["gain", "loss"]
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert drawn.axes[0].get_ylabel()
    assert not drawn.axes[1].get_ylabel()
    assert len(bw.figure(results, columns=1, policies=["a"], show=show).axes) == 2


def test_a_tail_falls_from_all_runs_to_none():
    results = two_results()
    (axes,) = results["loss"].plot_tail().axes
    assert axes.get_xscale() == "log"
    for line, runs in zip(axes.lines, results["loss"].at().values(), strict=True):
        x, y = line.get_data()
        assert y[0] == 1.0
        assert y[-1] < 1.0 / len(runs)
        middle = float(np.median(runs))
        # The share above the median is a half, read off the steps.
        assert y[np.searchsorted(x, middle, side="right") - 1] == pytest.approx(0.5, abs=1 / 32)
    (axes,) = results["gain"].plot_tail(policies=["b"], at=10).axes
    assert axes.get_xscale() == "symlog"
    assert len(axes.lines) == 1


def test_negative_regret_is_shaded_by_its_distance_to_the_least():
    results = two_results()
    (axes,) = bw.plotting.plot_regret_table(results).axes
    shades = np.asarray(axes.images[0].get_array())
    # Less regret is lighter in both columns: b gains more, and loses more.
    assert shades[1, 0] == 0.0 < shades[0, 0]
    assert shades[0, 1] == 0.0 < shades[1, 1]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda r: bw.figure([]), "The results of figure must be a dict of names to results"),
        (lambda r: bw.figure(r, show="arms"), "The show of figure must be"),
        (lambda r: bw.table({}), "The results of table must be a dict of names to results"),
        (lambda r: bw.table(r, "html"), "The form of table must be"),
        (lambda r: bw.table(r, bold="all"), "The bold of table must be one of"),
    ],
)
def test_figures_and_tables_refuse(call, sentence):
    with pytest.raises(InvalidParameter, match=f"^{sentence}"):
        call(two_results())
