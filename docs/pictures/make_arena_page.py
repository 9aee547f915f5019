"""Write docs/arena.md and its pictures from finished runs of the arena, and keep these runs.

Run ``python docs/pictures/make_arena_page.py results/arena``: policies that docs/data/arena.parquet
lacks are played, unless the folder has their runs already, and the regret of every run goes into
that file; remove it to play all policies.  Without a folder the page is written from the file.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
from make_claims_page import small

import bothworlds as bw
from bothworlds.experiments import experiment
from bothworlds.experiments.algorithms import ALLWORLDS
from bothworlds.experiments.arena import WORLDS, entrants, play
from bothworlds.experiments.beyond.allworlds import GAP, LIMIT, N_ARMS, shares
from bothworlds.experiments.claims.verdicts import LEVEL
from bothworlds.experiments.model import Cell, Outcome
from bothworlds.experiments.report.archive import made_with
from bothworlds.plotting import plot_regret_table, save
from bothworlds.text import grouped

DOCS = Path(__file__).parent.parent
DATA = DOCS / "data" / "arena.parquet"
HORIZON, RUNS, SEED = 10_000, 400, 0
RESAMPLES = 2_000
GROUPS = (
    ("Losses with fixed gaps", ("fixed means", "low rates", "2 arms", "10 arms", "30 arms")),
    ("Adversaries and moving levels",
     ("jumping level", "betrayal", "fast flips", "hidden best", "replaced losses")),
    ("Best arms that move",
     ("drift", "drifting clicks", "random changes", "sine", "improving arm")),
    ("Late and lost feedback",
     ("delay", "late and drifting", "missing feedback", "mostly missing")),
    ("Two best arms, and losses without bounds", ("two best arms", "heavy tails")),
)  # fmt: skip
"""The worlds of each table."""
PICTURES = {
    "arena": list(WORLDS)[:9],
    "arena_more": list(WORLDS)[9:15],
    "arena_rest": list(WORLDS)[15:],
}

OPENING = f"""\
# Which policy for which world

`bothworlds arena --repetitions {RUNS}` plays every policy in {len(WORLDS)} kinds of worlds:
{N_ARMS} arms, a gap of {GAP:g} and {HORIZON:,} rounds, unless the world states otherwise. Finished
runs are kept, so a command that was stopped resumes; `--policies`, `--worlds`, `--arms`, `--gap`
and `--horizon` ask for others. Every run is in [arena.parquet](data/arena.parquet).

- No policy is best everywhere, and the best of one world can be the last of another.
- Policies for independent losses, such as `ThompsonSampling()`, win where the means are fixed.
  Where the level of all losses follows the agent, they have many times the regret of
  `TsallisINF()`.
- `AllWorlds()` is for users who do not know their world. The first table compares it with the best
  other policy of each world, which is known only afterwards.

![Mean regret of every policy in nine worlds](images/arena.png)

![Mean regret of every policy in six more worlds](images/arena_more.png)

![Mean regret of every policy in another six worlds](images/arena_rest.png)

## AllWorlds and the best other policy

The ratio of their mean regrets; each end of its interval has {1 - LEVEL:.0%} confidence. A world
is marked ✗ where the ratio is above {LIMIT:g} beyond chance, and ? where that is too close to call.
`bothworlds beyond allworlds` judges the same claims.

| world | AllWorlds | best other policy | ratio | |
|---|--:|---|---|---|
"""

TABLES = """
## All policies

Mean regret with a 95 % interval. Bold: the least of the column, and what `Result.ranking` does not
tell apart from it. A dagger stands instead of an interval where a few runs carry the mean.
"""


def kept(results: dict[str, bw.Result]) -> None:
    """Write the regret of every run at the last round."""
    columns: dict[str, list] = {"world": [], "policy": [], "repetition": [], "regret": []}
    for world, result in results.items():
        for name, runs in result.regret.items():
            columns["world"] += [world] * len(runs)
            columns["policy"] += [name] * len(runs)
            columns["repetition"] += result.repetitions[name].tolist()
            columns["regret"] += runs[:, -1].tolist()
    table = pyarrow.table(
        {
            "world": pyarrow.array(columns["world"]).dictionary_encode(),
            "policy": pyarrow.array(columns["policy"]).dictionary_encode(),
            "repetition": pyarrow.array(columns["repetition"], pyarrow.int16()),
            "regret": pyarrow.array(columns["regret"]),
        }
    )
    about = {"seed": str(SEED), **made_with()}
    table = table.replace_schema_metadata({"bothworlds.arena": json.dumps(about)})
    parquet.write_table(table, DATA, compression="zstd", compression_level=19)


def stored() -> dict[str, bw.Result]:
    """Return the results of the file by world, none where there is no file."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in parquet.read_table(DATA).to_pylist() if DATA.exists() else ():
        found.setdefault(row["world"], {}).setdefault(row["policy"], []).append(row["regret"])
    return {world: _result(world, runs) for world, runs in found.items()}


def completed(known: dict[str, bw.Result], folder: Path) -> dict[str, bw.Result]:
    """Play the policies that the results lack, and return all of them in the registered order."""
    have = {name for result in known.values() for name in result.regret}

    def lacking(horizon: int) -> dict[str, bw.policies.Policy]:
        return {name: policy for name, policy in entrants(horizon).items() if name not in have}

    settings = {"n_arms": N_ARMS, "gap": GAP, "horizon": HORIZON, "repetitions": RUNS}
    played = dict(play(lacking, WORLDS, store=folder / "store", seed=SEED, **settings))
    every = {}
    for world in WORLDS:
        parts = [each[world] for each in (known, played) if world in each]
        runs = {name: list(run[:, -1]) for part in parts for name, run in part.regret.items()}
        every[world] = _result(
            world, {name: runs[name] for name in entrants(HORIZON) if name in runs}
        )
    return every


def _result(world: str, runs: dict[str, list[float]]) -> bw.Result:
    rounds = WORLDS[world].times * HORIZON
    environment = WORLDS[world].make(N_ARMS, GAP, rounds)
    policies = entrants(rounds)
    return bw.Result(
        checkpoints=np.array([rounds]),
        regret={name: np.array(each)[:, None] for name, each in runs.items()},
        plays={name: np.zeros((len(each), environment.n_arms)) for name, each in runs.items()},
        repetitions={name: np.arange(len(each)) for name, each in runs.items()},
        wall=dict.fromkeys(runs, 0.0),
        cpu=dict.fromkeys(runs, 0.0),
        policies={name: repr(policies[name]) for name in runs},
        environment=repr(environment),
        seed=SEED,
    )


def _played(cell: Cell, result: bw.Result) -> Cell:
    """Return a cell without the policies that are newer than the data."""
    return replace(cell, policies={name: cell.policies[name] for name in result.regret})


def comparison(results: dict[str, bw.Result]) -> list[str]:
    """Return a row for every world with bounded losses, the largest ratio first."""
    chosen = experiment("allworlds")
    settings = chosen.scales["quick"]
    cells = tuple(_played(cell, results[cell.id]) for cell in chosen.cells(settings))
    outcome = Outcome(settings, cells, results)
    verdicts = {claim.id.partition(".")[2]: claim.verdict for claim in chosen.score(outcome)}
    marks = {"fails": "✗ above 2", "open": "? open", "holds": ""}
    rows = []
    for place, cell in sorted(
        ((shares(outcome, cell), cell) for cell in outcome.cells), key=lambda each: -each[0].value
    ):
        own, best = (grouped(outcome.mean(cell, name)) for name in (ALLWORLDS, place.name))
        between = place.between(LEVEL, LEVEL, lambda value: f"{value:.2f}")
        mark = marks[verdicts[cell.id.replace(" ", "-")]]
        longer = f", {cell.horizon:,} rounds" if cell.horizon > HORIZON else ""
        world = f"{cell.id}: {WORLDS[cell.id].about}{longer}"
        ratio = f"{place.value:.2f} {between}"
        rows.append(f"| {world} | {own} | {place.name}, {best} | {ratio} | {mark} |\n")
    return rows


def page(results: dict[str, bw.Result]) -> str:
    """Return the text of the page."""
    parts = [OPENING, *comparison(results), TABLES]
    for title, worlds in GROUPS:
        some = {world: results[world] for world in worlds}
        parts.append(f"\n### {title}\n\n{bw.table(some, 'markdown', resamples=RESAMPLES)}\n")
    return "".join(parts)


def main(folder: Path | None) -> None:
    """Play what is missing, then write the data, the page and its pictures."""
    if folder is not None:
        kept(completed(stored(), folder))
    results = stored()
    (DOCS / "arena.md").write_text(page(results), encoding="utf-8")
    for name, worlds in PICTURES.items():
        columns = {world.replace(" ", "\n"): results[world] for world in worlds}
        picture = DOCS / "images" / f"{name}.png"
        save(plot_regret_table(columns), picture)
        small(picture, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
