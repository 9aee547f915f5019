"""Stores of the decision service with a long history, made row by row."""

import asyncio
import random
import time

import numpy as np

from bothworlds.serve.domain import records, tokens
from bothworlds.serve.domain.config import Arm, NewExperiment
from bothworlds.serve.domain.draws import PER_ONE
from bothworlds.serve.domain.service import Service, Settings
from bothworlds.serve.domain.sums import Counts, StateRow, Sums
from bothworlds.serve.store.opening import opened
from bothworlds.serve.store.rows import CheckpointRow, DecisionRow, FeedbackRow, WriteBatch
from bothworlds.serve.store.writer import as_bytes

QUIET = Settings(poll_seconds=3600, sweep_seconds=3600, checkpoint_seconds=3600)


def means_of(K):
    """Return the mean loss of every arm: the third arm is the best."""
    means = np.linspace(0.35, 0.75, K)
    means[min(2, K - 1)] = 0.2
    return means


def made(store, name, arms, *, rounds=0, logged=0, checkpoints=0, drift=False, missing=0.05,
         quarantined=0, lag=20.0, seconds=5 * 86_400, seed=1, **spec):  # fmt: skip
    """Make an experiment with so many rounds behind it, of which the newest are in the log.

    Parameters
    ----------
    store : path
        A SQLite file, made if there is none.
    name, arms : str, list of str
        The experiment.
    rounds, logged, checkpoints : int
        Rounds of all time, rows of the log and of the table of checkpoints.
    drift : bool
        Whether the best arm has become another one, lately.
    missing : float
        Share of the decisions without an answer; twice that for the first arm.
    quarantined : int
        How many of the newest answers are in quarantine.
    lag : float
        Median seconds from a decision to its answer.
    seconds : float
        How long ago it began.
    """

    async def create():
        service = await Service.open(str(store), QUIET)
        await service.create(Service.LOCAL, NewExperiment(name, [Arm(arm) for arm in arms], **spec))
        await service.close()

    asyncio.run(create())
    if not rounds:
        return
    K, now, draw = len(arms), time.time(), random.Random(seed)
    means = means_of(K)
    late = means[::-1] if drift else means
    best = int(means.argmin())
    opening = opened(str(store), serve=False)
    number = next(row.id for row in opening.reader.configuration().experiments if row.name == name)
    # The best arm is played more and more; the others share what is left.
    at = np.linspace(0.0, 1.0, max(2, checkpoints))
    shares = np.full((at.size, K), 1.0 / K)
    top = 1.0 / K + (0.9 - 1.0 / K) * (1.0 - np.exp(-6.0 * at))
    wobble = 0.02 * np.sin(40.0 * at[:, None] + np.arange(K))
    others = np.maximum(0.1, 1.0 + wobble * 20.0) * (0.3 + means.max() - means)
    others[:, best] = 0.0
    shares = (1.0 - top)[:, None] * others / others.sum(axis=1, keepdims=True)
    shares[:, best] = top
    turns = np.diff(np.concatenate([[0.0], at])) * rounds
    decided = np.cumsum(shares * turns[:, None], axis=0)
    answer = np.full(K, 1.0 - missing)
    answer[0] = 1.0 - 2.0 * missing
    told = (decided * answer).astype(np.int64)
    noise = np.array([[draw.gauss(0.0, 0.01) for _ in range(K)] for _ in at])
    world = np.where(at[:, None] > 0.7, late, means) + noise
    lost = np.cumsum(np.diff(told, axis=0, prepend=0) * np.clip(world, 0, 1) * PER_ONE, axis=0)
    lost = lost.astype(np.int64)
    records_of = list(_rows(number, arms, shares[-1], late, rounds, logged, now, missing, lag, draw,
                            seconds))  # fmt: skip
    feedback = [each for _, each in records_of if each is not None]
    held = {id(each) for each in feedback[-quarantined:]} if quarantined else set()
    # At these sums Tsallis-INF has about these shares: w = 4 / (eta (L - x))^2.
    heights = 2.0 / (4.0 / np.sqrt(rounds) * np.sqrt(shares[-1]))
    sums = ((heights - heights.min()) * PER_ONE).astype(np.int64)
    state = Sums(np.append(sums, 0), told[-1], lost[-1], int(told[-1].sum()), rounds)
    counts = Counts(decided[-1].astype(int).tolist(), rounds)
    batch = WriteBatch(
        feedback=[
            each._replace(status="quarantined") if id(each) in held else each for each in feedback
        ],
        decisions=[row for row, _ in records_of],
    )
    opening.writer.commit(
        batch, lambda new, living: [StateRow(number, 0, b"", 0, 0, state, counts)]
    )
    if checkpoints:
        opening.writer.put_checkpoints(
            [
                CheckpointRow(
                    number, 0, now - seconds * (1.0 - at[n]), int(rounds * at[n]),
                    int(told[n].sum()), as_bytes(told[n]), as_bytes(lost[n]),
                    shares[n].astype("<f8").tobytes(),
                )
                for n in range(at.size)
            ],
            checkpoints,
        )  # fmt: skip
    opening.close()


def _rows(number, arms, shares, means, rounds, logged, now, missing, lag, draw, seconds):
    """Yield decisions and their feedback, None where there is none."""
    K = len(arms)
    step = seconds / max(rounds, 1)
    for n in range(logged):
        at = now - (logged - n) * step
        arm = draw.choices(range(K), shares)[0]
        id = tokens.first_identity(at)[:6] + draw.randbytes(10)
        raw = records.encode(
            1, number, 0, arm, K, rounds - logged + n + 1, id, 1.0 / shares[arm], records.NEAR_ALL
        )
        row = DecisionRow(number, id, raw, 0, 1, n + 1, None)
        told = None
        after = lag * draw.lognormvariate(0.0, 1.5)
        lacking = missing * (2.0 if arm == 0 else 1.0)
        if at + after < now and draw.random() >= lacking:
            loss = float(draw.random() < means[arm])
            told = FeedbackRow(number, id, 0, raw, loss, "client", "learned", at + after, None)
        yield row, told


def names(K):
    """Return names of arms."""
    return [f"variant {n + 1:02d}" for n in range(K)]
