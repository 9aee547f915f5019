"""Logs of the decision service: one JSON object a line, nothing secret in them.

Lines name a key by its id and a decision by its UUID. Keys, tokens and bodies are never logged;
of an exception the log has the type and the places in the code, not the message, which could quote
what a caller sent.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import IO, Any

LOGGER = logging.getLogger("bothworlds.serve")

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """Format a record as one JSON object.

    Examples
    --------
    >>> record = logging.makeLogRecord({"msg": "ready on port %d", "args": (80,), "route": "x"})
    >>> found = json.loads(JsonFormatter().format(record))
    >>> found["message"], found["route"]
    ('ready on port 80', 'x')
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage().strip(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = type(error).__name__
            frames = traceback.extract_tb(error.__traceback__)
            line["where"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(level: str = "info", stream: IO[str] | None = None) -> None:
    """Send the service's log and its server's to a stream, standard error by default."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("bothworlds", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
