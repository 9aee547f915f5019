"""Run the benchmarks, all of them or one: ``python -m benchmarks simulate``."""

import argparse
from importlib import import_module

NAMES = ("decide", "simulate", "many", "duel", "campaign")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("which", nargs="?", default="all", choices=(*NAMES, "all"))
    which = parser.parse_args().which
    for name in NAMES if which == "all" else (which,):
        print(f"=== {name} ===")
        import_module(f"benchmarks.{name}").main()
        print()


if __name__ == "__main__":
    main()
