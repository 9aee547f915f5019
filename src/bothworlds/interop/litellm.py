"""LiteLLM router: every request goes to the model a bandit chooses, and its outcome is learned.

A `Bandit` in this process or an experiment of the decision service chooses the model. LiteLLM's own
logger reports price and time, a function or a later judgement the quality; `RequestLoss` weighs the
three into one loss between 0 and 1. Extra ``litellm``.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bothworlds.arguments import non_negative, positive, real, whole
from bothworlds.bandit.bandit import Bandit
from bothworlds.client.blocking import Client
from bothworlds.errors import InvalidFeedback, invalid, missing_extra, must

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise missing_extra("litellm", "litellm") from error

__all__ = ["ModelRouter", "RequestLoss"]

_MARK = "bothworlds_decision"


@dataclass(frozen=True)
class RequestLoss:
    """Cost of a request, as one number from 0, the best, to 1: a weighted mean of three.

    The quality counts as ``1 - quality``, price and time as shares of what is at most acceptable;
    more than that counts as 1. A request that failed has the loss 1.

    Parameters
    ----------
    quality, price, seconds : float
        The weights. Only their ratios matter.
    most_price : float
        The price in dollars that counts as 1.
    most_seconds : float
        The time that counts as 1.

    Examples
    --------
    >>> loss = RequestLoss(quality=0.7, price=0.2, seconds=0.1, most_price=0.01, most_seconds=10)
    >>> round(loss(quality=0.9, price=0.005, seconds=2.0), 3)
    0.19
    >>> loss(quality=0.0, price=1.0, seconds=60.0)
    1.0
    """

    quality: float = 0.7
    price: float = 0.2
    seconds: float = 0.1
    most_price: float = 0.01
    most_seconds: float = 30.0

    def __post_init__(self) -> None:
        weights = (self.quality, self.price, self.seconds)
        for name, weight in zip(("quality", "price", "seconds"), weights, strict=True):
            non_negative(name, weight, "RequestLoss", "a weight of 0 or more")
        if sum(weights) <= 0.0:
            expected = "weights of which one is above 0"
            raise invalid("quality, price, seconds", "RequestLoss", expected, weights)
        positive("most_price", self.most_price, "RequestLoss")
        positive("most_seconds", self.most_seconds, "RequestLoss")

    def __call__(self, quality: float, price: float, seconds: float) -> float:
        """Return the loss of a request."""
        total = self.quality + self.price + self.seconds
        lost = (
            self.quality * (1.0 - quality)
            + self.price * min(price / self.most_price, 1.0)
            + self.seconds * min(seconds / self.most_seconds, 1.0)
        )
        return min(max(lost / total, 0.0), 1.0)


class _Request:
    """A request whose outcome is not complete."""

    __slots__ = ("decision", "price", "quality", "seconds")

    def __init__(self, decision: Any) -> None:
        self.decision = decision
        self.price: float | None = None
        self.seconds = 0.0
        self.quality: float | None = None


class _Listener(CustomLogger):  # type: ignore[misc]
    """LiteLLM's logger: passes the outcome of every request to the router that sent it.

    There is one for all routers, because LiteLLM calls only the first logger of a class.
    """

    def __init__(self) -> None:
        super().__init__()
        self._routers: dict[int, ModelRouter] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def add(self, router: ModelRouter) -> int:
        """Listen for a router, and return the number its requests are marked with."""
        with self._lock:
            number = next(self._numbers)
            self._routers[number] = router
            if self not in litellm.callbacks:
                litellm.callbacks.append(self)
        return number

    def remove(self, number: int) -> None:
        """Listen no more for a router."""
        with self._lock:
            self._routers.pop(number, None)
            if self._routers:
                return
            # LiteLLM copies `callbacks` to its other lists when a request is sent.
            for listed in (
                litellm.callbacks,
                litellm.success_callback,
                litellm.failure_callback,
                litellm._async_success_callback,
                litellm._async_failure_callback,
            ):
                listed[:] = [each for each in listed if each is not self]

    def _owner(self, kwargs: Mapping[str, Any]) -> tuple[ModelRouter | None, Any]:
        """Return the router that sent a request, if one did, and its decision."""
        metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
        number, id = metadata.get(_MARK) or (0, None)
        return self._routers.get(number), id

    def log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Take a response that LiteLLM logs."""
        router, id = self._owner(kwargs)
        if router is not None:
            seconds = (end_time - start_time).total_seconds()
            router._succeeded(id, response_obj, kwargs.get("response_cost"), seconds)

    def log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Take a failure that LiteLLM logs."""
        router, id = self._owner(kwargs)
        if router is not None:
            router._failed(id)

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Take a response that LiteLLM logs; a thread reports it, because that can block."""
        await asyncio.to_thread(self.log_success_event, kwargs, response_obj, start_time, end_time)

    async def async_log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Take a failure that LiteLLM logs."""
        await asyncio.to_thread(self.log_failure_event, kwargs, response_obj, start_time, end_time)


_LISTENER = _Listener()


class ModelRouter:
    """Send requests to the model that a bandit chooses, and learn from LiteLLM's log.

    The first outcome that LiteLLM logs of a request counts: a failure, although a retry or a
    fallback may succeed, has the loss 1. A request that is never judged is never learned from;
    `Bandit.expire`, or the feedback window of the service, ends the wait for it.

    Parameters
    ----------
    models : sequence of str, or mapping of str to mapping
        LiteLLM's names of the models; or, by name of an arm, the settings that a completion takes,
        ``model`` among them.
    chooser : Bandit or Client
        Source of decisions: a bandit with these arms and the bounds (0, 1), or a client of the
        service.
    experiment : str, optional
        The experiment of the service, with these arms and the bounds (0, 1).
    loss : RequestLoss
        The weights.
    quality : callable, optional
        From a response to its quality in [0, 1]. Without it every request waits for `judge`.
    completion, acompletion : callable, optional
        What sends a request; by default that of ``litellm``. Give a ``litellm.Router``'s to have
        its retries and cooldowns.
    remembered : int, default 10_000
        How many requests may wait for their judgement; the oldest is dropped.

    Attributes
    ----------
    models : dict of str to dict
        The settings of a completion by name of an arm; they may be changed.

    Examples
    --------
    >>> import bothworlds as bw
    >>> models = {"small": {"model": "gpt-4o-mini", "mock_response": "4"},
    ...           "large": {"model": "gpt-4o", "mock_response": "four"}}
    >>> bandit = bw.Bandit(bw.TsallisINF(), arms=list(models), seed=1)
    >>> router = ModelRouter(models, bandit)
    >>> response = router.completion([{"role": "user", "content": "2 + 2?"}])
    >>> router.judge(response, 1.0)
    >>> router.close()
    """

    def __init__(
        self,
        models: Sequence[str] | Mapping[str, Mapping[str, Any]],
        chooser: Bandit | Client,
        experiment: str | None = None,
        *,
        loss: RequestLoss | None = None,
        quality: Callable[[Any], float] | None = None,
        completion: Callable[..., Any] | None = None,
        acompletion: Callable[..., Any] | None = None,
        remembered: int = 10_000,
    ) -> None:
        self.models: dict[str, dict[str, Any]]
        if isinstance(models, Mapping):
            self.models = {name: dict(settings) for name, settings in models.items()}
        else:
            self.models = {name: {"model": name} for name in models}
        if isinstance(chooser, Bandit):
            if set(chooser.arms) != set(self.models):
                expected = f"a bandit with the arms {', '.join(map(str, self.models))}"
                raise invalid("chooser", "ModelRouter", expected, [*chooser.arms])
            if chooser.bounds != (0.0, 1.0):
                expected = "a bandit with the bounds (0, 1)"
                raise invalid("chooser", "ModelRouter", expected, chooser.bounds)
        elif experiment is None:
            expected = "the name of an experiment, as a client of the service chooses"
            raise invalid("experiment", "ModelRouter", expected, experiment)
        whole("remembered", remembered, "ModelRouter", 1, "a positive integer")
        self._chooser = chooser
        self._experiment = experiment
        self._loss = loss or RequestLoss()
        self._quality = quality
        self._completion = completion or litellm.completion
        self._acompletion = acompletion or litellm.acompletion
        self._remembered = remembered
        self._open: OrderedDict[Any, _Request] = OrderedDict()
        self._telling = 0
        self._lock = threading.Lock()
        self._number = _LISTENER.add(self)

    def close(self) -> None:
        """Unsubscribe from LiteLLM; open requests are not learned from."""
        _LISTENER.remove(self._number)
        with self._lock:
            self._open.clear()

    @property
    def waiting(self) -> int:
        """Number of requests that wait for their end or judgement, or are being reported."""
        return len(self._open) + self._telling

    # --- asking ----------------------------------------------------------------------------------

    def completion(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        available: Sequence[str] | None = None,
        **settings: Any,
    ) -> Any:
        """Send a request to the model that is chosen, and return LiteLLM's response.

        Parameters
        ----------
        messages : sequence of mapping
            As LiteLLM takes them.
        available : sequence of str, optional
            The models that can answer this request; all by default.
        **settings
            Further settings of the completion.
        """
        id, model, sent = self._chosen(available, settings)
        return self._marked(self._completion(messages=list(messages), **model, **sent), id)

    async def acompletion(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        available: Sequence[str] | None = None,
        **settings: Any,
    ) -> Any:
        """Do the same as `completion`, awaited."""
        id, model, sent = await self._called(self._chosen, available, settings)
        response = await self._acompletion(messages=list(messages), **model, **sent)
        return self._marked(response, id)

    async def _called(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that may wait for the service, without blocking the loop."""
        if isinstance(self._chooser, Bandit):
            return work(*arguments)
        return await asyncio.to_thread(work, *arguments)

    def _chosen(
        self, available: Sequence[str] | None, settings: dict[str, Any]
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        decision: Any
        if isinstance(self._chooser, Bandit):
            decision = self._chooser.ask(available=available)
            id = decision.id
        else:
            assert self._experiment is not None
            default = next(iter(available or self.models))
            decision = self._chooser.decide(self._experiment, available=available, default=default)
            # A default of the client has no id, and nothing to report about it.
            id = decision.decision_id
        if id is not None:
            with self._lock:
                self._open[id] = _Request(decision)
                if len(self._open) > self._remembered:
                    self._open.popitem(last=False)
        sent = {
            **settings,
            "metadata": {**(settings.get("metadata") or {}), _MARK: (self._number, id)},
        }
        return id, self.models[decision.arm], sent

    @staticmethod
    def _marked(response: Any, id: Any) -> Any:
        response._hidden_params[_MARK] = id
        return response

    # --- learning --------------------------------------------------------------------------------

    def judge(self, response: Any, quality: float) -> None:
        """Report the quality of a response, once, now or later.

        Parameters
        ----------
        response : object
            What `completion` returned.
        quality : float
            From 0 to 1.
        """
        number = real(quality)
        if number is None or not 0.0 <= number <= 1.0:
            raise InvalidFeedback(must("quality", "judge", "a number in [0, 1]", quality))
        hidden = getattr(response, "_hidden_params", None)
        if not isinstance(hidden, dict) or _MARK not in hidden:
            expected = "a response of this router"
            raise InvalidFeedback(must("response", "judge", expected, type(response).__name__))
        self._complete(hidden[_MARK], quality=number)

    def _succeeded(self, id: Any, response: Any, price: float | None, seconds: float) -> None:
        """Learn that a request was answered."""
        quality = None if self._quality is None else self._quality(response)
        self._complete(id, price=price or 0.0, seconds=seconds, quality=quality)

    def _failed(self, id: Any) -> None:
        """Learn that a request failed."""
        with self._lock:
            request = self._open.pop(id, None)
            if request is None:
                return
            self._telling += 1
        self._tell(request, 1.0)

    def _complete(
        self,
        id: Any,
        *,
        price: float | None = None,
        seconds: float = 0.0,
        quality: float | None = None,
    ) -> None:
        """Add to the record of a request; LiteLLM's log and the judgement come in any order."""
        with self._lock:
            request = self._open.get(id)
            if request is None:
                return
            if price is not None:
                request.price, request.seconds = price, seconds
            if quality is not None:
                request.quality = min(max(float(quality), 0.0), 1.0)
            if request.price is None or request.quality is None:
                return
            del self._open[id]
            self._telling += 1
        self._tell(request, self._loss(request.quality, request.price, request.seconds))

    def _tell(self, request: _Request, loss: float) -> None:
        try:
            if isinstance(self._chooser, Bandit):
                self._chooser.tell(request.decision, loss=loss)
            else:
                self._chooser.feedback(request.decision, loss=loss)
        finally:
            with self._lock:
                self._telling -= 1
