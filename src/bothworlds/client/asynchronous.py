"""Client of the decision service that is awaited, for programs built on asyncio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from bothworlds.client import calls
from bothworlds.client.calls import Action, Call, Decision, Failure, Pause, Result, Settings, Told
from bothworlds.client.exchange import Response
from bothworlds.client.transports import AsyncTransport
from bothworlds.errors import ServiceError

T = TypeVar("T")


class AsyncClient:
    """Ask the decision service for decisions and send their feedback, without blocking.

    Parameters
    ----------
    url : str
        Where the service listens, such as ``"http://127.0.0.1:8080"``.
    key : str, optional
        A key of the service, ``bw_...``.
    timeout : float, default 0.5
        Seconds that a decision may take with all its retries; one that is not there by then is
        the default.
    feedback_timeout : float, default 10.0
        The same for feedback, which must not be lost, and for all calls about experiments.
    retries : int, default 3
        How often a request is sent again at most.

    Examples
    --------
    >>> import asyncio
    >>> async def main():
    ...     async with AsyncClient("http://127.0.0.1:9", timeout=0.2) as client:
    ...         return await client.decide("headline", default="blue")
    >>> asyncio.run(main()).default  # no service listens there
    True
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 0.5,
        feedback_timeout: float = 10.0,
        retries: int = 3,
    ) -> None:
        self._settings = Settings.of("AsyncClient", url, key, timeout, feedback_timeout, retries)
        self._transport = AsyncTransport(self._settings.endpoint)
        self._defaults = calls.Defaults()

    def __repr__(self) -> str:
        endpoint = self._settings.endpoint
        return f"<AsyncClient of {endpoint.authority}{endpoint.prefix}>"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the idle connections; the next call opens one again."""
        await self._transport.close()

    async def decide(
        self,
        experiment: str,
        *,
        default: str | None = None,
        available: Sequence[str] | None = None,
        unit: str | None = None,
        deferred: bool = False,
        idempotency_key: str | None = None,
        vector: bool = False,
        advice: calls.Advice | None = None,
        asleep: Sequence[str] | None = None,
        segment: str | None = None,
        timeout: float | None = None,
    ) -> Decision:
        """Ask which arm to use.

        Parameters
        ----------
        experiment : str
            Its name.
        default : str, optional
            The arm to use when the service is away or the experiment is paused. The decision is
            then marked as `Decision.default`, and its feedback is not sent. Any answer that the
            service did not write counts as away: a page of a proxy, a redirection, other JSON. A
            refusal by the service itself is raised also with a default, because waiting does not
            cure it: 401 for a wrong key, 404 for an unknown experiment. A default that is not an
            arm triggers one warning.
        available : sequence of str, optional
            The arms that can be used right now; all by default.
        unit : str, optional
            Unit of the decision, such as a user id; a sticky experiment repeats its decision.
        deferred : bool, default False
            The decision counts only once it is activated.
        idempotency_key : str, optional
            The same key gives the same decision, however often it is sent.
        vector : bool, default False
            Ask for the probabilities of all arms, and the weights of all experts, too.
        advice : mapping of str to str or mapping, optional
            If the experiment has experts: the arm that each recommends, or probabilities of arms
            that add up to 1.
        asleep : sequence of str, optional
            Experts without advice this time.
        segment : str, optional
            The segment to decide in, such as a country; a new one is created.
        timeout : float, optional
            In place of the client's.

        Raises
        ------
        ServiceAway
            If the service is away and there is no default.
        ServiceError
            If it refuses the request.
        """
        listed = vector or self._defaults.unknown(experiment, default, available)
        call = calls.decide(
            experiment, available, unit, deferred, idempotency_key, listed, advice, asleep, segment
        )
        try:
            decision = await self._call(call, timeout)
        except ServiceError as error:
            return calls.stand_in(experiment, default, error)
        return self._defaults.compare(decision, default, vector)

    async def decide_many(
        self, experiment: str, count: int, *, advice: calls.Advice | None = None,
        asleep: Sequence[str] | None = None, segment: str | None = None,
        timeout: float | None = None,
    ) -> list[Decision]:  # fmt: skip
        """Ask for several decisions at once, at most 256, in one segment, by the same advice."""
        call = calls.decide_many(experiment, count, advice, asleep, segment)
        return await self._call(call, timeout)

    async def feedback(
        self,
        decision: Decision | str,
        *,
        loss: float | None = None,
        reward: float | None = None,
        timeout: float | None = None,
    ) -> Told:
        """Report the outcome of a decision, once; sending it again is harmless.

        Parameters
        ----------
        decision : Decision or str
            The decision, or its id.
        loss, reward : float, optional
            One of them, in the experiment's bounds.
        timeout : float, optional
            In place of the client's ``feedback_timeout``.

        Returns
        -------
        str
            ``"learned"``, ``"duplicate"``, ``"quarantined"``, ``"not_learnable"``, or
            ``"default"`` for a default, of which nothing is sent.
        """
        call = calls.feedback(decision, loss, reward)
        if call is None:
            return "default"
        return await self._call(call, timeout or self._settings.feedback_timeout)

    async def feedback_many(
        self,
        decisions: Sequence[Decision | str],
        *,
        losses: Sequence[float] | None = None,
        rewards: Sequence[float] | None = None,
        timeout: float | None = None,
    ) -> list[Result]:
        """Report the outcomes of many decisions; return the status or the refusal of each."""
        batches = calls.feedback_many(decisions, losses, rewards)
        seconds = timeout or self._settings.feedback_timeout
        return batches.results([await self._call(call, seconds) for call in batches.calls])

    async def activate(self, decision: Decision | str, *, timeout: float | None = None) -> None:
        """Activate a deferred decision, so that it counts."""
        call = calls.activate(decision)
        if call is not None:
            await self._call(call, timeout or self._settings.feedback_timeout)

    async def decide_token(self, experiment: str | None = None, *, seconds: float = 600.0) -> str:
        """Mint a decide token for a web page, which stays valid for some seconds.

        Parameters
        ----------
        experiment : str, optional
            The only experiment it is for; by default all of the key.
        seconds : float
            How long it is valid, at most an hour.
        """
        return await self._call(calls.decide_token(experiment, seconds))

    async def create(
        self, experiment: str, arms: Sequence[str] | Mapping[str, Any], **settings: Any
    ) -> dict[str, Any]:
        """Create an experiment and return its description.

        Parameters
        ----------
        experiment : str
            Its name.
        arms : sequence of str, or mapping of str to object
            The names of the arms, or what each carries by name.
        **settings
            ``policy``, ``bounds``, ``feedback_window`` and so on, as the wire API has them.
        """
        return await self._patiently(calls.create(experiment, arms, settings))

    async def experiments(self) -> list[dict[str, Any]]:
        """Return the descriptions of all experiments."""
        return await self._patiently(calls.experiments())

    async def experiment(self, name: str) -> dict[str, Any]:
        """Return the description of an experiment: settings, arms, probabilities, alarms."""
        return await self._patiently(calls.experiment(name))

    async def change(self, name: str, version: int, **settings: Any) -> dict[str, Any]:
        """Change settings of an experiment; ``version`` is the ``config_version`` they replace."""
        return await self._patiently(calls.change(name, version, settings))

    async def act(self, name: str, action: Action, arm: str | None = None) -> dict[str, Any]:
        """Pin or shadow an arm, or set the experiment to uniform, pause, resume, archive, reset."""
        return await self._patiently(calls.act(name, action, arm))

    async def segments(self, name: str, limit: int = 100) -> list[dict[str, Any]]:
        """Return the learned state of an experiment's segments, those with most feedback first."""
        return await self._patiently(calls.segments(name, limit))

    async def report(self, name: str, targets: Sequence[str] = ()) -> dict[str, Any]:
        """Return how good every arm is and how certain that is.

        ``targets`` are ``"uniform"`` or ``"arm:"`` and the name of one: what each would have
        returned is under ``"targets"``.
        """
        return await self._patiently(calls.report(name, targets))

    async def ready(self) -> bool:
        """Return whether the service is there and ready."""
        try:
            return await self._call(calls.ready())
        except ServiceError:
            return False

    async def _patiently(self, call: Call[T]) -> T:
        return await self._call(call, self._settings.feedback_timeout)

    async def _call(self, call: Call[T], timeout: float | None = None) -> T:
        settings = self._settings
        request = call.request(settings.endpoint, settings.key)
        seconds = settings.timeout if timeout is None else timeout
        steps = calls.attempts(call, settings.endpoint, seconds, settings.retries)
        outcome: Response | Failure | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                answer: T = end.value
                return answer
            if isinstance(step, Pause):
                await self._transport.pause(step.seconds)
                outcome = None
            else:
                outcome = await self._transport.send(request, step.deadline, call.repeatable)
