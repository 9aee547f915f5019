"""Draw the pictures of docs/solver.md: ``python docs/pictures/make_solver_figures.py``."""

from pathlib import Path

import matplotlib
import mpmath as mp
import numpy as np

import bothworlds as bw
from bothworlds import plotting

IMAGES = Path(__file__).parent.parent / "images"
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6B6B6B"

LOSSES = np.array([0.0, 1.0, 2.5, 6.0])
ETA = 1.0


def total(x):
    """Return sum_i 4 / (eta (L_i - x))^2, on either side of the poles."""
    gaps = LOSSES[:, None] - np.atleast_1d(x)
    return (4.0 / (ETA * gaps) ** 2).sum(axis=0)


def root():
    """Return the x at which the weights of the OMD step are 4 / (eta (L_i - x))^2."""
    return LOSSES[0] - 2.0 / (ETA * np.sqrt(bw.omd.weights(LOSSES, ETA)[0]))


def two_roots(axes):
    """Draw the sum of the weights, its poles, the bracket and both roots."""
    least, widest = LOSSES[0] - 2.0 / ETA, LOSSES[0] - 2.0 * np.sqrt(LOSSES.size) / ETA
    x = np.linspace(-9, 16, 4000)
    y = total(x)
    y[y > 6] = np.nan
    axes.axvspan(widest, least, color=BLUE, alpha=0.10, lw=0)
    axes.plot(x, y, color=BLUE)
    axes.axhline(1.0, color=GREY, lw=0.8)
    for place in LOSSES:
        axes.axvline(place, color=GREY, lw=0.7, ls=":")
    mirror = float(mp.findroot(lambda at: float(total(float(at))[0]) - 1.0, 9.0))
    axes.plot([root()], [1.0], "o", color=GREEN, ms=6)
    axes.plot([mirror], [1.0], "x", color=ORANGE, ms=7, mew=2)
    axes.text(-4.2, 1.1, "the root", color=GREEN, ha="right")
    axes.text(8.9, 1.15, "solves it, but\nis not the root", color=ORANGE)
    axes.text(-4.2, 3.5, "bracket", color=BLUE, ha="right")
    axes.text(LOSSES[-1] + 0.2, 0.1, "poles", color=GREY)
    axes.set(xlim=(-9, 16), ylim=(0, 4), xlabel="x", title="sum of the weights")


def straightened(axes):
    """Draw S and g between the ends of the bracket, each scaled to pass 1 at the root."""
    low, high = LOSSES[0] - 2.0 * np.sqrt(LOSSES.size) / ETA, LOSSES[0] - 2.0 / ETA
    x = np.linspace(low, high, 200)
    axes.plot(x, total(x), color=BLUE, label="sum of the weights, S")
    axes.plot(x, 1.0 / np.sqrt(total(x)), color=GREEN, label="its straightened form, 1/sqrt(S)")
    axes.axhline(1.0, color=GREY, lw=0.8)
    axes.plot([root()], [1.0], "o", color=GREEN, ms=5)
    # Newton's first step from the left end, on S: a tangent that leads far beyond the pole.
    slope = (ETA * total_cubed(low)).item()
    reach = np.array([low, high])
    value = total(low).item()
    axes.plot(reach, value + slope * (reach - low), color=BLUE, lw=0.9, ls="--")
    a = float(-slope / 2.0 * value**-1.5)
    axes.plot(reach, value**-0.5 + a * (reach - low), color=GREEN, lw=0.9, ls="--")
    axes.set(xlim=(low, high), ylim=(0, 2), xlabel="x", title="inside the bracket, with tangents")
    axes.locator_params(axis="x", nbins=5)
    axes.legend(loc="upper left")


def total_cubed(x):
    """Return sum_i w_i^(3/2), so that eta times it is the derivative of the sum."""
    gaps = LOSSES[:, None] - np.atleast_1d(x)
    return ((2.0 / (ETA * gaps)) ** 3).sum(axis=0)


def errors(method, passes=9):
    """Return the relative error of y_min = min L - x after each pass, from the right end."""
    mp.mp.dps = 120
    L = [mp.mpf(value) for value in LOSSES.tolist()]
    c = mp.mpf(ETA) ** 2 / 4
    exact = mp.findroot(lambda x: sum((v - x) ** -2 for v in L) - c, mp.mpf(root()))
    x = L[0] - 1 / mp.sqrt(c)
    found = []
    for _ in range(passes):
        S2, S3, S4, S5 = (sum((v - x) ** -k for v in L) for k in (2, 3, 4, 5))
        if method == "S":
            x -= (S2 - c) / (2 * S3)
        else:
            a, b, e = S3 / S2, S4 / S2, S5 / S2
            d = (1 - mp.sqrt(S2 / c)) / a
            A = mp.mpf(3) / 2 * (a * a - b)
            B = -2 * e + mp.mpf(9) / 2 * a * b - mp.mpf(5) / 2 * a**3
            more = d * (A / a + d * (2 * (A / a) ** 2 + B / a)) if method == "series" else 0
            x += d * (1 + more)
        found.append(max(float(abs(x - exact) / (L[0] - exact)), 1e-60))
    return np.array(found)


def passes(axes):
    """Draw the error left after each pass over the arms."""
    labels = {
        "S": ("Newton on S", BLUE, "s", (5.0, 1e-11)),
        "g": ("Newton on 1/sqrt(S)", ORANGE, "^", (1.2, 1e-29)),
        "series": ("with two\nmore orders", GREEN, "o", (1.0, 1e-23)),
    }
    for method, (label, colour, marker, place) in labels.items():
        left = errors(method)
        number = np.arange(1, left.size + 1)
        seen = left > 1e-40
        axes.semilogy(number[seen], left[seen], marker + "-", color=colour, ms=4)
        axes.text(*place, label, color=colour)
    axes.axhline(2.0**-53, color=GREY, lw=0.8)
    axes.text(8.2, 2.0**-50, "rounding", color=GREY, ha="right")
    axes.set(xlabel="passes over the arms", title="relative error", ylim=(1e-32, 2))
    axes.set_xlim(0.7, 8.3)


def powers(axes):
    """Draw the weights of four arms for every alpha."""
    alphas = np.linspace(0, 1, 101)
    w = np.array([bw.omd.weights(LOSSES, ETA, alpha) for alpha in alphas])
    styles = zip((BLUE, GREEN, ORANGE, GREY), ("-", "--", "-.", ":"), strict=True)
    for i, (colour, style) in enumerate(styles):
        axes.semilogy(alphas, w[:, i], style, color=colour, label=f"loss {LOSSES[i]:g}")
    axes.axvline(0.5, color=GREY, lw=0.8)
    axes.set(xlabel="alpha", title="weights of four arms", xlim=(0, 1), ylim=(1e-3, 1))
    axes.legend(loc="lower left")


def rigid(axes):
    """Draw v_i of five arms over some late rounds: only a play of another arm changes distances."""
    rng = np.random.default_rng(5)
    first, rounds = 20_000, 3_000
    L = np.array([0.0, 2400.0, 2900.0, 3300.0, 4200.0])
    v = np.zeros((rounds, L.size))
    for k in range(rounds):
        w = bw.omd.weights(L, 2.0 / np.sqrt(first + k))
        v[k] = w**-0.5
        arm = rng.choice(L.size, p=w / w.sum())
        L[arm] += (rng.random() < (0.4375 if arm == 0 else 0.5625)) / w[arm]
    at = first + np.arange(rounds)
    axes.plot(at, v[:, 1:], color=BLUE, lw=1.2)
    axes.plot(at, v[:, 0], color=GREEN)
    axes.text(first + 60, 1.8, "the leader", color=GREEN)
    axes.text(first + 60, v[0, 4] + 0.8, "the others", color=BLUE)
    axes.set(xlabel="round", title="distance v of five arms", xlim=(first, first + rounds))
    axes.set_ylim(0, v.max() + 3)
    axes.locator_params(axis="x", nbins=4)


def others(axes):
    """Draw how often another arm is played, from the expected estimates of a gap of 1/8."""
    rounds = np.geomspace(1e4, 1e7, 60)
    styles = zip((8, 32, 128), (GREEN, BLUE, ORANGE), strict=True)
    for n_arms, colour in styles:
        W = []
        for t in rounds:
            L = np.full(n_arms, t / 8)
            L[0] = 0.0
            W.append(bw.omd.weights(L, 2.0 / np.sqrt(t))[1:].sum())
        axes.loglog(rounds, W, color=colour)
        axes.text(1.1e7, W[-1], f"K = {n_arms}", color=colour, va="center")
    axes.set(xlabel="round", title="share of rounds with another arm", xlim=(1e4, 4.5e7))


def families(axes, means, title):
    """Draw L_i - x of the near and far arms of reduced variance, and the limit between them."""
    rng = np.random.default_rng(7)
    first, rounds = 20_000, 3_000
    L = np.array([0.0, 1500.0, 2300.0, 2800.0, 3600.0])
    y = np.zeros((rounds, L.size))
    for k in range(rounds):
        eta = 4.0 / np.sqrt(first + k)
        w = bw.omd.weights(L, eta)
        y[k] = 2.0 / (eta * np.sqrt(w))
        near = w >= eta * eta
        arm = rng.choice(L.size, p=w / w.sum())
        loss = rng.random() < means[min(arm, 1)]
        L += 0.5 * near
        L[arm] += (loss - 0.5 * near[arm]) / w[arm]
    at = first + np.arange(rounds)
    axes.plot(at, at / 8, "--", color=ORANGE)
    axes.plot(at, y[:, 1:], color=BLUE, lw=1.2)
    axes.plot(at, y[:, 0], color=GREEN)
    axes.text(first + 60, 150, "the leader", color=GREEN)
    axes.text(first + 60, y[0, 4] + 100, "the others", color=BLUE)
    axes.text(first + 2400, 1000, "limit", color=ORANGE, ha="center")
    axes.plot([first + 2400] * 2, [1300, (first + 2400) / 8], color=ORANGE, lw=0.7)
    axes.set(xlabel="round", title=title, xlim=(first, first + rounds), ylim=(0, 5000))
    axes.locator_params(axis="x", nbins=4)


def crossing(axes):
    """Draw them where the leader loses in 7 of 16 rounds."""
    families(axes, (0.4375, 0.5625), "distances L - x, mean loss 0.44")


def sliding(axes):
    """Draw them where it hardly loses."""
    families(axes, (0.1, 0.4), "mean loss 0.1")


def main() -> None:
    """Draw and save."""
    with plotting.style(), matplotlib.rc_context({"svg.hashsalt": "bothworlds"}):
        for name, left, right in (
            ("solver_equation", two_roots, straightened),
            ("solver_steps", passes, powers),
            ("solver_leading", rigid, others),
            ("solver_families", crossing, sliding),
        ):
            figure, grid = plotting.panels(1, 2, 3.0)
            left(grid[0, 0])
            right(grid[0, 1])
            plotting.save(figure, IMAGES / f"{name}.svg")


if __name__ == "__main__":
    main()
