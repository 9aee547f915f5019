"""Forms of the dashboard: their input, checked, and the change of the service."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from bothworlds.serve.domain.config import Arm
from bothworlds.serve.problems import Problem
from bothworlds.text import counted

if TYPE_CHECKING:
    from bothworlds.serve.domain.answers import Principal
    from bothworlds.serve.domain.service import Service

Fields = dict[str, str]
MEDIA = b"application/x-www-form-urlencoded"
LIMIT = 16_384
"""Bytes of a form."""


def fields_of(body: bytes, media: bytes) -> Fields:
    """Return the fields of a form.

    Examples
    --------
    >>> fields_of(b"action=pin&arm=%3Cb%3E", MEDIA)
    {'action': 'pin', 'arm': '<b>'}
    """
    if len(body) > LIMIT:
        raise Problem("body_too_large", f"A form must have at most {LIMIT} bytes.")
    if media.partition(b";")[0].strip().lower() != MEDIA:
        raise Problem(
            "unsupported_media_type",
            "A form of the dashboard must be sent as application/x-www-form-urlencoded.",
        )
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict"
        )
    except ValueError:
        raise Problem("invalid_request", "The form must be ASCII, and short.") from None
    if len(dict(pairs)) < len(pairs):
        raise Problem("invalid_request", "A field of a form must not be given twice.")
    return dict(pairs)


async def act(service: Service, who: Principal, name: str, fields: Fields) -> str:
    """Change an experiment as a form asks for; return the action in a word.

    Raises
    ------
    Problem
        If the name of the experiment was not typed, or the service refuses.
    """
    service.experiment(who, name)
    action = ACTIONS.get(fields.get("action", ""))
    if action is None:
        raise Problem("invalid_request", "The form must name an action.")
    if fields.get("confirm", "").strip() != name:
        raise Problem(
            "invalid_request", f"Nothing was changed: type the experiment's name, {name}, to act."
        )
    return await action(service, who, name, fields)


Action = Callable[["Service", "Principal", str, Fields], Coroutine[Any, Any, str]]


def _mode(action: Any, said: str) -> Action:
    async def work(service: Service, who: Principal, name: str, fields: Fields) -> str:
        await service.set_mode(who, name, action)
        return said

    return work


async def _pin(service: Service, who: Principal, name: str, fields: Fields) -> str:
    await service.set_mode(who, name, "pin", arm=fields.get("arm", ""))
    return "pinned"


async def _add(service: Service, who: Principal, name: str, fields: Fields) -> str:
    await service.add_arm(who, name, Arm(fields.get("new", "")))
    return "added"


async def _retire(service: Service, who: Principal, name: str, fields: Fields) -> str:
    await service.retire_arm(who, name, fields.get("arm", ""))
    return "retired"


async def _release(service: Service, who: Principal, name: str, fields: Fields) -> str:
    return f"released-{await service.release(who, name)}"


async def _drop(service: Service, who: Principal, name: str, fields: Fields) -> str:
    return f"dropped-{await service.drop(who, name)}"


ACTIONS: dict[str, Action] = {
    "pin": _pin,
    "uniform": _mode("uniform", "uniform"),
    "pause": _mode("pause", "paused"),
    "resume": _mode("resume", "resumed"),
    "add_arm": _add,
    "retire_arm": _retire,
    "release": _release,
    "drop": _drop,
}
"""Actions of forms."""

_SAID = {
    "pinned": "The arm is pinned: every decision returns it.",
    "uniform": "All arms now have the same probability.",
    "paused": "Decisions are now refused.",
    "resumed": "The experiment learns again.",
    "added": "The arm was added.",
    "retired": "The arm was retired.",
}


def said_of(done: str | None) -> str | None:
    """Return the sentence for an action that was done; None for an unknown one.

    Examples
    --------
    >>> said_of("released-3"), said_of("<script>")
    ('3 answers were learned.', None)
    """
    if done is None:
        return None
    word, _, count = done.partition("-")
    if word in ("released", "dropped") and count.isdigit() and count.isascii() and len(count) < 9:
        verb = "learned" if word == "released" else "dropped"
        were = "was" if count == "1" else "were"
        return f"{counted(int(count), 'answer')} {were} {verb}."
    return _SAID.get(done)
