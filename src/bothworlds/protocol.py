"""Sizes and codes of the wire protocol that the decision service and its client share."""

from __future__ import annotations

DECISION_BATCH = 256
"""How many decisions one request can ask for."""
FEEDBACK_BATCH = 1000
"""Number of feedback items in one request, at most."""
RETRYABLE = frozenset({"rate_limited", "overloaded", "store_unavailable", "shutting_down"})
"""Codes of refusals after which the same request may be sent again, and may succeed."""
