"""Play on from thousands of crafted snapshots; a process of its own, which must not crash or hang.

Every word of what a tile keeps is changed in turn (of the long arrays, a random sample), to
numbers that make a careless kernel read outside its arrays or loop for ever.  Prints, for every
case, how many snapshots were refused and how many were played on.
"""

import io
import sys
from dataclasses import replace

import numpy as np

import bothworlds as bw
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.shard import cut
from bothworlds.engine.tile import run_job
from bothworlds.errors import BothworldsError

NUMBERS = np.array([np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, 1e300, -1e300, 1e15, 1e-300])
WORDS = np.array([-1, 0, 1, 7, 10**6, 10**12, -(2**63), 2**63 - 1])
WORLD = bw.environments.Stochastic.gap(4, 0.25)
FAR = bw.environments.Stochastic.gap(4, 0.9)
MANY = bw.environments.Stochastic.gap(600, 0.25)
LATE = 2**15 - 10
"""A round in which lanes are in leader mode, some rounds before they enter, leave and recentre."""


def level(t, last):
    return 0.1 if last == 0 else 0.2


CASES = {
    "rv": (bw.TsallisINF(), WORLD),
    "alpha 0.7": (bw.TsallisINF(alpha=0.7), WORLD),
    "exp3++": (bw.Exp3PlusPlus(), WORLD),
    "broad": (bw.Broad(horizon=2000), WORLD),
    "ucb1": (bw.UCB1(), WORLD),
    "kl-ucb": (bw.KLUCB(), WORLD),
    "thompson": (bw.ThompsonSampling(), WORLD),
    "duels": (bw.Sparring(), bw.environments.Utilities([0.9, 0.5, 0.4])),
    "corrupted": (bw.UCB1(), bw.environments.Corrupted(WORLD, 50.0, "discourage")),
    "betray": (bw.UCB1(), bw.environments.Adaptive(4)),
    "level": (bw.UCB1(), bw.environments.Constrained([0.0, 0.3], level=level)),
    "exp3, leading": (bw.Exp3(), FAR, LATE),
    "exp3++, leading": (bw.Exp3PlusPlus(), FAR, LATE),
    "broad, leading": (bw.Broad(horizon=2000), FAR, LATE),
    "alpha 0.3, leading": (bw.TsallisINF(alpha=0.3), FAR, LATE),
    "alpha 0.7, leading": (bw.TsallisINF(alpha=0.7, estimator="iw"), FAR, LATE),
    "many arms": (bw.TsallisINF(), MANY),
    "many arms, iw": (bw.TsallisINF(estimator="iw"), MANY),
}


def packed(horizon, arrays):
    """Return a snapshot that is not compressed: to compress it takes longer than to play on."""
    stream = io.BytesIO()
    named = {f"array{number}": array for number, array in enumerate(arrays)}
    np.savez(stream, horizon=np.int64(horizon), **named)
    return stream.getvalue()


def crafted(saved, wanted, rng):
    """Yield the snapshot with one number or word changed, as many as wanted or there are."""
    with np.load(io.BytesIO(saved)) as content:
        arrays = [content[f"array{n}"] for n in range(len(content.files) - 1)]
        horizon = int(content["horizon"])
    places = [(n, i) for n, array in enumerate(arrays) for i in range(array.size)]
    if len(places) > wanted:
        # The head of every array describes the rest; of the rest, some.
        head = [place for place in places if place[1] < 30]
        some = rng.choice(len(places), max(0, wanted - len(head)), replace=False)
        places = head + [places[i] for i in sorted(some)]
    for n, i in places:
        kinds = [WORDS] if arrays[n].dtype.kind == "i" else [NUMBERS, WORDS.view(np.float64)]
        values = rng.choice(np.concatenate(kinds), 2, replace=False)
        for value in values:
            before = arrays[n][i]
            arrays[n][i] = value
            yield packed(horizon, arrays)
            arrays[n][i] = before
    for wrong in (-1, 0, horizon + 1, 2**62):
        yield packed(wrong, arrays)


def main(names, wanted):
    for name in names or CASES:
        policy, world, *late = CASES[name]
        rounds = late[0] if late else 60
        rng = np.random.default_rng([len(name), ord(name[0])])
        curve = Curve("P", policy, world, (rounds,), 1 if world is MANY else 2, 0)
        (job,) = cut(curve, [(0, curve.repetitions)], keep=True)
        earlier = run_job(job)
        longer = replace(job, checkpoints=(rounds + 30,), keep=False, after=rounds, earlier=earlier)
        run_job(longer)
        refused = played = 0
        for each in crafted(earlier.state, wanted, rng):
            try:
                run_job(replace(longer, earlier=replace(earlier, state=each)))
                played += 1
            except BothworldsError as error:
                assert "\n" not in str(error), error
                refused += 1
        print(name, refused, played, sep="\t", flush=True)


if __name__ == "__main__":
    main(sys.argv[2:], int(sys.argv[1]))
