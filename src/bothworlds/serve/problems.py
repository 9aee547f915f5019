"""Problems of the decision service: every refusal, with its stable code and its HTTP status.

A code is a promise: programs branch on it. Sentences may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from bothworlds.errors import BothworldsError


@dataclass(frozen=True)
class Kind:
    """A kind of refusal.

    Parameters
    ----------
    status : int
        The HTTP status it is answered with.
    title : str
        What happened, the same in every answer of this kind.
    advice : str
        What the caller can do about it.
    """

    status: int
    title: str
    advice: str


KINDS: dict[str, Kind] = {
    # The request itself.
    "invalid_json": Kind(400, "The body is not JSON", "Send UTF-8 JSON."),
    "invalid_request": Kind(
        400,
        "A field or a parameter is missing, unknown or of the wrong kind",
        "Change the request as the detail describes; the OpenAPI document lists the accepted "
        "fields.",
    ),
    "targeting_key_missing": Kind(
        400,
        "A flag whose experiment is sticky needs a targetingKey",
        "Put a targetingKey into the evaluation context, or set sticky_seconds to 0.",
    ),
    "advice_missing": Kind(
        400,
        "The advice of an expert is missing",
        "Send the advice of every expert, or name those without any as asleep.",
    ),
    "advice_invalid": Kind(
        400,
        "The advice names an unknown expert or arm, or its probabilities do not add up to 1",
        "Send for every expert an arm, or probabilities of arms that add up to 1.",
    ),
    "out_of_bounds": Kind(
        400,
        "A loss or a reward lies outside the experiment's bounds",
        "Clip it, or create the experiment with wider bounds.",
    ),
    "bad_token": Kind(
        400,
        "The decision id is malformed",
        "Send the whole decision_id exactly as it was received.",
    ),
    "policy_not_served": Kind(
        400,
        "The policy cannot be served",
        "Take a policy that knows its probabilities and needs no horizon, such as AllWorlds.",
    ),
    # The caller.
    "key_missing": Kind(401, "A key is required", "Send `Authorization: Bearer bw_...`."),
    "key_invalid": Kind(401, "The key is unknown or revoked", "Ask an administrator for a key."),
    "token_expired": Kind(
        401, "The decide token has expired", "Let the server that minted it mint another."
    ),
    "scope_missing": Kind(
        403, "The key lacks the scope", "Use a key with the scope that the detail names."
    ),
    "bad_signature": Kind(
        403,
        "The decision id was not signed by this deployment",
        "Nothing: the id was altered, or it belongs to another deployment.",
    ),
    "foreign_origin": Kind(
        403,
        "The request comes from a web page of another origin",
        "Call the service from a program, or run it with keys and --cors-origin.",
    ),
    # What is asked for.
    "not_found": Kind(404, "There is nothing at this path", "Compare with the OpenAPI document."),
    "experiment_not_found": Kind(
        404, "There is no such experiment", "Create it, or use a key of its tenant."
    ),
    "arm_not_found": Kind(404, "There is no such arm", "Use an arm of the experiment."),
    "key_not_found": Kind(404, "There is no such key", "List the keys."),
    "method_not_allowed": Kind(
        405, "The path does not support this method", "Use a method listed in the header Allow."
    ),
    "not_acceptable": Kind(406, "The format is not offered", "Use jsonl, csv, vw or parquet."),
    "body_timeout": Kind(408, "The body did not arrive in time", "Send it again without pauses."),
    # The state it is in.
    "experiment_exists": Kind(
        409,
        "An experiment of this name exists already",
        "Choose another name, or use the existing experiment.",
    ),
    "experiment_archived": Kind(
        409, "The experiment is archived", "Resume it, or use another experiment."
    ),
    "experiment_paused": Kind(
        409, "The experiment is paused", "Use your default, or resume the experiment."
    ),
    "already_told": Kind(
        409,
        "Another loss was reported for the decision earlier",
        "Nothing: the first feedback is kept.",
    ),
    "arm_id_used": Kind(
        409,
        "The name belongs to an arm, or belonged to one that was retired",
        "Choose a name that was never used in this experiment.",
    ),
    "last_arms": Kind(
        409, "The experiment would be left with fewer than two arms", "Add an arm first."
    ),
    "nothing_available": Kind(
        409, "No arm is left to choose from", "Name at least one active arm as available."
    ),
    "shares_conflict": Kind(
        409,
        "The arms that are left cannot have their shares",
        "Leave the control arm and enough others, or change max_share or control first.",
    ),
    "nothing_logged": Kind(
        409, "The log of the current epoch is empty", "Try again after some decisions."
    ),
    "mode_conflict": Kind(
        409, "The experiment's mode does not allow it", "Resume the experiment first."
    ),
    "expired": Kind(
        410,
        "The feedback window of the decision is over",
        "Report feedback sooner, or widen the window.",
    ),
    "epoch_over": Kind(
        410,
        "The experiment was reset after the decision",
        "Nothing: decisions made before a reset are not learned from.",
    ),
    "config_changed": Kind(
        412,
        "The experiment changed since it was read",
        "Read it again and send its new ETag as If-Match.",
    ),
    "body_too_large": Kind(413, "The body is too large", "Send less, or use a batch."),
    "unsupported_media_type": Kind(
        415,
        "The body is not of the type application/json",
        "Send the header `Content-Type: application/json`.",
    ),
    "idempotency_key_reused": Kind(
        422,
        "The Idempotency-Key was used with another request",
        "Use a new key for every new request.",
    ),
    "contribution_too_large": Kind(
        422,
        "The update would overflow the experiment's counters",
        "Widen the exploration floor; an alarm is raised.",
    ),
    "if_match_missing": Kind(
        428, "A change needs the version it is based on", "Send the ETag as If-Match."
    ),
    "rate_limited": Kind(
        429, "Too many requests with this key", "Wait for the time in the header Retry-After."
    ),
    "headers_too_large": Kind(431, "The headers are too large", "Send fewer or shorter headers."),
    # The service.
    "internal": Kind(500, "The service failed", "Report the request id; nothing was acknowledged."),
    "overloaded": Kind(
        503, "The service has too much to do", "Wait for the time in the header Retry-After."
    ),
    "store_unavailable": Kind(
        503,
        "The store did not take the write",
        "Send the same request again; a retry is safe.",
    ),
    "not_ready": Kind(503, "The service is not ready", "Wait, or use another replica."),
    "shutting_down": Kind(
        503, "The service is stopping", "Send the same request again, to another replica."
    ),
}
"""Every refusal by its code."""


class Problem(BothworldsError):
    """A refusal with a code; code that raises it has changed nothing.

    Parameters
    ----------
    code : str
        A key of `KINDS`.
    detail : str, optional
        One sentence about this very case; by default the title of its kind.
    retry_after : float, optional
        Seconds after which another attempt may succeed.

    Examples
    --------
    >>> problem = Problem("experiment_not_found", "There is no experiment 'headline'.")
    >>> problem.status, str(problem)
    (404, "There is no experiment 'headline'.")
    """

    def __init__(
        self, code: str, detail: str | None = None, *, retry_after: float | None = None
    ) -> None:
        kind = KINDS[code]
        super().__init__(detail or f"{kind.title}.")
        self.code = code
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Problem, self.code, str(self), retry_after=self.retry_after), ()

    @property
    def status(self) -> int:
        """The HTTP status."""
        return KINDS[self.code].status

    @property
    def title(self) -> str:
        """Title, the same for every problem of this code."""
        return KINDS[self.code].title

    @property
    def detail(self) -> str:
        """One sentence about this very case."""
        return str(self)

    def document(self, request_id: str) -> dict[str, Any]:
        """Return the fields of ``application/problem+json`` (RFC 9457).

        Examples
        --------
        >>> Problem("expired").document("r1")["status"]
        410
        """
        return {
            "type": f"urn:bothworlds:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
        }
