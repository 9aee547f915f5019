"""Route requests to language models through LiteLLM, and learn which one is worth its price.

Two models pretend to answer: "small" is cheap and right half the time, "large" costs seventeen
times as much and is nearly always right. A checker scores every answer at once; LiteLLM's own
logger knows price and time. The loss weighs the three: 0.8 quality, 0.15 price, 0.05 time.

What to learn here: `ModelRouter` sends a request where a bandit says, and learns when LiteLLM logs
its outcome; `available=` leaves out a model that cannot answer; a failure counts as the worst.

Needs no network and no key. Prints how often each model was asked.
"""

import os
import random
import sys
import time
from pathlib import Path

import bothworlds as bw

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # LiteLLM's own table of prices, not fetched

from bothworlds.interop.litellm import ModelRouter, RequestLoss

MODELS = {
    "small": {"model": "openai/gpt-4o-mini"},
    "large": {"model": "openai/gpt-4o"},
}
RIGHT = {"small": 0.5, "large": 0.97}
REQUESTS = 100


def quality(response):
    """Return whether an answer is right."""
    return float("right" in response.choices[0].message.content)


def main():
    random.seed(1)
    bandit = bw.Bandit(bw.TsallisINF(), arms=list(MODELS), seed=1)
    loss = RequestLoss(quality=0.8, price=0.15, seconds=0.05, most_price=0.001, most_seconds=60)
    # What the models would say; a real program leaves out mock_response.
    models = {name: dict(settings) for name, settings in MODELS.items()}
    router = ModelRouter(models, bandit, loss=loss, quality=quality)
    asked = dict.fromkeys(MODELS, 0)
    for n in range(REQUESTS):
        luck = random.random()
        for name in MODELS:
            router.models[name]["mock_response"] = "right" if luck < RIGHT[name] else "wrong"
        # Now and then the large one is down for maintenance.
        response = router.completion(
            [{"role": "user", "content": f"Question {n}"}],
            available=["small"] if n % 50 == 49 else None,
        )
        asked["large" if response.model.endswith("gpt-4o") else "small"] += 1
    while router.waiting:
        time.sleep(0.01)  # LiteLLM logs in a thread of its own
    router.close()
    print(f"{'model':8}{'asked':>7}{'right':>8}{'probability now':>18}")
    shares = bandit.probabilities()
    for name in MODELS:
        print(f"{name:8}{asked[name]:7}{RIGHT[name]:8.0%}{shares[name]:18.0%}")


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output").mkdir(parents=True, exist_ok=True)
    main()
