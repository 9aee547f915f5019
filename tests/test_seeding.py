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
