"""Feature flags that learn: OpenFeature on the decision service.

A shop shows one of three headlines. The program asks OpenFeature for the flag "headline" and tracks
what a visitor bought; it knows nothing of bandits. Behind the flag is an experiment of the decision
service, which learns from the tracked events.

What to learn here: an experiment is a flag and its arms are the variants; the targeting key says
whose purchase it was; with any other OpenFeature SDK, the OFREP provider does the same.

Starts a service on a store of its own; prints how often each headline was shown.
"""

import random
import sys
from pathlib import Path

import openfeature.api
from openfeature.evaluation_context import EvaluationContext
from openfeature.track import TrackingEventDetails

from bothworlds.client import Client
from bothworlds.client.openfeature import BothworldsProvider
from bothworlds.serve.background import background

HEADLINES = {"plain": "Shoes.", "question": "New shoes?", "number": "7 new shoes"}
BUYS = {"Shoes.": 0.1, "New shoes?": 0.25, "7 new shoes": 0.7}
VISITORS = 800


def shop(visitors):
    """Show every visitor a headline, and track who buys."""
    flags = openfeature.api.get_client()
    for n in range(visitors):
        visitor = EvaluationContext(f"visitor {n}")
        headline = flags.get_string_value("headline", "Shoes.", visitor)
        bought = random.random() < BUYS[headline]
        flags.track("headline", visitor, TrackingEventDetails(float(bought)))


def main(folder):
    random.seed(1)
    with background(str(folder / "feature_flags.db")) as url, Client(url, timeout=10) as service:
        service.create("headline", HEADLINES)
        openfeature.api.set_provider(BothworldsProvider(url, timeout=10))
        shop(VISITORS)
        openfeature.api.shutdown()  # sends what is still to be told
        print(f"{'headline':12}{'shown':>8}{'bought':>9}{'shown next with':>18}")
        for arm in service.experiment("headline")["arms"]:
            bought = 1.0 - (arm["mean_loss"] or 0.0)
            print(f"{arm['name']:12}{arm['decided']:8}{bought:9.0%}{arm['probability']:18.0%}")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
