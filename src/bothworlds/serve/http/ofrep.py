"""OpenFeature remote evaluation (OFREP): experiments as feature flags.

A flag is an experiment and a variant is an arm. Evaluating a flag is a decision; its id comes in
the metadata, and feedback is reported with it as for any decision. Refusals have OFREP's shape,
`wire.NotEvaluated`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from typing import Any

from bothworlds.protocol import DECISION_BATCH
from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.service import Service
from bothworlds.serve.http import wire
from bothworlds.serve.http.messages import HandlerContext, Reply, Request
from bothworlds.serve.http.routes import Routes
from bothworlds.serve.problems import Problem

route = Routes()
_EVALUATE = (
    "experiment_not_found", "targeting_key_missing", "invalid_request", "advice_missing",
    "advice_invalid", "mode_conflict",
    "contribution_too_large", "overloaded", "store_unavailable",
)  # fmt: skip
HELD_SECONDS = 3600.0
"""How long a client may keep a bulk evaluation of experiments that were not changed."""
REASONS = {"learn": "SPLIT", "uniform": "SPLIT", "pinned": "STATIC", "shadow": "STATIC"}
"""Reasons of OpenFeature for the modes that decide; other modes answer DISABLED."""
_TAG = re.compile(r'"([0-9]{1,12})-[0-9a-f]{32}"')


@route(
    "POST", "/ofrep/v1/evaluate/flags/{experiment}", "Evaluate a flag for OpenFeature: decide",
    "decide", body=wire.Evaluate, optional=True, answer=wire.Evaluated, headers=("X-API-Key",),
    problems=_EVALUATE, refusal=wire.NotEvaluated, browsers=True,
)  # fmt: skip
async def evaluate(app: HandlerContext, request: Request) -> Reply:
    """Evaluate one flag."""
    experiment = app.service.experiment_state(request.who, request.given[0])
    found = await _evaluated(app.service, request.who, experiment, _context(request.body))
    return Reply(200, wire.encode(found))


@route(
    "POST", "/ofrep/v1/evaluate/flags",
    "Evaluate all flags for OpenFeature: decide in every experiment", "decide",
    body=wire.Evaluate, optional=True, answer=wire.EvaluatedAll, statuses=(200, 304),
    headers=("If-None-Match", "X-API-Key"), problems=_EVALUATE[1:], refusal=wire.NotEvaluated,
    browsers=True,
)  # fmt: skip
async def evaluate_all(app: HandlerContext, request: Request) -> Reply:
    """Evaluate the flags of all experiments that are not archived."""
    service, context = app.service, _context(request.body)
    running = service.running(request.who)
    if len(running) > DECISION_BATCH:
        raise Problem(
            "invalid_request",
            f"At most {DECISION_BATCH} flags can be evaluated at once, and there are"
            f" {len(running)}; evaluate them one by one.",
        )
    known = request.headers.get(b"if-none-match", b"").decode("latin-1")
    now = time.time()
    for made in _TAG.finditer(known):
        if now - int(made[1]) < _held(running) and made[0] == _tag(running, context, int(made[1])):
            return Reply(304, b"", extra=[(b"etag", made[0].encode())])
    found = await asyncio.gather(
        *(_evaluated(service, request.who, each, context, deferred=True) for each in running),
        return_exceptions=True,
    )
    flags: list[Any] = []
    for experiment, each in zip(running, found, strict=True):
        if isinstance(each, Problem) and each.status < 500:
            flags.append(wire.not_evaluated(each, experiment.name))
        elif isinstance(each, BaseException):
            raise each
        else:
            flags.append(each)
    tag = _tag(running, context, int(now))
    return Reply(200, wire.encode(wire.EvaluatedAll(flags=flags)), extra=[(b"etag", tag.encode())])


async def _evaluated(
    service: Service,
    who: Principal,
    experiment: Experiment,
    context: wire.Context,
    *,
    deferred: bool = False,
) -> wire.Evaluated:
    name = experiment.name
    if experiment.mode not in REASONS:
        # Without a value, the provider gives its caller the caller's own default.
        return wire.Evaluated(
            key=name,
            reason="DISABLED",
            variant="",
            metadata=wire.EvaluatedMetadata(
                experiment=name,
                mode=experiment.mode,  # type: ignore[arg-type]
            ),
        )
    unit = context.targeting_key or None
    if unit is None and experiment.config.sticky_seconds:
        raise Problem("targeting_key_missing")
    # A context is for all flags: those without experts need no advice.
    asked = experiment.advisers is not None
    made = await service.decide(
        who, name, unit=unit, deferred=deferred, advice=context.advice if asked else None,
        asleep=context.asleep if asked else None,
        segment=context.field(experiment.config.segment_key),
    )  # fmt: skip
    return wire.Evaluated(
        key=name,
        reason=REASONS[made.mode],  # type: ignore[arg-type]
        variant=made.arm,
        value=made.arm if made.value is None else _number(made.value, experiment),
        metadata=wire.EvaluatedMetadata(
            experiment=name,
            mode=made.mode,
            decision_id=made.decision_id,
            probability=made.probability,
            expires_at=made.expires_at,
        ),
    )


def _number(value: Any, experiment: Experiment) -> Any:
    """Return a whole number as a float if another arm of the experiment carries a float.

    A flag has one type, and providers refuse ``1`` where they expect ``1.0``.
    """
    if type(value) is int and any(type(arm.value) is float for arm in experiment.arms):
        return float(value)
    return value


def _context(body: wire.Evaluate | None) -> wire.Context:
    """Return the context of the caller."""
    return wire.Context() if body is None or body.context is None else body.context


def _held(running: list[Experiment]) -> float:
    """Return for how many seconds decisions may be kept: their feedback must not come too late."""
    windows = [each.config.feedback_window / 2.0 for each in running]
    sticky = [each.config.sticky_seconds for each in running if each.config.sticky_seconds]
    return min([HELD_SECONDS, *windows, *sticky])


def _tag(running: list[Experiment], context: wire.Context, made: int) -> str:
    """Return the ETag of a bulk evaluation: the same while nothing about it was changed.

    Every evaluation would draw again, so the tag covers the inputs of the draws, and the time.
    """
    unit = context.targeting_key or None
    about: list[Any] = [made, unit, [[each.id, each.version, each.epoch] for each in running]]
    if context.advice is not None:
        about += [context.advice, context.asleep]
    segments = [context.field(each.config.segment_key) for each in running]
    if any(each is not None for each in segments):
        about.append(segments)
    return f'"{made}-{hashlib.blake2b(wire.encode(about), digest_size=16).hexdigest()}"'
