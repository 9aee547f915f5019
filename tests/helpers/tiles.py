"""Sixteen repetitions of a policy, as a tile and one by one, played by the engine's loops."""

from dataclasses import dataclass

import numpy as np

from bothworlds.bandit.state import first_row, generator, pack
from bothworlds.engine.policy_loops import play, play_tile
from bothworlds.lanes.types import LANES


@dataclass
class Played:
    """What the repetitions did and left behind, one column each."""

    arms: np.ndarray
    state: np.ndarray
    generator: np.ndarray


def played_as_tile(policy, losses, start, words) -> Played:
    """Play the rows of ``losses`` in a tile; ``start`` and ``words`` have a column per lane."""
    rounds, K = losses.shape
    S, G = start.ravel().copy(), words.ravel().copy()
    C = np.append(policy.parameters(K), 0.0)
    arms = play_tile(policy.kernels(), K, rounds, C, S, G, losses)
    return Played(arms, S.reshape(start.shape), G.reshape(words.shape))


def played_one_by_one(policy, losses, start, words) -> Played:
    """Play the same repetitions as bandits of their own."""
    rounds, K = losses.shape
    kernels = policy.kernels()
    found = Played(np.zeros((rounds, LANES), np.int64), start.copy(), words.copy())
    for lane in range(LANES):
        F = pack(policy, K, np.ascontiguousarray(words[:, lane]))
        F[first_row(F) :] = start[:, lane]
        arms, inverse_p = np.zeros(rounds, np.int64), np.zeros(rounds)
        assert play(kernels, F, 1, rounds, losses, arms, inverse_p) == 0
        found.arms[:, lane] = arms
        found.state[:, lane] = F[first_row(F) :]
        found.generator[:, lane] = generator(F)
    return found
