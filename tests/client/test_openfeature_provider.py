"""The OpenFeature provider: tracked events become feedback of the right decision."""

import logging

import openfeature.api
import pytest
from openfeature.evaluation_context import EvaluationContext
from openfeature.track import TrackingEventDetails

from bothworlds.client import Client
from bothworlds.client.openfeature import BothworldsProvider
from bothworlds.errors import InvalidParameter
from bothworlds.serve.background import background
from helpers.waiting import HANG

FLAGS = ("headline", "button", "price")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with background(str(tmp_path_factory.mktemp("flags") / "store.db")) as url:
        yield url


@pytest.fixture(scope="module")
def service(url):
    with Client(url, timeout=HANG) as client:
        for flag in FLAGS:
            client.create(flag, {"a": "left", "b": "right"}, bounds=[0.0, 10.0])
        yield client


@pytest.fixture
def flags(url, service):
    events = {"bought": ["headline", "button"]}
    provider = BothworldsProvider(url, timeout=HANG, events=events, remembered=4, reward=10.0)
    openfeature.api.set_provider(provider, "tests")
    yield openfeature.api.get_client("tests")
    openfeature.api.clear_providers()


ANN, BOB = EvaluationContext("ann"), EvaluationContext("bob")


def learned(service, flag):
    """Return how many feedbacks there were, and their mean loss, for every arm together."""
    arms = service.experiment(flag)["arms"]
    told = sum(arm["told"] for arm in arms)
    return told, sum(arm["told"] * (arm["mean_loss"] or 0.0) for arm in arms)


def change(service, flags, flag, work):
    """Return how the feedbacks of a flag, and the sum of their losses, change by something."""
    count, total = learned(service, flag)
    work()
    flags.provider.flush()
    after, sum_after = learned(service, flag)
    return after - count, pytest.approx(sum_after - total, abs=1e-6)


def test_an_event_is_the_reward_of_the_last_evaluation(service, flags):
    flags.get_string_value("headline", "", ANN)
    flags.get_string_value("headline", "", BOB)
    details = TrackingEventDetails(7.0)
    assert change(service, flags, "headline", lambda: flags.track("headline", ANN, details)) == (
        1, 3.0,
    )  # fmt: skip
    # It was told; the next event has nothing to tell about.
    assert change(service, flags, "headline", lambda: flags.track("headline", ANN)) == (0, 0.0)
    lost = TrackingEventDetails(attributes={"loss": 2.5})
    assert change(service, flags, "headline", lambda: flags.track("headline", BOB, lost)) == (
        1,
        2.5,
    )


def test_an_event_can_be_about_several_flags(service, flags):
    for flag in FLAGS:
        flags.get_string_value(flag, "", ANN)
    before = {flag: learned(service, flag)[0] for flag in FLAGS}
    flags.track("bought", ANN)  # without a value, the whole reward
    flags.provider.flush()
    after = {flag: learned(service, flag)[0] - before[flag] for flag in FLAGS}
    assert after == {"headline": 1, "button": 1, "price": 0}


def test_without_a_targeting_key_the_decision_is_named(service, flags):
    details = flags.get_string_details("price", "")
    assert change(service, flags, "price", lambda: flags.track("price")) == (0, 0.0)
    named = TrackingEventDetails(4.0, {"decision_id": details.flag_metadata["decision_id"]})
    assert change(service, flags, "price", lambda: flags.track("any", None, named)) == (1, 6.0)


def test_of_a_default_nobody_is_told(service, flags):
    flags.get_string_value("price", "", ANN)
    flags.get_boolean_value("price", True, ANN)  # of another type: Ann sees the default now
    assert change(service, flags, "price", lambda: flags.track("price", ANN)) == (0, 0.0)
    flags.get_string_value("price", "", ANN)
    service.act("price", "pause")
    assert flags.get_string_value("price", "mine", ANN) == "mine"
    service.act("price", "resume")
    assert change(service, flags, "price", lambda: flags.track("price", ANN)) == (0, 0.0)


def test_the_oldest_are_forgotten(service, flags):
    users = [EvaluationContext(f"user {n}") for n in range(5)]
    for user in users:
        flags.get_string_value("price", "", user)

    def work():
        for user in users:
            flags.track("price", user)

    assert change(service, flags, "price", work) == (4, 0.0)


@pytest.mark.parametrize("value", [float("nan"), "much", True])
def test_what_is_no_number_is_logged(service, flags, value, caplog):
    flags.get_string_value("price", "", ANN)
    with caplog.at_level(logging.WARNING):
        flags.track("price", ANN, TrackingEventDetails(value))
    assert "no finite number" in caplog.text


def test_what_the_service_refuses_is_logged(service, flags, caplog):
    flags.get_string_value("price", "", ANN)
    with caplog.at_level(logging.WARNING):
        flags.track("price", ANN, TrackingEventDetails(11.0))
        flags.provider.flush()
    assert "Feedback was not reported: " in caplog.text


def test_what_was_tracked_is_sent_before_the_end(service, url):
    provider = BothworldsProvider(url, timeout=HANG)
    openfeature.api.set_provider(provider, "ending")
    ending = openfeature.api.get_client("ending")
    before = learned(service, "price")[0]
    for n in range(20):
        ending.get_string_value("price", "", EvaluationContext(f"last {n}"))
        ending.track("price", EvaluationContext(f"last {n}"))
    provider.shutdown()
    assert learned(service, "price")[0] == before + 20


@pytest.mark.parametrize(
    "settings", [{"remembered": 0}, {"remembered": True}, {"events": {"a": "b"}}, {"timeout": 0}]
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(InvalidParameter, match="must be"):
        BothworldsProvider("http://127.0.0.1:9", **settings)
