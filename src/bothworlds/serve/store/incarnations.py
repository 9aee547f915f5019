"""Incarnations: spans of a deployment's history in which its store never went back in time.

The salt of an incarnation is in every signature. A store that lost something starts another one,
and then accepts earlier ids up to the last that it knows for certain.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bothworlds.serve.store.rows import AuditRow, Connection

LAST_ID = b"\xff" * 16
"""An id after all others."""


class Incarnations(Connection, ABC):
    """Part of a writer that starts incarnations."""

    @abstractmethod
    def administer(
        self, audit: AuditRow, change: Callable[[Any], Any], expected: tuple[int, int] | None = None
    ) -> Any:
        """Run a change of the configuration and its audit row as one transaction."""

    def begin_incarnation(self, at: float, timeline: str | None, until: bytes = LAST_ID) -> None:
        """Start a new incarnation: ids that the store cannot know are refused for good.

        For a transaction. The inputs of a decision were committed before it, and before every
        later decision: an id before the newest decision in the store is of no time that was lost.
        Decisions after ``until`` may have been made after that time.
        """
        self.execute(
            "UPDATE incarnation SET ended = ? WHERE ended IS NULL", (self.last_certain_id(until),)
        )
        self.execute(
            "INSERT INTO incarnation (salt, started_at, timeline, ended) VALUES (?, ?, ?, NULL)",
            (os.urandom(16), at, timeline),
        )

    def leave_incarnation(self, salt: bytes, why: str, until: bytes = LAST_ID) -> None:
        """Start a new incarnation after that of ``salt``, unless another replica did.

        Its store has lost something after the id ``until``, and does not know it.
        """
        current = "SELECT salt, timeline FROM incarnation WHERE ended IS NULL"

        def change(writer: Incarnations) -> None:
            found, timeline = writer.rows(current)[0]
            if found != salt:
                raise LookupError(salt)
            writer.begin_incarnation(writer.now(), timeline, until)

        audit = AuditRow(time.time(), 1, None, "restored", None, "store", {"store": why})
        with suppress(LookupError):
            self.administer(audit, change)

    def now(self) -> float:
        """Return the time by the clock of the database."""
        return time.time()

    def last_certain_id(self, until: bytes) -> bytes:
        """Return the last id that is certainly older than everything the store may have lost."""
        return self.newest_id(until)

    def newest_id(self, until: bytes = LAST_ID) -> bytes:
        """Return the newest id in the log, up to one; no bytes if there is none."""
        found = [
            id
            for (experiment,) in self.rows("SELECT id FROM experiment")
            for (id,) in self.rows(
                "SELECT id FROM decision WHERE experiment = ? AND id <= ? ORDER BY id DESC LIMIT 1",
                (experiment, until),
            )
        ]
        return max(found, default=b"")
