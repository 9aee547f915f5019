"""Run the benchmarks, all of them or one: ``python -m benchmarks simulate``.

``compare`` measures a small set, ``worlds`` simulations of eight policies in three worlds;
``--against`` measures another source tree in the same run.
``--compare`` prints ratios to the figures that ``--save`` wrote last. ``thresholds``, which
compiles everything several times, ``coverage`` and ``segments`` run only by their names.
"""

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks import compare, results

NAMES = (
    *("decide", "advised", "simulate", "own", "many", "duel"),
    *("campaign", "late", "inference", "serve", "cold"),
)
SLOW = ("thresholds", "coverage", "segments")
"""Benchmarks that run only by name."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "which", nargs="?", default="all", choices=(*NAMES, *SLOW, "compare", "worlds", "all")
    )
    parser.add_argument("--against", type=Path, help="root of another source tree")
    parser.add_argument("--turns", type=int, default=compare.TURNS, help="how often each runs")
    parser.add_argument("--compare", action="store_true", help="print ratios to the last figures")
    parser.add_argument("--save", action="store_true", help="write the figures to a file")
    chosen = parser.parse_args()
    for name in NAMES if chosen.which == "all" else (chosen.which,):
        if name == "worlds":
            compare.main(chosen.against, chosen.turns, compare.WORLDS)
        elif name != "compare":
            print(f"=== {name}: {results.processor()} ===")
            import_module(f"benchmarks.{name}").main()
            print()
    if chosen.which in ("compare", "all") or chosen.compare or chosen.save:
        figures = compare.main(chosen.against, chosen.turns)
        if chosen.compare:
            print("Compared with the last figures:")
            print("\n".join(results.compared(figures)))
        if chosen.save:
            results.save(figures)


if __name__ == "__main__":
    main()
