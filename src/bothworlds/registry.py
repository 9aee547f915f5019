"""Registry of policies and environments: homes, shell words, labels, colours and lines.

Each is described here once; shell, figures, tables, state files, the names of the package, the
README and the reference are derived from it.  Nothing is imported before it is asked for,
so that a command can list the policies without loading Numba.
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
        """Return a variant of the policy; ``horizon`` is given to those that must know it."""
        kind = self.load()
        told = {"horizon": max(horizon, 2)} if kind.traits.needs_horizon else {}
        return kind(**variant.preset, **told)


class World(NamedTuple):
    """A name of an environment in a shell, where arms and gap are options of their own.

    Parameters
    ----------
    about : str
        A line of help.
    home : str
        The class or constructor in `bothworlds.environments`; the environment's class by default.
    preset : mapping
        Arguments the name stands for.
    base : str
        The constructor of the environment that it changes, if it changes another.
    usual : mapping
        Arguments that are given if the user does not set them.
    """

    about: str
    home: str = ""
    preset: Mapping[str, Any] = {}
    base: str = ""
    usual: Mapping[str, Any] = {}


class Regime(NamedTuple):
    """An environment of the package.

    Parameters
    ----------
    example : str
        A call that makes one; tests check this environment, print it and read it back.
    words : mapping of str to World
        Its names in a shell.
    members : str
        The methods that the reference describes, between commas.
    """

    example: str
    words: Mapping[str, World] = {}
    members: str = ""

    @property
    def name(self) -> str:
        """Its class."""
        return re.split(r"\W", self.example, maxsplit=1)[0]


ENVIRONMENTS: dict[str, Regime] = {
    regime.name: regime
    for regime in (
        Regime(
            "Stochastic([0.25, 1 / 3, 0.5], noise='beta', spread=0.25)",
            {"stochastic": World("fixed means (1-gap)/2 and (1+gap)/2", "Stochastic.gap")},
            "gap",
        ),
        Regime(
            "Switching(8, 1 / 8, factor=1.5, first_level='low')",
            {"switching": World("the paper's: fixed gap, jumping level")},
            "switches",
        ),
        Regime("Constrained([0.0, 0.25], [0.5, 0.25, 0.75])"),
        Regime(
            "Piecewise([[0.25, 0.5], [0.5, 0.25]], starts=[1, 100], comparator='fixed')",
            {"piecewise": World("another arm is best in every block of rounds", "Piecewise.gap")},
            "gap, changes",
        ),
        Regime("Adversarial([[0.0, 1.0], [0.25, 0.5]])"),
        Regime(
            "Adaptive(4, 'mirage', gap=0.25)",
            {
                "betray": World("the level jumps when trusted", preset={"strategy": "betray"}),
                "mirage": World("the level follows the last arm", preset={"strategy": "mirage"}),
                "punish": World("the last arm is the worst", preset={"strategy": "punish"}),
            },
        ),
        Regime("Corrupted(Switching(4, 0.25), budget=100, attack='swap', targets=[2, 1])"),
        Regime(
            "Contaminated(Stochastic.gap(2, 0.25), tau=1000)",
            {
                "contaminated": World(
                    "stochastic, with some losses replaced", base="Stochastic.gap"
                ),
            },
        ),
        Regime(
            "Delayed(Switching(2, 0.25), delay=[7, GeometricDelay(50)], lost=0.125)",
            {
                "delayed": World(
                    "stochastic, with feedback 100 rounds late",
                    base="Stochastic.gap",
                    usual={"delay": 100},
                ),
            },
        ),
        Regime(
            "HeavyTailed([1.0, 2.5], noise='pareto', shape=3.5, shuffle=False)",
            {
                "heavy-tailed": World(
                    "losses without bounds, for htinf and adatinf: means 1 and 1 + gap",
                    "HeavyTailed.gap",
                ),
            },
        ),
        Regime(
            "AdversarialWithGap(3, 0.25, tau=100)",
            {"waves": World("a best arm that leads in ever longer waves")},
            "turns",
        ),
        Regime("Utilities([0.9, 0.5, 0.4])"),
        Regime("Preferences([[0.5, 0.75], [0.25, 0.5]])", members="winner"),
        Regime("Advised(2, [[0.25, 0.5], [0.5, 0.25]], [[0, 1], [1, 1]])", members="values"),
    )
}
"""Every environment by the name of its class, in the order of the reference."""


def _policy(name: str, module: str, *variants: Variant) -> Entry:
    return Entry(name, f"bothworlds.policies.{module}", variants)


# fmt: off
POLICIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        _policy("TsallisINF", "tsallis_inf",
            Variant("tsallis", "Tsallis-INF (RV)", "Tsallis-INF, reduced-variance estimates",
                    "#0072B2", "-", "o", 2.0),
            Variant("tsallis-iw", "Tsallis-INF (IW)", "Tsallis-INF, importance weighting",
                    "#56B4E9", (0, (5, 1.5)), "s", 1.7, {"estimator": "iw"}),
            Variant("tsallis-soft", "Tsallis-INF (soft)",
                    "Tsallis-INF, soft baselines for all arms", "#8DB600", (0, (7, 1.2, 1.2, 1.2)),
                    "|", 1.5, {"estimator": "soft"})),
        _policy("AllWorlds", "allworlds",
            Variant("allworlds", "AllWorlds", "one policy for unknown environments", "#E7298A",
                    (0, (12, 1)), "1", 2.0)),
        _policy("ThompsonSampling", "thompson",
            Variant("thompson", "Thompson sampling", "Thompson sampling", "#009E73",
                    (0, (6, 1.5, 1.2, 1.5)), "^")),
        _policy("UCB1", "ucb1",
            Variant("ucb1", "UCB1", "UCB1", "#D55E00", (0, (1.2, 1.2)), "v")),
        _policy("Exp3", "exp3",
            Variant("exp3", "EXP3", "EXP3", "#E69F00", (0, (9, 2)), "D")),
        _policy("Exp3PlusPlus", "exp3plusplus",
            Variant("exp3++", "EXP3++", "EXP3++", "#CC79A7", (0, (4, 1.2, 1.2, 1.2, 1.2, 1.2)),
                    "P")),
        _policy("Broad", "broad",
            Variant("broad", "BROAD", "BROAD, which must know the horizon", "#3B3B3B",
                    (0, (2.5, 1.2)), "X")),
        _policy("KLUCB", "klucb",
            Variant("kl-ucb", "KL-UCB", "KL-UCB", "#882255", (0, (1.2, 2.4)), "<")),
        _policy("IMED", "imed",
            Variant("imed", "IMED", "IMED", "#5D3FD3", (0, (3, 1, 1, 1)), "2")),
        _policy("FTPL", "ftpl",
            Variant("ftpl", "FTPL (Fréchet)", "follow the perturbed leader, Fréchet perturbations",
                    "#01665E", (0, (9, 1, 1, 1, 1, 1)), ","),
            Variant("ftpl-pareto", "FTPL (Pareto)",
                    "follow the perturbed leader, Pareto perturbations", "#8C510A",
                    (0, (9, 1, 3, 1)), "$p$", preset={"perturbation": "pareto"})),
        _policy("DiscountedUCB", "discounted_ucb",
            Variant("discounted-ucb", "Discounted UCB", "UCB whose old observations fade",
                    "#A6761D", (0, (2, 1, 1, 1)), "3")),
        _policy("SlidingWindowThompson", "sliding_window_thompson",
            Variant("sw-thompson", "Thompson sampling, window",
                    "Thompson sampling on the last 1000 observations", "#66A61E",
                    (0, (6, 1, 1, 1, 1, 1)), "4")),
        _policy("GLRKLUCB", "glr_klucb",
            Variant("glr-kl-ucb", "GLR-klUCB",
                    "KL-UCB that restarts at a change; must know the horizon", "#7570B3",
                    (0, (8, 1, 1, 1)), ".")),
        _policy("Floor", "floor",
            Variant("floor", "Tsallis-INF, floor", "Tsallis-INF above a floor, for sound intervals",
                    "#44AA99", (0, (7, 1.2, 1.2, 1.2, 1.2, 1.2)), ">")),
        _policy("TsallisINFV", "tsallis_inf_v",
            Variant("tsallis-v", "Tsallis-INF (V)",
                    "Tsallis-INF that adapts to the variance, for low rates", "#332288",
                    (0, (6, 1.2)), "h", 1.7),
            Variant("tsallis-v-residual", "Tsallis-INF (V, residual)",
                    "the same at the residual rate, for many arms", "#AA4499",
                    (0, (3, 1.2, 1.2, 1.2)), "H", 1.5, {"rate": "residual"})),
        _policy("LBINFV", "lbinfv",
            Variant("lbinfv", "LB-INF-V",
                    "LB-INF-V, which adapts to the variance; must know the horizon", "#661100",
                    (0, (5, 1.2, 1.2, 1.2)), "p")),
        _policy("HTINF", "htinf",
            Variant("htinf", "HTINF", "HTINF, for losses without bounds; scale 1 unless given",
                    "#117733", (0, (8, 1.2, 2.5, 1.2)), "*", 1.5, {"scale": 1.0})),
        _policy("AdaTINF", "adatinf",
            Variant("adatinf", "AdaTINF",
                    "AdaTINF, for losses without bounds; must know the horizon", "#999933",
                    (0, (2.5, 1.5)), "d")),
        _policy("Restarted", "restarted",
            Variant("restarted", "Tsallis-INF, restarted",
                    "Tsallis-INF that restarts every 1000 rounds", "#CC6677",
                    (0, (5, 1.2, 2.5, 1.2)), "8")),
        _policy("Discounted", "discounted",
            Variant("discounted", "Tsallis-INF, discounted", "Tsallis-INF whose old estimates fade",
                    "#7F5539", (0, (4, 1.5, 1.2, 1.5)), "+")),
        _policy("Alarmed", "alarmed",
            Variant("alarmed", "Tsallis-INF, alarmed",
                    "Tsallis-INF that restarts when an arm's losses change", "#B2182B",
                    (0, (10, 1.5, 1.2, 1.5)), "x")),
        _policy("Uniform", "uniform",
            Variant("uniform", "Uniform", "every arm equally often", "#8C8C8C", (0, (1, 3)), "_")),
    )
}
# fmt: on
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


def worlds() -> dict[str, World]:
    """Return the environments by the words of a shell, with their constructors.

    Examples
    --------
    >>> worlds()["betray"].home
    'Adaptive'
    """
    return {
        word: world._replace(home=world.home or regime.name)
        for regime in ENVIRONMENTS.values()
        for word, world in regime.words.items()
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
