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
FIRST, LAST = 100, 10**6


def main() -> None:
    """Simulate, draw and print."""
    with plotting.style():
        figure, grid = plotting.panels(1, len(WORLDS), 2.9, sharey=True)
        for axes, (title, world) in zip(grid[0], WORLDS.items(), strict=True):
            result = bw.simulate(POLICIES, world, horizon=LAST, repetitions=100, seed=0)
            print(world, result.summary(), sep="\n")
            plotting.draw_regret(axes, result, FIRST, LAST)
            plotting.log_axes(axes, FIRST, LAST, 5, 2e5)
            axes.set_title(title)
            axes.set_xlabel("round")
            looks = plotting.looks(result.names, result.policies)
            ends = [(result.regret[n][:, -1].mean(), n, look.colour) for n, look in looks.items()]
            plotting.end_labels(axes, ends)
        grid[0, 0].set_ylabel("mean regret")
        plotting.note(
            figure,
            "8 arms, gap 1/8, 100 repetitions; band: two standard errors of the mean",
        )
        plotting.save(figure, IMAGES / "both_worlds.png")


if __name__ == "__main__":
    main()
