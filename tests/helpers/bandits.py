"""Every policy and environment of the registry, and the content of bandits."""

import bothworlds as bw
from bothworlds import registry


def registered(horizon):
    """Return every variant of every policy of the package."""
    return [entry.made(variant, horizon) for entry, variant in registry.words().values()]


def registered_environments():
    """Return the example of every environment of the package."""
    names = vars(bw.environments)
    return [eval(regime.example, dict(names)) for regime in registry.ENVIRONMENTS.values()]


POLICIES = [*registered(10_000), bw.TsallisINF(alpha=0.3)]


def content(bandit):
    """Everything a bandit is, as comparable values; when it decided is no part of it."""
    document = bandit._document()
    segments = [each["bandit"] for each in document.get("segments", [])]
    for side in document.get("sides", segments if "segments" in document else [document]):
        for entry in side["pending"]:
            del entry["time"]
    return document
