"""The LiteLLM router, with the published package on models that only pretend."""

import asyncio
import socket
from datetime import datetime, timedelta

import litellm
import pytest

import bothworlds as bw
from bothworlds.client import Client
from bothworlds.errors import InvalidFeedback, InvalidParameter
from bothworlds.interop.litellm import ModelRouter, RequestLoss
from bothworlds.serve.background import background
from helpers.waiting import HANG, wait_until

MODELS = {
    "small": {"model": "openai/gpt-4o-mini", "mock_response": "short"},
    "large": {"model": "openai/gpt-4o", "mock_response": "a long and good answer"},
}
ASKED = [{"role": "user", "content": "Why?"}]
# Times on a busy machine are not predictable.
TIMELESS = RequestLoss(quality=0.75, price=0.25, seconds=0.0, most_price=0.001)
PRICE = {"small": 1.35e-05, "large": 2.25e-04}


class Recording(bw.Bandit):
    """A bandit that remembers what it was told, by arm."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.losses = {}

    def tell(self, decision, *, loss):
        super().tell(decision, loss=loss)
        self.losses.setdefault(decision.arm, []).append(loss)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Refuse every address but this machine's."""
    connect = socket.socket.connect

    def refusing(self, address):
        assert address[0] in ("127.0.0.1", "::1"), f"asked for {address}"
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refusing)


def heard():
    """Return what LiteLLM calls of ours; its own routers add to the lists, too."""
    listed = [*litellm.callbacks, *litellm.success_callback, *litellm._async_success_callback]
    return [each for each in listed if type(each).__module__.startswith("bothworlds")]


@pytest.fixture
def made():
    """Return a function that makes routers, closed at the end."""
    routers = []

    def make(models=MODELS, chooser=None, *arguments, **settings):
        if chooser is None:
            chooser = Recording(bw.TsallisINF(), arms=list(models), seed=1)
        settings.setdefault("loss", TIMELESS)
        routers.append(ModelRouter(models, chooser, *arguments, **settings))
        return routers[-1], chooser

    yield make
    for router in routers:
        router.close()
    assert not heard()


def test_the_loss_is_the_stated_mean():
    loss = RequestLoss(quality=2.0, price=1.0, seconds=1.0, most_price=0.5, most_seconds=4.0)
    assert loss(1.0, 0.0, 0.0) == 0.0
    assert loss(0.5, 0.25, 2.0) == pytest.approx(0.5)
    assert loss(0.0, 9.0, 99.0) == 1.0
    assert loss(1.0, 0.5, 0.0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "settings",
    [{"quality": -1.0}, {"price": float("nan")}, {"quality": 0, "price": 0, "seconds": 0},
     {"most_price": 0.0}, {"most_seconds": -1}],
)  # fmt: skip
def test_wrong_weights_are_refused(settings):
    with pytest.raises(InvalidParameter, match="RequestLoss must be"):
        RequestLoss(**settings)


def test_quality_price_and_the_decision_come_together(made):
    seen = []

    def quality(response):
        text = response.choices[0].message.content
        seen.append(text)
        return 0.5 if text == "short" else 0.9

    router, bandit = made(quality=quality)
    expected = {
        name: 0.75 * (1 - q) + 0.25 * PRICE[name] / 0.001
        for name, q in (("small", 0.5), ("large", 0.9))
    }
    for name in MODELS:
        response = router.completion(ASKED, available=[name], temperature=0.0)
        assert response.choices[0].message.content == MODELS[name]["mock_response"]
    wait_until(lambda: router.waiting == 0)
    assert sorted(seen) == ["a long and good answer", "short"]
    assert not bandit.pending
    assert bandit.losses == {name: [pytest.approx(expected[name])] for name in MODELS}


def test_a_failure_has_the_loss_one(made):
    models = {**MODELS, "down": {"model": "openai/gpt-4o", "mock_response": Exception("down")}}
    router, bandit = made(models, quality=lambda response: 1.0)
    with pytest.raises(litellm.exceptions.InternalServerError):
        router.completion(ASKED, available=["down"])
    wait_until(lambda: router.waiting == 0)
    assert bandit.losses == {"down": [1.0]}


def test_a_judgement_may_come_before_or_after_the_log(made):
    router, bandit = made()
    first = router.completion(ASKED, available=["small"])
    router.judge(first, 0.5)
    wait_until(lambda: router.waiting == 0)
    router.judge(first, 0.1)  # it was told; nothing happens
    late = router.completion(ASKED, available=["large"])
    # LiteLLM logs in a thread of its own.
    wait_until(lambda: next(iter(router._open.values())).price is not None)
    router.judge(late, 1.0)
    assert router.waiting == 0
    assert bandit.losses == {
        "small": [pytest.approx(0.75 * 0.5 + 0.25 * PRICE["small"] / 0.001)],
        "large": [pytest.approx(0.25 * PRICE["large"] / 0.001)],
    }


def test_time_is_weighed(made):
    loss = RequestLoss(0.0, 0.0, 1.0, most_seconds=8.0)
    # Answers without a word to LiteLLM, so that the log is the test's to write.
    router, bandit = made(loss=loss, completion=lambda **settings: sent(settings))
    metadata = {}

    def sent(settings):
        metadata.update(settings["metadata"])
        return litellm.ModelResponse()

    response = router.completion(ASKED, available=["small"], metadata={"mine": 1})
    assert metadata["mine"] == 1
    now = datetime.now()
    kwargs = {"litellm_params": {"metadata": metadata}}
    listener = heard()[0]
    listener.log_success_event(kwargs, response, now, now + timedelta(seconds=2))
    router.judge(response, 0.0)
    assert bandit.losses["small"] == [pytest.approx(0.25)]


def test_requests_of_others_are_not_learned_from(made):
    router, bandit = made(quality=lambda response: 1.0)
    other, elsewhere = made(quality=lambda response: 0.0)
    litellm.completion(messages=ASKED, **MODELS["small"])
    other.completion(ASKED, available=["small"])
    wait_until(lambda: other.waiting == 0)
    assert bandit.losses == {}
    assert elsewhere.losses["small"][0] > 0.75


@pytest.mark.parametrize("quality", [-0.1, 1.1, float("nan"), "good", None])
def test_a_wrong_judgement_is_refused(made, quality):
    router, bandit = made()
    response = router.completion(ASKED)
    with pytest.raises(InvalidFeedback):
        router.judge(response, quality)
    with pytest.raises(InvalidFeedback, match="a response of this router"):
        router.judge(object(), 1.0)
    assert router.waiting == len(bandit.pending) == 1


def test_wrong_choosers_are_refused():
    bandit = bw.Bandit(bw.TsallisINF(), arms=["small", "huge"])
    with pytest.raises(InvalidParameter, match="with the arms small, large"):
        ModelRouter(MODELS, bandit)
    bandit = bw.Bandit(bw.TsallisINF(), arms=list(MODELS), bounds=(0, 10))
    with pytest.raises(InvalidParameter, match="bounds"):
        ModelRouter(MODELS, bandit)
    with pytest.raises(InvalidParameter, match="experiment"):
        ModelRouter(MODELS, Client("http://127.0.0.1:9"))
    assert not heard()


async def answered(router, names):
    """Return what models answer, once LiteLLM has logged it: it does so in the same loop."""
    found = [await router.acompletion(ASKED, available=[name]) for name in names]
    async with asyncio.timeout(HANG):
        while router.waiting:
            await asyncio.sleep(0.01)
    return found


def test_a_router_of_litellm_and_awaiting(made):
    listed = [{"model_name": name, "litellm_params": settings} for name, settings in MODELS.items()]
    groups = litellm.Router(model_list=listed, num_retries=0)
    router, bandit = made(
        {name: {"model": name} for name in MODELS},
        quality=lambda response: 1.0,
        completion=groups.completion,
        acompletion=groups.acompletion,
    )

    found = asyncio.run(answered(router, MODELS))
    assert [each.choices[0].message.content for each in found] == [
        "short",
        "a long and good answer",
    ]
    for name, (loss,) in bandit.losses.items():
        assert loss == pytest.approx(0.25 * PRICE[name] / 0.001)


def test_the_service_routes(made, tmp_path):
    with background(str(tmp_path / "store.db")) as url, Client(url, timeout=HANG) as client:
        client.create("models", list(MODELS))
        router, _ = made(MODELS, client, "models", quality=lambda response: 1.0)
        for _ in range(8):
            router.completion(ASKED)
        response = asyncio.run(answered(router, ["large"]))[0]
        assert response.choices[0].message.content == "a long and good answer"
        wait_until(lambda: sum(arm["told"] for arm in client.experiment("models")["arms"]) == 9)
        for arm in client.experiment("models")["arms"]:
            if arm["told"]:
                assert arm["mean_loss"] == pytest.approx(0.25 * PRICE[arm["name"]] / 0.001)
    # The service is away: requests are answered by the first model, and nothing is told.
    assert router.completion(ASKED).choices[0].message.content == "short"
    assert router.waiting == 0
