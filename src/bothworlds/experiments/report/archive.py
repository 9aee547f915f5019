"""Finished experiments on disk: claims and tables as JSON, all results as Parquet."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bothworlds.campaign.shard_file import processor, versions
from bothworlds.experiments.catalogue import SHELVES
from bothworlds.experiments.model import Claim, Outcome, Panel, Settings, Table
from bothworlds.files import pyarrow, replacing


@dataclass(frozen=True)
class Finished:
    """A finished experiment.

    Parameters
    ----------
    id, title, source, summary : str
        As in `Experiment`.
    settings : Settings
        How it was run.
    claims : tuple of Claim
        What was judged.
    figures : tuple of str
        Names of the figures; files of these names lie in the output folder.
    tables : tuple of Table
        For the report.
    cells : int
        How many there are.
    simulated : int
        Simulations that were run now; the rest were in the store.
    seconds : float
        Time this took now.
    seed : int
        The seed in force.
    made : dict of str to str
        Where it was judged: date, processor, cores, versions.
    panels : dict of str to tuple of Panel
        Where the panels of every figure are.
    """

    id: str
    title: str
    source: str
    summary: str
    settings: Settings
    claims: tuple[Claim, ...]
    figures: tuple[str, ...]
    tables: tuple[Table, ...]
    cells: int
    simulated: int
    seconds: float
    seed: int
    made: Mapping[str, str] = field(default_factory=dict)
    panels: Mapping[str, tuple[Panel, ...]] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """The files that belong to it, besides its own record."""
        pictures = [f"{name}.{kind}" for name in self.figures for kind in ("png", "pdf")]
        return [f"{self.id}.parquet", *pictures]


def write_results(path: Path, outcome: Outcome) -> None:
    """Write every measured value as one tidy table: cell, policy, repetition, round, regret."""
    arrow = pyarrow()
    tables = []
    for cell in outcome.cells:
        table = outcome.results[cell.id].to_frame()
        column = arrow.DictionaryArray.from_arrays(
            np.zeros(table.num_rows, dtype=np.int32), [cell.id]
        )
        tables.append(table.add_column(0, "cell", column))
    joined = arrow.concat_tables(tables).unify_dictionaries()
    with replacing(path) as draft:
        arrow.parquet.write_table(joined, draft, compression="zstd")


def keep(folder: Path, key: str, done: Finished) -> None:
    """Write the findings about an experiment; ``key`` identifies their inputs."""
    with replacing(folder / f"{done.id}.json") as draft:
        draft.write_text(json.dumps({"key": key, **asdict(done)}, indent=1), encoding="utf-8")


def kept(folder: Path, id: str, key: str | None = None) -> Finished | None:
    """Return the findings about an experiment, or None where they or a file of them are missing.

    With a ``key``, what was found under another one counts as missing.
    """
    try:
        content = json.loads((folder / f"{id}.json").read_text(encoding="utf-8"))
        done = _finished(content)
        fits = key is None or content["key"] == key
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return done if fits and all((folder / file).is_file() for file in done.files) else None


def _finished(content: Mapping[str, Any]) -> Finished:
    fields = {key: value for key, value in content.items() if key != "key"}
    settings: Any = {
        k: tuple(v) if isinstance(v, list) else v for k, v in fields["settings"].items()
    }
    fields["settings"] = Settings(**settings)
    fields["claims"] = tuple(Claim(**claim) for claim in fields["claims"])
    fields["figures"] = tuple(fields["figures"])
    fields["tables"] = tuple(
        Table(t["title"], tuple(t["head"]), tuple(map(tuple, t["rows"]))) for t in fields["tables"]
    )
    fields["panels"] = {
        figure: tuple(Panel(tuple(p["shows"]), tuple(p["box"])) for p in panels)
        for figure, panels in fields.get("panels", {}).items()
    }
    return Finished(**fields)


def everything(folder: Path) -> list[Finished]:
    """Return all finished experiments of a folder, in the order of the catalogue."""
    found = (kept(folder, name) for shelf in SHELVES.values() for name in shelf.names)
    return [done for done in found if done is not None]


def made_with() -> dict[str, str]:
    """Return the date, the processor, its cores and the versions of the software, without names.

    Examples
    --------
    >>> list(made_with())
    ['date', 'processor', 'cores', 'versions']
    """
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": str(os.cpu_count() or 1),
        "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
    }
