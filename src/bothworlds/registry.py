"""Registry of the policies: where each one lives, its shell words, labels, colours and lines.

A policy is described here once; shell, figures, tables, state files and the names of the package
are derived from it.  Nothing is imported before it is asked for, so that a command can list the
policies without loading Numba.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Variant(NamedTuple):
    """A configuration of a policy that has a name and a look of its own.

    Parameters
    ----------
    word : str
        Its name in a shell.
    label : str
        Its name in tables and figures: the paper's, if the paper has it.
    about : str
        A line of help.
    colour : str
        Hexadecimal. Those of Okabe and Ito are told apart with any colour vision.
    line : str or tuple
        A dash pattern of matplotlib.
    marker : str
        A marker of matplotlib.
    width : float
        Of the line, in points.
    preset : mapping
        The arguments that make it.
    """

    word: str
    label: str
    about: str
    colour: str
    line: Any
    marker: str
    width: float = 1.3
    preset: Mapping[str, Any] = {}


class Entry(NamedTuple):
    """A policy of the package.

    Parameters
    ----------
    name : str
        Its class.
    module : str
        Where the class is defined.
    variants : tuple of Variant
        Where there is one, it stands for every configuration; of several each stands for its own.
    """

    name: str
    module: str
    variants: tuple[Variant, ...]

    def load(self) -> Any:
        """Return the class."""
        return getattr(import_module(self.module), self.name)

    def made(self, variant: Variant, horizon: int) -> Any:
        """Return a variant of the policy; ``horizon`` is told to those that must know it."""
        kind = self.load()
        told = {"horizon": max(horizon, 2)} if kind.needs_horizon else {}
        return kind(**variant.preset, **told)


POLICIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "TsallisINF",
            "bothworlds.policies.tsallis_inf",
            (
                Variant(
                    "tsallis",
                    "Tsallis-INF (RV)",
                    "Tsallis-INF, reduced-variance estimates",
                    "#0072B2",
                    "-",
                    "o",
                    2.0,
                ),
                Variant(
                    "tsallis-iw",
                    "Tsallis-INF (IW)",
                    "Tsallis-INF, importance weighting",
                    "#56B4E9",
                    (0, (5, 1.5)),
                    "s",
                    1.7,
                    {"estimator": "iw"},
                ),
            ),
        ),
        Entry(
            "ThompsonSampling",
            "bothworlds.policies.thompson",
            (
                Variant(
                    "thompson",
                    "Thompson sampling",
                    "Thompson sampling",
                    "#009E73",
                    (0, (6, 1.5, 1.2, 1.5)),
                    "^",
                ),
            ),
        ),
        Entry(
            "UCB1",
            "bothworlds.policies.ucb1",
            (Variant("ucb1", "UCB1", "UCB1", "#D55E00", (0, (1.2, 1.2)), "v"),),
        ),
        Entry(
            "Exp3",
            "bothworlds.policies.exp3",
            (Variant("exp3", "EXP3", "EXP3", "#E69F00", (0, (9, 2)), "D"),),
        ),
        Entry(
            "Exp3PlusPlus",
            "bothworlds.policies.exp3plusplus",
            (
                Variant(
                    "exp3++",
                    "EXP3++",
                    "EXP3++",
                    "#CC79A7",
                    (0, (4, 1.2, 1.2, 1.2, 1.2, 1.2)),
                    "P",
                ),
            ),
        ),
        Entry(
            "Broad",
            "bothworlds.policies.broad",
            (
                Variant(
                    "broad",
                    "BROAD",
                    "BROAD, which must know the horizon",
                    "#3B3B3B",
                    (0, (2.5, 1.2)),
                    "X",
                ),
            ),
        ),
        Entry(
            "KLUCB",
            "bothworlds.policies.klucb",
            (Variant("kl-ucb", "KL-UCB", "KL-UCB", "#882255", (0, (1.2, 2.4)), "<"),),
        ),
        Entry(
            "Floor",
            "bothworlds.policies.floor",
            (
                Variant(
                    "floor",
                    "Tsallis-INF, floor",
                    "Tsallis-INF above a floor, for sound intervals",
                    "#44AA99",
                    (0, (7, 1.2, 1.2, 1.2, 1.2, 1.2)),
                    ">",
                ),
            ),
        ),
        Entry(
            "TsallisINFV",
            "bothworlds.policies.tsallis_inf_v",
            (
                Variant(
                    "tsallis-v",
                    "Tsallis-INF (V)",
                    "Tsallis-INF that adapts to the variance, for low rates",
                    "#332288",
                    (0, (6, 1.2)),
                    "h",
                    1.7,
                ),
                Variant(
                    "tsallis-v-residual",
                    "Tsallis-INF (V, residual)",
                    "the same at the residual rate, for many arms",
                    "#AA4499",
                    (0, (3, 1.2, 1.2, 1.2)),
                    "H",
                    1.5,
                    {"rate": "residual"},
                ),
            ),
        ),
        Entry(
            "LBINFV",
            "bothworlds.policies.lbinfv",
            (
                Variant(
                    "lbinfv",
                    "LB-INF-V",
                    "LB-INF-V, which adapts to the variance; must know the horizon",
                    "#661100",
                    (0, (5, 1.2, 1.2, 1.2)),
                    "p",
                ),
            ),
        ),
        Entry(
            "HTINF",
            "bothworlds.policies.htinf",
            (
                Variant(
                    "htinf",
                    "HTINF",
                    "HTINF, for losses without bounds; scale 1 unless given",
                    "#117733",
                    (0, (8, 1.2, 2.5, 1.2)),
                    "*",
                    1.5,
                    {"scale": 1.0},
                ),
            ),
        ),
        Entry(
            "AdaTINF",
            "bothworlds.policies.adatinf",
            (
                Variant(
                    "adatinf",
                    "AdaTINF",
                    "AdaTINF, for losses without bounds; must know the horizon",
                    "#999933",
                    (0, (2.5, 1.5)),
                    "d",
                ),
            ),
        ),
        Entry(
            "Restarted",
            "bothworlds.policies.restarted",
            (
                Variant(
                    "restarted",
                    "Tsallis-INF, restarted",
                    "Tsallis-INF that begins anew every 1000 rounds",
                    "#CC6677",
                    (0, (5, 1.2, 2.5, 1.2)),
                    "8",
                ),
            ),
        ),
        Entry(
            "Discounted",
            "bothworlds.policies.discounted",
            (
                Variant(
                    "discounted",
                    "Tsallis-INF, discounted",
                    "Tsallis-INF whose old estimates fade",
                    "#7F5539",
                    (0, (4, 1.5, 1.2, 1.5)),
                    "+",
                ),
            ),
        ),
        Entry(
            "Alarmed",
            "bothworlds.policies.alarmed",
            (
                Variant(
                    "alarmed",
                    "Tsallis-INF, alarmed",
                    "Tsallis-INF that begins anew when an arm's losses change",
                    "#B2182B",
                    (0, (10, 1.5, 1.2, 1.5)),
                    "x",
                ),
            ),
        ),
        Entry(
            "Uniform",
            "bothworlds.policies.uniform",
            (
                Variant(
                    "uniform", "Uniform", "every arm equally often", "#8C8C8C", (0, (1, 3)), "_"
                ),
            ),
        ),
    )
}
"""Every policy by the name of its class, in the order of the paper's figures."""


def words() -> dict[str, tuple[Entry, Variant]]:
    """Return the policies and their variants by the words of a shell.

    Examples
    --------
    >>> entry, variant = words()["tsallis-iw"]
    >>> entry.made(variant, horizon=1000)
    TsallisINF(estimator='iw')
    """
    return {
        variant.word: (entry, variant) for entry in POLICIES.values() for variant in entry.variants
    }


def variants() -> list[Variant]:
    """Return all variants of all policies."""
    return [variant for _, variant in words().values()]


def variant_of(printed: str) -> Variant | None:
    """Return the variant that a printed constructor is an instance of, if there is one.

    Examples
    --------
    >>> variant_of("UCB1(c=2.0)").label, variant_of("TsallisINF(estimator='iw')").label
    ('UCB1', 'Tsallis-INF (IW)')
    >>> variant_of("TsallisINF(alpha=0.7)"), variant_of("Mine()")
    (None, None)
    """
    called = re.match(r"(\w+)\(", printed)
    entry = POLICIES.get(called.group(1)) if called else None
    if entry is None:
        return None
    if len(entry.variants) == 1:
        return entry.variants[0]
    for variant in entry.variants:
        given = ", ".join(f"{name}={value!r}" for name, value in variant.preset.items())
        if printed == f"{entry.name}({given})":
            return variant
    return None
