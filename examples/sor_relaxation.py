"""Choose the relaxation parameter of an SOR solver while it works through a stream of systems.

Every round brings a linear system (Laplacian + shift) x = b on a 15 x 15 grid, whose shift wanders
from day to day. The arms are values of the relaxation parameter, the loss is the number of sweeps
the solver needs, and ``bounds=(0, CAP)`` is all it takes to hand it over in its own unit.

What to learn here: how to put a solver's parameter in the hands of a bandit, and that it ends up
near the best single value without trying them all on every system. The drift here is slow and
means no harm, so Thompson sampling is a little ahead of Tsallis-INF.

Writes sor_relaxation.png; prints the mean number of sweeps.
"""

import sys
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds import plotting

OMEGAS = np.round(np.arange(1.0, 2.0, 0.1), 1)
GRID, CAP, POOL, ROUNDS, RUNS = 15, 60, 80, 4000, 8


def sweeps(shifts, b):
    """Solve every system with every omega; return the sweeps needed, systems by omegas."""
    x = np.zeros((len(shifts), len(OMEGAS), GRID + 2, GRID + 2), dtype=np.float32)
    diagonal = (4 + shifts).astype(np.float32)[:, None, None, None]
    omega = OMEGAS.astype(np.float32)[None, :, None, None]
    red = (np.indices((GRID, GRID)).sum(axis=0) % 2).astype(np.float32)
    needed = np.full(x.shape[:2], CAP)
    target = 1e-3 * np.linalg.norm(b, axis=(2, 3))
    for n in range(1, CAP):
        for colour in (red, 1 - red):
            around = x[..., :-2, 1:-1] + x[..., 2:, 1:-1] + x[..., 1:-1, :-2] + x[..., 1:-1, 2:]
            residual = b + around - diagonal * x[..., 1:-1, 1:-1]
            x[..., 1:-1, 1:-1] += omega / diagonal * residual * colour
        small = np.linalg.norm(residual, axis=(2, 3)) < target
        needed[small & (needed == CAP)] = n
        if (needed < CAP).all():
            break
    return needed


def main(folder):
    rng = np.random.default_rng(1)
    shifts = np.linspace(0.02, 1.0, POOL)
    table = sweeps(shifts, rng.normal(size=(POOL, 1, GRID, GRID)).astype(np.float32))
    policies = [bw.TsallisINF(), bw.ThompsonSampling(), bw.UCB1(), bw.Uniform()]
    told = {policy: np.zeros((RUNS, ROUNDS)) for policy in policies}
    fixed = np.zeros(len(OMEGAS))
    for run in range(RUNS):
        # The shift is a slow random walk between its limits.
        walk = np.cumsum(rng.normal(0, 1.0, ROUNDS)) + rng.integers(POOL)
        systems = np.abs((walk.astype(int) % (2 * POOL)) - POOL + 0.5).astype(int)
        fixed += table[systems].mean(axis=0) / RUNS
        for policy in policies:
            bandit = bw.Bandit(policy, arms=OMEGAS.astype(str), bounds=(0, CAP), seed=run)
            for t, system in enumerate(systems):
                decision = bandit.ask()
                needed = float(table[system, decision.index])
                bandit.tell(decision, loss=needed)
                told[policy][run, t] = needed
    best = OMEGAS[fixed.argmin()]
    print(f"{'mean sweeps per system':30}")
    print(f"{'omega = 1 (Gauss-Seidel)':30}{fixed[0]:8.1f}")
    print(f"{f'omega = {best}, best in hindsight':30}{fixed.min():8.1f}")
    for policy in policies:
        print(f"{policy!r:30}{told[policy].mean():8.1f}")

    with plotting.style():
        figure, axes = plotting.panels(1, 2, 3.2)
        left, right = axes[0]
        left.plot(OMEGAS, fixed, "o-", color="#3B3B3B", markersize=4)
        left.set(xlabel="relaxation parameter ω, held fixed", ylabel="mean sweeps per system")
        left.set_ylim(0, None)
        t = np.arange(1, ROUNDS + 1)
        right.axhline(fixed.min(), color="#8C8C8C", linewidth=1.0)
        right.annotate(f"ω = {best} throughout", (0.98 * ROUNDS, fixed.min()), ha="right", va="top",
                       xytext=(0, -3), textcoords="offset points", fontsize=8)  # fmt: skip
        for policy, look in zip(
            policies, plotting.looks(map(repr, policies)).values(), strict=True
        ):
            mean = told[policy].mean(axis=0).cumsum() / t
            right.plot(t[20:], mean[20:], color=look.colour, linestyle=look.line, label=look.label)
        right.set(xlabel="systems solved", ylabel="mean sweeps so far", ylim=(0, None))
        plotting.shared_legend(figure, 2)
        plotting.save(figure, folder / "sor_relaxation.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
