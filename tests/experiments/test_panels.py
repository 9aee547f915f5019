"""Claims lead to the panel of the figure where they were decided."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from bothworlds import plotting
from bothworlds.experiments import experiment, experiment_names
from bothworlds.experiments.claims.statements import with_context
from bothworlds.experiments.model import Outcome, Panel
from bothworlds.experiments.report.archive import Finished, keep, kept
from bothworlds.experiments.report.html import panel_of, report_html
from helpers.regrets import made_up


def drawn(name):
    """Return an experiment with made-up results, judged and drawn."""
    each = experiment(name)
    settings = each.scales["quick"]
    cells = tuple(each.cells(settings))
    results = {c.id: made_up(c, lambda c, name, t: 20.0 * np.log1p(t)) for c in cells}
    outcome = Outcome(settings, cells, results)
    panels = {}
    with plotting.style():
        figures = each.figures(outcome)
        for figure_name, figure in figures.items():
            panels[figure_name] = tuple(Panel(*p) for p in plotting.shown_panels(figure))
    return Finished(
        id=name, title=each.title, source=each.source, summary=each.summary, settings=settings,
        claims=with_context(each.score(outcome), settings, tuple(figures)), figures=tuple(figures),
        tables=(), cells=len(cells), simulated=0, seconds=0.0, seed=0, panels=panels,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", [*experiment_names(), *experiment_names("beyond")])
def test_every_claim_has_a_panel(name):
    made = drawn(name)
    for claim in made.claims:
        _, shown = panel_of(claim, made)
        assert shown == claim.panel.partition(": ")[0]
    for panels in made.panels.values():
        for left, top, width, height in (panel.box for panel in panels):
            assert min(left, top) >= -0.01
            assert max(left + width, top + height) <= 1.01
    # A control: something that no panel shows.
    assert panel_of(dataclasses.replace(made.claims[0], panel="K=3"), made) is None


@pytest.mark.slow
def test_the_report_leads_from_claims_to_panels(tmp_path):
    made = drawn("copies")
    for file in made.files:
        (tmp_path / file).touch()
    Image.new("RGB", (40, 30)).save(tmp_path / "copies.png")
    keep(tmp_path, "key", made)
    assert kept(tmp_path, "copies") == made
    page = report_html(tmp_path, [made])
    for claim in made.claims:
        place, _ = panel_of(claim, made)
        assert f'<a href="#panel-copies-{place}">panel K=' in page
        assert page.count(f'id="panel-copies-{place}"') == 1
    lost = dataclasses.replace(made.claims[0], panel="K=3")
    alone = dataclasses.replace(made, claims=(lost,))
    assert '<a href="#figure-copies">figure</a>' in report_html(tmp_path, [alone])


@pytest.mark.slow
def test_a_panel_is_where_its_cell_is_drawn():
    made = drawn("stochastic")
    boxes = {panel.shows[0]: panel.box for panel in made.panels["stochastic-log"]}
    middle = boxes["K=8, gap=1/8"]
    assert middle[0] < 0.5 < middle[0] + middle[2]
    assert middle[1] < 0.5 < middle[1] + middle[3]
    first, last = boxes["K=2, gap=1/16"], boxes["K=32, gap=1/4"]
    assert first[0] + first[2] < middle[0] + 0.02
    assert last[1] > middle[1] + middle[3] - 0.02


@pytest.mark.slow
def test_forms_of_the_algorithm_have_panels_of_their_own():
    made = drawn("copies")
    found = {claim.id: panel_of(claim, made)[0] for claim in made.claims}
    assert found["copies.rv-decreasing"] != found["copies.iw-decreasing"]
    assert found["copies.published"] == found["copies.iw-decreasing"]
