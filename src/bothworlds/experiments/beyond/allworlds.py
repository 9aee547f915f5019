"""AllWorlds next to every other policy: within twice the best of them, world by world.

Every policy of the package plays in the arena's worlds with bounded losses: eight that the
constants of AllWorlds were chosen on, and twelve more. In each world AllWorlds is compared with the
policy that has the least regret there, which differs from world to world and is known only
afterwards. Sine waves, mostly missing feedback and drifting clicks last twice as long as the rest.
"""

from __future__ import annotations

from functools import partial

from bothworlds import plotting
from bothworlds.experiments.algorithms import ALLWORLDS
from bothworlds.experiments.arena import WORLDS, entrants, fitting
from bothworlds.experiments.beyond.worlds import compared
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, scales
from bothworlds.plotting.draw import INK, QUIET

N_ARMS, GAP, LIMIT = 5, 0.2, 2.0

SCALES = scales((10_000, 400), (10_000, 1000))
"""One world has a fat tail: its mean needs 400 runs."""

WHY = {
    "sine": (
        "Soft restarts keep part of an order that has turned: a reference implementation has 1,207 "
        "with them, 805 with hard restarts and 2,940 without level alarms."
    ),
    "improving arm": (
        "The leader's losses do not change, so only the arm that improves can reveal it, and "
        "it is played rarely: a reference implementation has 634, without side alarms 682, "
        "and without the floor 598."
    ),
    "fast flips": (
        "About ten level alarms a run restart the learning rate though the order stays: without "
        "them a reference implementation has 70 instead of 128."
    ),
    "two best arms": (
        "Two leaders share the weight, so what counts as explored stays large and with it the "
        "floor: without the floor a reference implementation has 8 instead of 21."
    ),
}
"""Why a claim fails, by world; regrets of 60 to 200 runs."""


def cells(settings: Settings) -> list[Cell]:
    """Return all worlds of the arena with bounded losses, and all policies in each."""
    found = (_cell(settings, name) for name in WORLDS)
    return [cell for cell in found if not cell.environment.unbounded]


def _cell(settings: Settings, name: str) -> Cell:
    horizon = WORLDS[name].times * settings.horizon
    world = WORLDS[name].make(N_ARMS, GAP, horizon)
    policies = fitting(entrants(horizon), world)
    return settings.cell(
        name, world, policies, horizon=horizon, checkpoints=(horizon,), covered=False
    )


def rivals(cell: Cell) -> list[str]:
    """Return all policies of a world but AllWorlds."""
    return [name for name in cell.policies if name != ALLWORLDS]


def score(outcome: Outcome) -> list[Claim]:
    """Judge every world by itself."""
    return [
        statements.ours(
            f"allworlds.{cell.id.replace(' ', '-')}",
            f"In the world {cell.id} ({WORLDS[cell.id].about}), AllWorlds has at most twice the "
            "regret of the best other policy",
            "the case for one policy",
            why=WHY.get(cell.id, ""),
        ).by(compared, outcome, [cell], [(ALLWORLDS, name) for name in rivals(cell)], LIMIT)
        for cell in outcome.cells
    ]


def shares(outcome: Outcome, cell: Cell) -> verdicts.Place:
    """Return the regret of AllWorlds in a world, in units of the best other policy's."""
    best = min(rivals(cell), key=partial(outcome.mean, cell))
    own, other = (verdicts.finals(outcome, cell, name) for name in (ALLWORLDS, best))
    return verdicts.Place(best, rules.ratio(own, other), cell.id, LIMIT)


def figures(outcome: Outcome) -> Figures:
    """Draw the ratio to the best other policy in every world, with its interval."""
    places = sorted((shares(outcome, cell) for cell in outcome.cells), key=lambda each: each.value)
    figure, grid = plotting.panels(1, 1, 0.9 + 0.24 * len(places), 0.8 * plotting.WIDTH)
    axes = grid[0, 0]
    for row, place in enumerate(places):
        axes.plot([place.low(), place.high()], [row, row], color=INK, linewidth=1.3)
        axes.plot([place.value], [row], marker="o", markersize=4.5, color=INK)
        axes.annotate(
            place.name, (max(place.high(), LIMIT), row), (5, 0), textcoords="offset points",
            va="center", fontsize=7, color=QUIET,
        )  # fmt: skip
    axes.axvline(LIMIT, color="#9A9A9A", linewidth=0.7, zorder=1.2)
    axes.set_yticks(range(len(places)), [place.panel for place in places])
    axes.set_ylim(-0.6, len(places) - 0.4)
    axes.grid(visible=False)
    axes.set_xlabel("regret of AllWorlds / least regret of all other policies (name in grey)")
    plotting.shows(axes, *(cell.id for cell in outcome.cells))
    plotting.note(figure, f"{outcome.settings}; one-sided 95 % limits")
    return {"allworlds": figure}


TITLE = "AllWorlds: one policy for unknown worlds"
SOURCE = "Ours"
