"""Client of the decision service: ask for decisions over HTTP and send their feedback.

`Client` blocks, `AsyncClient` is awaited; both need nothing but the standard library. Every call
has a budget of seconds that retries share, and a decision can name the arm to use when the service
is away.

Examples
--------
>>> client = Client("http://127.0.0.1:9", timeout=0.2)  # no service listens there
>>> decision = client.decide("headline", default="blue")
>>> decision.arm, decision.default
('blue', True)
>>> client.feedback(decision, reward=1.0)
'default'
"""

from bothworlds.client.asynchronous import AsyncClient
from bothworlds.client.blocking import Client
from bothworlds.client.calls import Decision
from bothworlds.errors import ServiceAway, ServiceError

__all__ = ["AsyncClient", "Client", "Decision", "ServiceAway", "ServiceError"]
