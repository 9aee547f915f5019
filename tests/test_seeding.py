"""Random streams from names: NumPy's generators."""

import numpy as np
import pytest

import bothworlds as bw
from bothworlds import seed_sequence, seeding
from bothworlds.lanes import orders


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 9, 64, 65, 1000])
def test_permutations_of_many_seeds_are_those_of_numpy(n):
    rows = entropies(100)
    found = orders.first_orders(rows, n)
    assert found.tolist() == [np.random.default_rng(row).permutation(n).tolist() for row in rows]


def test_generators_seed_the_code_that_is_ready():
    words = seeding.Generators([bytes(range(1, 33))]).words
    orders.first_orders(words, 3)
    orders.ready.cache_clear()
    assert orders.ready()
    assert len(orders.fill_orders.signatures) == 1


@pytest.mark.parametrize("zeros", [0, 4])
def test_an_environment_takes_the_orders_of_its_generators(zeros, monkeypatch):
    monkeypatch.setattr(orders, "MANY", 5)
    found = [bytes(range(k, 32 + k - zeros)) + bytes(zeros) for k in range(1, 6)]
    world = bw.environments.Stochastic.gap(9, 0.25)
    rngs = seeding.Generators(found)
    assert (rngs.words is None) == (zeros > 0)
    wanted = [world.start(seeding.generator_of(digest)) for digest in found]
    assert np.array_equal(world.start_all(rngs), wanted)


@pytest.mark.parametrize("zeros", [0, 1, 4, 9, 32])
def test_a_generator_is_that_of_the_digest_as_a_whole_number(zeros, monkeypatch):
    digest = bytes(range(1, 33 - zeros)) + bytes(zeros)
    monkeypatch.setattr(seeding, "_digest", lambda seed, names: digest)
    found = seeding.numpy_generator(1, "a").random(5)
    wanted = np.random.default_rng(int.from_bytes(digest, "little")).random(5)
    assert found.tolist() == wanted.tolist()


def test_many_streams_are_those_of_their_names():
    found = seeding.digests(7, "world", "é", last=range(8, 12))
    rows = seeding.words_of(found)
    for n, digest in zip(range(8, 12), found, strict=True):
        assert rows[n - 8].tolist() == seeding.stream_words(7, "world", "é", n).tolist()
        wanted = seeding.numpy_generator(7, "world", "é", n).random(3)
        assert seeding.generator_of(digest).random(3).tolist() == wanted.tolist()
    assert len(set(found)) == 4


def entropies(count):
    """Rows of words, with zeros and the largest among them, none of them ending with a zero."""
    rng = np.random.default_rng(11)
    rows = rng.integers(0, 2**32, (count, seed_sequence.ENTROPY), dtype=np.uint32)
    rows[::3][rng.random(rows[::3].shape) < 0.4] = 0
    rows[1::7][rng.random(rows[1::7].shape) < 0.4] = 2**32 - 1
    rows[:, -1] |= 1
    return rows


def test_first_states_are_those_of_numpy():
    rows = entropies(500)
    wanted = [np.random.SeedSequence(row).generate_state(4, np.uint64) for row in rows]
    assert np.array_equal(seed_sequence.first_states(rows), wanted)


def test_the_test_would_see_a_wrong_constant(monkeypatch):
    rows = entropies(3)
    right = seed_sequence.first_states(rows)
    monkeypatch.setattr(seed_sequence, "_LEFT", np.uint32(0xCA01F9DF))
    assert not (seed_sequence.first_states(rows) == right).any()


def test_generators_of_many_seeds_are_those_of_numpy():
    rows = entropies(5)
    for row, found in zip(rows, seed_sequence.generators(rows), strict=True):
        wanted = np.random.default_rng(row)
        assert found.random(3).tolist() == wanted.random(3).tolist()
        assert found.permutation(9).tolist() == wanted.permutation(9).tolist()
        seeds = found.bit_generator.seed_seq, wanted.bit_generator.seed_seq
        for kind in (np.uint32, np.uint64):
            first, second = (seed.generate_state(5, kind).tolist() for seed in seeds)
            assert first == second
        for first, second in zip(*(seed.spawn(2) for seed in seeds), strict=True):
            assert first.generate_state(2).tolist() == second.generate_state(2).tolist()


@pytest.mark.parametrize("zeros", [0, 1, 4, 9, 32])
def test_a_digest_that_ends_with_zeros_has_its_generator_among_others(zeros):
    found = [bytes(range(1, 33)), bytes(range(1, 33 - zeros)) + bytes(zeros)]
    for digest, rng in zip(found, seeding.Generators(found), strict=True):
        assert rng.random(3).tolist() == seeding.generator_of(digest).random(3).tolist()
