"""Write docs/claims.md from finished experiments, and keep the results of the full scale.

Run ``python docs/pictures/make_claims_page.py results/quick results/full``: of an experiment that
several folders have, the last one counts.  Everything that ran at the paper's own scale also goes
into docs/data/full_scale.parquet, every run at every checkpoint, and its verdicts into the package.
With ``--beyond results/beyond`` it writes docs/beyond.md instead, about what came after the paper.
"""

import json
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet
from PIL import Image

from bothworlds.experiments import experiment
from bothworlds.experiments.catalogue import part_of
from bothworlds.experiments.claims.sample import CELL, sample_of
from bothworlds.experiments.claims.statements import FULL_SCALE
from bothworlds.experiments.claims.summary import OWNERS, ordered, said
from bothworlds.experiments.report.archive import everything
from bothworlds.experiments.report.html import BOTH_WORLDS

DOCS = Path(__file__).parent.parent
IMAGES = {"stochastic": "stochastic-log", "switching": "switching-log"}
MARKS = {"holds": "✓ holds", "fails": "✗ fails", "open": "? open", "differs": "≠ differs"}

OPENING = """\
# The paper's claims

{said}

![Regret of three algorithms where means are fixed and where they shift]({picture})

A claim is judged by an interval over the repetitions, in brackets behind the measurement. It
**holds** where the threshold is kept with 95 % confidence at every place examined, **fails** where
it is broken beyond chance, and is **open** where the interval contains the threshold, where it
[rests on a few runs](how-to/read_intervals.md), or where the run is shorter than the
claim requires. It **differs** where it fails for a known reason. `bothworlds paper` measures all
of this again, and its report shows every figure.
"""

BEYOND = """\
# Beyond the paper, measured

{said}

`bothworlds beyond` measures what came after the paper, as `bothworlds paper` does the paper: the
claims of the authors of each method, and claims of this project, marked as ours, by the
[same rules](claims.md). Once everything is compiled it takes minutes, most of them for *allworlds*;
its report has a table of all regrets. `bothworlds beyond drift` runs one experiment, `--full` more
repetitions.
"""

SCALES = """
The paper's own scale, ten million rounds and a hundred repetitions of every curve, is run for
{full}; all its runs are in [full_scale.parquet](data/full_scale.parquet), {size:.1f} MB, with
versions and seed.{absent} The other experiments are shown at the scale of minutes that `make run`
has.
"""


def missing(each, folder: Path) -> list[str]:
    """Return the cells of an experiment that its results lack."""
    held = set(parquet.read_table(folder / f"{each.id}.parquet")["cell"].to_pylist())
    cells = experiment(each.id).cells(each.settings)
    return [f"*{each.id}* {cell.id}" for cell in cells if cell.id not in held]


def small(source: Path, target: Path) -> None:
    """Copy a picture with 96 colours, by a method that keeps those of the algorithms."""
    with Image.open(source) as picture:
        wide = picture.convert("RGB")
        wide = wide.resize((1120, round(wide.height * 1120 / wide.width)), Image.Resampling.LANCZOS)
        few = wide.quantize(96, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.save(target, optimize=True)


def row(claim) -> str:
    """Return a claim as a row of a table."""
    told = f"{claim.sentence}. *{OWNERS[claim.owner]}: {claim.place}.*"
    measured = f"{claim.measured}; asked for: {claim.threshold}."
    if claim.why:
        measured += f" *{claim.why}*"
    cells = (f'<span class="{claim.verdict}">{MARKS[claim.verdict]}</span>', told, measured)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def section(each) -> str:
    """Return the section of an experiment: its summary, a picture if there is one, its claims."""
    lines = [f"\n## {each.title}\n", f"{each.source}; {each.settings}.\n", f"{each.summary}\n"]
    if part_of(each.id) == "beyond":
        lines.append(f"![{each.title}](images/beyond_{each.id}.png)\n")
    elif each.id in IMAGES and IMAGES[each.id] in each.figures:
        lines.append(f"![{each.title}](images/claims_{each.id}.png)\n")
    lines += ["| verdict | claim | measured |", "|---|---|---|"]
    return "\n".join([*lines, *map(row, ordered(each.claims))]) + "\n"


def keep(full, folders) -> float:
    """Write the runs and verdicts of the full scale; return the size of the file in megabytes."""
    tables = []
    for each in full:
        table = parquet.read_table(folders[each.id] / f"{each.id}.parquet")
        plain = {name: table[name] for name in ("cell", "policy")}
        numbers = {
            "repetition": table["repetition"].cast(pyarrow.int16()),
            "round": table["round"].cast(pyarrow.int32()),
            "regret": table["regret"],
        }
        name = pyarrow.array([each.id] * table.num_rows).dictionary_encode()
        tables.append(pyarrow.table({"experiment": name, **plain, **numbers}))
    about = {"seed": str(full[0].seed), **full[0].made}
    joined = pyarrow.concat_tables(tables).unify_dictionaries()
    joined = joined.replace_schema_metadata({"bothworlds.full_scale": json.dumps(about)})
    path = DOCS / "data" / "full_scale.parquet"
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(
        joined, path, compression="zstd", compression_level=19,
        use_dictionary=["experiment", "cell", "policy"],
        column_encoding={"repetition": "DELTA_BINARY_PACKED", "round": "DELTA_BINARY_PACKED",
                         "regret": "BYTE_STREAM_SPLIT"},
    )  # fmt: skip
    claims = {
        claim.id: {"verdict": claim.verdict, "measured": claim.measured}
        for each in full
        for claim in each.claims
    }
    settings = full[0].settings
    scale = f"{settings.horizon:,} rounds and {settings.repetitions} repetitions"
    finals = {each.id: last(folders[each.id] / f"{each.id}.parquet") for each in full}
    kept = {"scale": scale, "made": about, "claims": claims, "sample": sample_of(finals)}
    text = json.dumps(kept, indent=1, sort_keys=True)
    FULL_SCALE.write_text(text + "\n", encoding="utf-8")
    return path.stat().st_size / 1e6


def last(path: Path) -> dict[str, list[float]]:
    """Return the last regret of every run in the cell of the sample, by algorithm."""
    table = parquet.read_table(path, filters=[("cell", "==", CELL)]).to_pylist()
    final = max(row["round"] for row in table)
    found: dict[str, dict[int, float]] = {}
    for row in table:
        if row["round"] == final:
            found.setdefault(row["policy"], {})[row["repetition"]] = row["regret"]
    return {name: [runs[place] for place in sorted(runs)] for name, runs in found.items()}


def main(folders: list[Path]) -> None:
    """Write the page, its pictures, and what the full scale gave."""
    found, places = {}, {}
    for folder in folders:
        for each in everything(folder):
            if part_of(each.id) == "paper":
                found[each.id], places[each.id] = each, folder
    claims = [claim for each in found.values() for claim in each.claims]
    picture = "images/claims_both_worlds.png"
    small(places["switching"] / f"{BOTH_WORLDS}.png", DOCS / picture)
    for name, figure in IMAGES.items():
        small(places[name] / f"{figure}.png", DOCS / "images" / f"claims_{name}.png")
    page = [OPENING.format(said=" ".join(said(claims)), picture=picture)]
    full = [each for each in found.values() if each.settings.scale == "full"]
    if full:
        size = keep(full, places)
        names = " and ".join(f"*{each.id}*" for each in full)
        absent = [cell for each in full for cell in missing(each, places[each.id])]
        told = f" These cells are missing in them: {'; '.join(absent)}." if absent else ""
        page.append(SCALES.format(full=names, size=size, absent=told))
    page += [section(each) for each in found.values()]
    (DOCS / "claims.md").write_text("".join(page), encoding="utf-8")
    print(*said(claims), sep="\n")


def beyond(folder: Path) -> None:
    """Write the page about what came after the paper, and its pictures."""
    found = [each for each in everything(folder) if part_of(each.id) == "beyond"]
    claims = [claim for each in found for claim in each.claims]
    for each in found:
        small(folder / f"{each.figures[0]}.png", DOCS / "images" / f"beyond_{each.id}.png")
    page = [BEYOND.format(said=" ".join(said(claims))), *map(section, found)]
    (DOCS / "beyond.md").write_text("".join(page), encoding="utf-8")
    print(*said(claims), sep="\n")


if __name__ == "__main__":
    if sys.argv[1] == "--beyond":
        beyond(Path(sys.argv[2]))
    else:
        main([Path(folder) for folder in sys.argv[1:]])
