"""Rate limits of the decision service: a token bucket for every key."""

from __future__ import annotations

import time
from collections.abc import Callable

from bothworlds.serve.problems import Problem


class Buckets:
    """Allow every key this many requests a second, with a burst of one second's worth.

    Parameters
    ----------
    rate : float
        Requests a second.
    clock : callable
        Returns seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> buckets = Buckets(2.0, clock=lambda: now[0])
    >>> buckets.take("k1"), buckets.take("k1")
    (None, None)
    >>> buckets.take("k1")
    Traceback (most recent call last):
    ...
    bothworlds.serve.problems.Problem: The key may send 2 requests a second.
    >>> now[0] = 0.5
    >>> buckets.take("k1")
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._most = max(rate, 1.0)
        self._held: dict[str, tuple[float, float]] = {}

    def take(self, key: str, count: int = 1) -> None:
        """Count requests of a key, or refuse them."""
        now = self._clock()
        held, then = self._held.get(key, (self._most, now))
        held = min(self._most, held + (now - then) * self.rate)
        # A batch larger than the burst passes when the bucket is full, and is paid off after.
        if held < min(count, self._most):
            wait = (min(count, self._most) - held) / self.rate
            raise Problem(
                "rate_limited",
                f"The key may send {self.rate:g} requests a second.",
                retry_after=wait,
            )
        self._held[key] = (held - count, now)
