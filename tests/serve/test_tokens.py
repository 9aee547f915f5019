"""Tokens: only the deployment makes one."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothworlds.serve.domain import records
from bothworlds.serve.domain.tokens import Identities, Keyring, first_identity, new_key, unit_hash
from bothworlds.serve.problems import Problem

RING = Keyring({3: b"k" * 32, 4: b"l" * 32}, 4)


def record(known=8, flags=records.NEAR_SOME, key=4):
    size = (known + 7) // 8
    return records.encode(
        key, 7, 2, 1, known, 2**33 + 5, bytes(range(16)), 3.75, flags, 0.25,
        b"\x50" * size if flags & records.NEAR == records.NEAR_SOME else b"",
        b"\x70" * size if flags & records.PRESENT else b"",
        b"u" * 8 if flags & records.UNIT else b"",
    )  # fmt: skip


@given(
    st.integers(2, 200),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, len(records.MODES) - 1),
)
def test_a_record_survives_its_token(known, near, present, unit, deferred, mode):
    flags = near | present * records.PRESENT | unit * records.UNIT | deferred * records.DEFERRED
    flags |= mode << records.MODE
    raw = record(known, flags)
    found, read = RING.verify(RING.sign(raw))
    assert found == raw
    assert (read.key, read.experiment, read.epoch, read.arm, read.known) == (4, 7, 2, 1, known)
    assert (read.round, read.inverse_p, read.flags) == (2**33 + 5, 3.75, flags)
    assert read.baseline == [0.0, 0.5, 0.25][near]
    assert (read.near is not None, read.present is not None) == (near == 2, present)
    assert (read.unit is not None, read.deferred) == (unit, deferred)
    assert read.mode == records.MODES[mode]


def test_every_flipped_bit_of_the_bytes_is_refused():
    import base64

    token = RING.sign(record(flags=records.NEAR_SOME | records.PRESENT | records.UNIT))
    whole = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    for place in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        forged = base64.urlsafe_b64encode(flipped).rstrip(b"=").decode()
        with pytest.raises(Problem) as refused:
            RING.verify(forged)
        assert refused.value.code == "bad_signature"


@pytest.mark.parametrize("known", [8, 16, 24])
def test_every_changed_character_is_refused(known):
    token = RING.sign(record(known))
    for place in range(len(token)):
        for other in ("A", "B", "Q", "g", "_", "-", "+", "/", "=", " ", "\n", "é", "\ud800", "\0"):
            if other != token[place]:
                with pytest.raises(Problem) as refused:
                    RING.verify(token[:place] + other + token[place + 1 :])
                assert refused.value.code in ("bad_token", "bad_signature")


@pytest.mark.parametrize("change", ["", "A", "=", "==", "AAAA", " ", "\n"])
def test_nothing_may_follow_or_lead(change):
    token = RING.sign(record())
    if change:
        for text in (token + change, change + token):
            with pytest.raises(Problem):
                RING.verify(text)
    for cut in range(len(token)):
        with pytest.raises(Problem):
            RING.verify(token[:cut])
    assert RING.verify(token)[0] == record()


@given(st.one_of(st.text(max_size=200), st.binary(max_size=200), st.none(), st.integers()))
def test_anything_else_is_a_bad_token_or_signature(text):
    with pytest.raises(Problem) as refused:
        RING.verify(text)
    assert refused.value.code in ("bad_token", "bad_signature")


def test_a_huge_text_is_refused_without_work():
    with pytest.raises(Problem, match="malformed"):
        RING.verify("A" * 10_000_000)


def test_keys_of_another_deployment_and_retired_keys_are_refused():
    token = RING.sign(record())
    for ring in (Keyring({4: b"x" * 32}, 4), Keyring({5: b"l" * 32}, 5)):
        with pytest.raises(Problem) as refused:
            ring.verify(token)
        assert refused.value.code == "bad_signature"
    rotated = Keyring({4: b"l" * 32, 5: new_key()}, 5)
    assert rotated.verify(token)[1].key == 4


def test_a_key_that_does_not_sign_still_verifies():
    old = Keyring({3: b"k" * 32}, 3).sign(record(key=3))
    assert RING.verify(old)[1].key == 3
    # The number of the key is signed as well.
    with pytest.raises(Problem):
        Keyring({3: b"l" * 32}, 3).verify(RING.sign(record()))


@pytest.mark.parametrize(
    "broken",
    [
        record()[:-1],
        record() + b"\0",
        record(flags=3),
        record(flags=7 << records.MODE),
        records.encode(4, 7, 2, 8, 8, 1, bytes(16), 3.75, 0),
    ],
)
def test_records_that_do_not_fit_together_are_refused_though_signed(broken):
    with pytest.raises(Problem) as refused:
        RING.verify(RING.sign(broken))
    assert refused.value.code == "bad_token"


def test_identities_are_of_version_7_sorted_by_time_and_distinct():
    maker = Identities()
    made = [maker.identity(1_700_000_000.0 + i * 1e-5) for i in range(20_000)]
    assert len(set(made)) == len(made)
    read = [uuid.UUID(bytes=each) for each in made]
    assert {each.version for each in read} == {7}
    assert {each.variant for each in read} == {uuid.RFC_4122}
    # Ten microseconds apart: their order is that of time.
    assert made == sorted(made)
    assert first_identity(1_700_000_000.0) <= min(made)
    assert max(made) < first_identity(1_700_000_000.201)
    # 62 random bits: each is set about half of the time.
    for place in range(62):
        ones = sum(each.int >> place & 1 for each in read)
        assert abs(ones - 10_000) < 6 * 20_000**0.5 / 2


def test_uniform_numbers_are_uniform():
    maker = Identities()
    numbers = [maker.uniform() for _ in range(50_000)]
    assert 0 <= min(numbers) and max(numbers) < 1
    assert abs(sum(numbers) / 50_000 - 0.5) < 6 / (12 * 50_000) ** 0.5


def test_units_are_hashed_with_the_key_and_the_experiment():
    one = unit_hash(b"k" * 32, 1, "eve")
    assert one == unit_hash(b"k" * 32, 1, "eve")
    others = [(b"l" * 32, 1, "eve"), (b"k" * 32, 2, "eve"), (b"k" * 32, 1, "eva")]
    assert one not in [unit_hash(*other) for other in others]
    assert len(unit_hash(b"k" * 32, 1, "\ud800")) == 8


def test_a_seal_belongs_to_one_experiment_epoch_and_number_of_arms():
    raw = records.encode(1, 7, 3, 2, 8, 41, bytes(16), 4.0, records.NEAR_ALL)
    unsealed = Keyring({1: bytes(32)}, 1).sign(raw)
    for named in ((7, 3, 8), (6, 3, 8), (7, 2, 8), (7, 3, 9)):
        ring = Keyring({1: bytes(32)}, 1, seals={records.LINEAGE.pack(*named): b"seal"})
        assert (ring.sign(raw) == unsealed) == (named != (7, 3, 8))
        assert ring.verify(ring.sign(raw))[0] == raw
