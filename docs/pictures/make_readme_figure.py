"""Draw docs/images/both_worlds.png: the same three policies in two worlds.

Run ``python docs/pictures/make_readme_figure.py``; it prints the numbers the README quotes.
"""

from pathlib import Path

import bothworlds as bw
from bothworlds import plotting

IMAGES = Path(__file__).parent.parent / "images"

POLICIES = {
    "Tsallis-INF (RV)": bw.TsallisINF(),
    "Thompson sampling": bw.ThompsonSampling(),
    "UCB1": bw.UCB1(),
}
WORLDS = {
    "fixed means": bw.environments.Stochastic.gap(n_arms=8, gap=1 / 8),
    "same gap, but all means rise and fall together": bw.environments.Switching(8, gap=1 / 8),
}
FIRST = 100


def main() -> None:
    """Simulate, draw and print."""
    with plotting.style():
        figure, grid = plotting.panels(1, len(WORLDS), 2.9, sharey=True)
        for axes, (title, world) in zip(grid[0], WORLDS.items(), strict=True):
            result = bw.simulate(POLICIES, world, horizon=10**6, repetitions=100, seed=0)
            print(world, result.summary(), sep="\n")
            late = result.checkpoints >= FIRST
            for place, (name, look) in enumerate(plotting.looks(result.names).items()):
                runs = result.regret[name][:, late]
                at = result.checkpoints[late]
                plotting.draw_curve(axes, at, runs, look, place=place, band="mean")
            plotting.log_axes(axes, FIRST, 10**6, 5, 2e5)
            axes.set_title(title)
            axes.set_xlabel("round")
        grid[0, 0].set_ylabel("mean regret")
        plotting.shared_legend(figure, 3)
        plotting.note(
            figure,
            "8 arms, gap 1/8, 100 repetitions; band: two standard errors of the mean",
        )
        plotting.save(figure, IMAGES / "both_worlds.png")


if __name__ == "__main__":
    main()
