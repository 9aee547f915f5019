"""Other bandit libraries compared with this one: regret and time per round in the same two games.

Every library gets a virtual environment of its own under ``.cache/peers``, made on first use, so
that they cannot disturb each other; its runner in ``benchmarks/runners`` plays there. What cannot
be installed, or fails while playing, stays in the table with the reason.

Run it with ``make bench-peers``, or ``python -m benchmarks.peers river coba`` for some of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RUNNERS = Path(__file__).parent / "runners"
ENVIRONMENTS = ROOT / ".cache" / "peers"
WORLDS = ("fixed", "moving")
INSTALL_SECONDS = 900
PLAY_SECONDS = 1800


@dataclass(frozen=True)
class Peer:
    """A library, and what pip has to install for it."""

    name: str
    requirements: tuple[str, ...]

    @property
    def runner(self) -> Path:
        return RUNNERS / f"play_{self.name.lower()}.py"


PEERS = (
    Peer("river", ("river==0.26.1",)),
    Peer("MABWiser", ("mabwiser==2.7.4",)),
    Peer("pymab", ("pymab==2.0.1",)),
    Peer("coba", ("coba==8.1.0",)),
    # Its policies import what SciPy 1.14 removed.
    Peer("SMPyBandits", ("SMPyBandits==0.9.7", "scipy<1.14")),
    Peer("VowpalWabbit", ("vowpalwabbit==9.11.9",)),
)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def environment(peer: Peer) -> tuple[Path, str]:
    """Return the peer's Python, and why it could not be had, if so."""
    home = ENVIRONMENTS / peer.name
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    stamp = home / "installed.txt"
    wanted = "\n".join(peer.requirements)
    if stamp.is_file() and stamp.read_text() == wanted:
        return python, ""
    print(f"installing {' '.join(peer.requirements)} ...", file=sys.stderr, flush=True)
    venv.create(home, clear=True, with_pip=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*command, *peer.requirements], capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        return python, f"not installed after {INSTALL_SECONDS} s"
    if done.returncode != 0:
        return python, f"not installed: {last_line(done.stderr)}"
    stamp.write_text(wanted)
    return python, ""


def megabytes(home: Path) -> float:
    """Return the size of the packages in an environment, without pip and setuptools."""
    packages = next(home.glob("lib*/**/site-packages"))
    own = [entry for entry in packages.iterdir() if not entry.name.startswith(("pip", "setup"))]
    files = [path for entry in own for path in ([entry] if entry.is_file() else entry.rglob("*"))]
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


def play(python: str | Path, runner: Path, limits: list[str]) -> dict[str, Any]:
    """Run a runner and return what it printed last, or ``{"failed": reason}``."""
    try:
        done = subprocess.run(
            [python, runner, *limits],
            capture_output=True, text=True, timeout=PLAY_SECONDS, cwd=ROOT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {PLAY_SECONDS} s"}
    if done.returncode != 0:
        return {"failed": last_line(done.stderr)}
    outcome: dict[str, Any] = json.loads(last_line(done.stdout))
    return outcome


def regret(outcome: dict[str, Any]) -> str:
    """Show the mean regret and its standard error."""
    if "failed" in outcome:
        return "failed"
    runs = outcome["regrets"]
    if len(runs) < 2:
        return f"{runs[0]:.0f}"
    error = statistics.stdev(runs) / len(runs) ** 0.5
    return f"{statistics.mean(runs):.0f} ± {error:.0f}"


def show(name: str, outcome: dict[str, Any], size: str) -> None:
    """Print the lines of one library."""
    if "failed" in outcome:
        print(f"\n{name}: {outcome['failed']}")
        return
    print(f"\n{name} {outcome['version']}{size}")
    for player, worlds in outcome["players"].items():
        cells = "".join(f"{regret(worlds[world]):>15}" for world in WORLDS)
        times = [w["nanoseconds"] for w in worlds.values() if "failed" not in w]
        took = f"{min(times):,.0f}" if times else "-"
        runs = max(len(w.get("regrets", [])) for w in worlds.values())
        print(f"  {player:30}{cells}{took:>14}{runs:>7}")
        for world in WORLDS:
            if "failed" in worlds[world]:
                print(f"      {world}: {worlds[world]['failed']}")


def main() -> None:
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PEER", help=f"of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=20_000, help="per game (20,000)")
    parser.add_argument("--repetitions", type=int, default=20, help="games at most (20)")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU per player and world (10)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(names)
    if unknown:
        parser.error(f"unknown peer {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    limits = [str(arguments.rounds), str(arguments.repetitions), str(arguments.seconds)]
    print(
        f"K = 8, gap 1/8, Bernoulli, {arguments.rounds:,} rounds; mean regret ± standard error;\n"
        "fixed: the means stay; moving: their level jumps, the gaps stay."
    )
    heads = "".join(f"{world:>15}" for world in WORLDS)
    print(f"\n  {'':30}{heads}{'ns per round':>14}{'games':>7}")
    ours = play(sys.executable, RUNNERS / "play_bothworlds.py", limits)
    show("bothworlds", ours, "")
    for peer in PEERS:
        if arguments.names and peer.name not in arguments.names:
            continue
        python, reason = environment(peer)
        if reason:
            show(peer.name, {"failed": reason}, "")
            continue
        size = f" ({megabytes(ENVIRONMENTS / peer.name):.0f} MB with what it needs)"
        show(peer.name, play(python, peer.runner, limits), size)
    if "idle" in ours:
        print(f"\nThe game itself takes {ours['idle']:.0f} ns of every round.")


if __name__ == "__main__":
    main()
