"""Random streams from names: NumPy's generators."""

import numpy as np
import pytest

from bothworlds import seeding


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
