"""Numbers of kernels that `bothworlds warm-up` compiles: data, printed by a script.

``python tests/helpers/kernels.py`` prints the rows; a test compares those of common policies.
"""

USES = ("Bandit", "DuelingBandit", "simulate", "serve")
"""Uses in their order: the later ones count what a bandit does not need."""
KERNELS = {
    "Tsallis-INF (RV)": (26, 4, 24, 7),
    "Tsallis-INF (IW)": (26, 4, 22, 7),
    "Tsallis-INF (soft)": (17, 0, 4, 8),
    "AllWorlds": (17, 0, 4, 4),
    "Thompson sampling": (10, 0, 4, 0),
    "UCB1": (13, 0, 4, 0),
    "EXP3": (15, 0, 6, 7),
    "EXP3++": (15, 0, 6, 9),
    "BROAD": (14, 0, 6, 0),
    "KL-UCB": (13, 0, 4, 0),
    "IMED": (14, 0, 4, 0),
    "FTPL (Fréchet)": (10, 0, 10, 0),
    "FTPL (Pareto)": (10, 0, 10, 0),
    "Discounted UCB": (13, 0, 4, 0),
    "Thompson sampling, window": (10, 0, 4, 0),
    "GLR-klUCB": (13, 0, 10, 0),
    "Tsallis-INF, floor": (24, 0, 14, 7),
    "Tsallis-INF (V)": (16, 0, 4, 8),
    "Tsallis-INF (V, residual)": (25, 0, 14, 8),
    "LB-INF-V": (18, 0, 10, 0),
    "HTINF": (11, 0, 4, 9),
    "AdaTINF": (10, 0, 4, 0),
    "Tsallis-INF, restarted": (16, 0, 4, 9),
    "Tsallis-INF, discounted": (16, 0, 4, 9),
    "Tsallis-INF, alarmed": (16, 0, 4, 9),
    "Uniform": (13, 0, 4, 0),
}
"""Kernels by the label of a policy and use, from an empty cache; 0 where nothing is added."""
