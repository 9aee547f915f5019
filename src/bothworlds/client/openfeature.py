"""OpenFeature provider of the decision service, whose ``track`` is the feedback.

Flags are evaluated by the published OFREP provider, against the service's OFREP endpoints. OFREP
has no endpoint for tracking; this provider adds it: it remembers which decision a flag's value came
from, and reports the outcome to the service. Extra ``openfeature``.

Examples
--------
>>> import openfeature.api
>>> from openfeature.evaluation_context import EvaluationContext
>>> from openfeature.track import TrackingEventDetails
>>> provider = BothworldsProvider("http://127.0.0.1:9", timeout=0.2)  # no service listens there
>>> openfeature.api.set_provider(provider, "example")
>>> flags = openfeature.api.get_client("example")
>>> ann = EvaluationContext("ann")
>>> flags.get_string_value("headline", "blue", ann)
'blue'
>>> flags.track("headline", ann, TrackingEventDetails(1.0))  # a default is not reported
>>> openfeature.api.shutdown()
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from bothworlds.arguments import real, whole
from bothworlds.client.blocking import Client
from bothworlds.errors import BothworldsError, invalid, missing_extra

try:
    from openfeature.contrib.provider.ofrep import OFREPProvider
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.flag_evaluation import FlagEvaluationDetails
    from openfeature.hook import Hook, HookContext, HookHints
    from openfeature.provider import Metadata
    from openfeature.track import TrackingEventDetails
except ImportError as error:
    raise missing_extra("openfeature", error.name or "openfeature") from error

__all__ = ["BothworldsProvider"]

_LOG = logging.getLogger("bothworlds.client.openfeature")
_WAITING = 10_000
"""Number of reports that may wait to be sent."""


class BothworldsProvider(OFREPProvider):
    """Evaluate flags by experiments of the decision service, and learn from tracked events.

    A flag is an experiment, its variants are the arms. An event of the flag's name, tracked for the
    same targeting key, reports the outcome of the last evaluation; its value is the reward. With no
    targeting key the provider cannot know whose evaluation it was: name the decision instead, by
    the attribute ``decision_id`` from the evaluation's ``flag_metadata``.

    Feedback is sent by a thread of its own. Tracking neither waits nor raises; what could not be
    reported is logged.

    Parameters
    ----------
    url : str
        Where the service listens.
    key : str, optional
        A key of the service with the scopes ``decide`` and ``feedback``.
    timeout : float, default 0.5
        Seconds that an evaluation may take before the default is used.
    events : mapping of str to sequence of str, optional
        Flags that an event of another name is feedback for, such as ``{"bought": ["headline"]}``.
    reward : float, default 1.0
        Reward of an event without a value.
    remembered : int, default 10_000
        How many evaluations are remembered, the latest ones.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 0.5,
        events: Mapping[str, Sequence[str]] | None = None,
        reward: float = 1.0,
        remembered: int = 10_000,
    ) -> None:
        self._client = Client(url, key, timeout=timeout)
        whole("remembered", remembered, "BothworldsProvider", 1, "a positive integer")
        for name, flags in (events or {}).items():
            if isinstance(flags, str) or not all(isinstance(flag, str) for flag in flags):
                expected = f"a list of flags for the event {name!r}"
                raise invalid("events", "BothworldsProvider", expected, flags)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        super().__init__(url, headers_factory=lambda: headers, timeout=timeout)
        self._events = {name: list(flags) for name, flags in (events or {}).items()}
        self._reward = reward
        self._decisions = _Decisions(remembered)
        self._sender = _Sender(self._client)

    def get_metadata(self) -> Metadata:
        """Return the name of the provider."""
        return Metadata(name="bothworlds")

    def get_provider_hooks(self) -> list[Hook]:
        """Return the hook that remembers decisions."""
        return [self._decisions]

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Report the outcomes of evaluations.

        Parameters
        ----------
        tracking_event_name : str
            A flag, or an event of ``events``.
        evaluation_context : EvaluationContext, optional
            Its targeting key identifies the evaluation.
        tracking_event_details : TrackingEventDetails, optional
            Its value is the reward; an attribute ``loss`` counts as a loss instead. An attribute
            ``decision_id`` names the decision.
        """
        details = tracking_event_details or TrackingEventDetails()
        named = details.attributes.get("decision_id")
        if isinstance(named, str):
            ids = [named]
        else:
            flags = self._events.get(tracking_event_name, [tracking_event_name])
            unit = None if evaluation_context is None else evaluation_context.targeting_key
            ids = [id for flag in flags if (id := self._decisions.take(flag, unit)) is not None]
        word = "loss" if "loss" in details.attributes else "reward"
        given: Any = details.attributes.get("loss", details.value)
        number = self._reward if given is None else real(given)
        if number is None:
            _LOG.warning(
                "An event %r was not reported: it has no finite number.", tracking_event_name
            )
            return
        for id in ids:
            self._sender.send(id, {word: float(number)})

    def flush(self) -> None:
        """Wait until all that was tracked is sent, or refused."""
        self._sender.flush()

    def shutdown(self) -> None:
        """Send the tracked events, and stop."""
        self._sender.stop()
        self._client.close()
        self.session.close()


class _Decisions(Hook):
    """The last decision of every flag and unit, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, flag: str, unit: str | None) -> str | None:
        """Return a decision and forget it: its feedback is sent once."""
        with self._lock:
            return self._held.pop((flag, unit or ""), None)

    def after(
        self, hook_context: HookContext, details: FlagEvaluationDetails[Any], hints: HookHints
    ) -> None:
        """Remember the decision of an evaluation."""
        id = details.flag_metadata.get("decision_id")
        self._note(hook_context, id if isinstance(id, str) else None)

    def error(self, hook_context: HookContext, exception: Exception, hints: HookHints) -> None:
        """Forget the previous decision: the caller now uses its default."""
        self._note(hook_context, None)

    def _note(self, context: HookContext, id: str | None) -> None:
        unit = context.evaluation_context.targeting_key
        if not unit:
            return
        with self._lock:
            self._held.pop((context.flag_key, unit), None)
            if id is not None:
                self._held[context.flag_key, unit] = id
            if len(self._held) > self._limit:
                self._held.popitem(last=False)


class _Sender:
    """A thread that sends feedback, begun by the first."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: queue.Queue[tuple[str, dict[str, float]] | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def send(self, id: str, told: dict[str, float]) -> None:
        """Send a feedback soon."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="bothworlds-track", daemon=True
                )
                self._thread.start()
        try:
            self._waiting.put_nowait((id, told))
        except queue.Full:
            _LOG.warning("Feedback was dropped: %d reports are waiting to be sent.", _WAITING)

    def flush(self) -> None:
        """Wait until nothing waits."""
        self._waiting.join()

    def stop(self) -> None:
        """Send the waiting feedback, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join()

    def _run(self) -> None:
        while True:
            item = self._waiting.get()
            try:
                if item is None:
                    return
                self._client.feedback(item[0], **item[1])
            except BothworldsError as error:
                _LOG.warning("Feedback was not reported: %s", error)
            finally:
                self._waiting.task_done()
