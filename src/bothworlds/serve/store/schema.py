"""Tables of a store: their version, and the numbered files that migrate them."""

from __future__ import annotations

import os
import time
from importlib import resources

from bothworlds.errors import StoreError
from bothworlds.serve.store.writer import Writer


def version(writer: Writer) -> int:
    """Return the version of the tables, 0 for an empty store."""
    if not writer.has_schema():
        return 0
    return int(writer.rows("SELECT COALESCE(MAX(version), 0) FROM schema_version")[0][0])


def scripts(writer: Writer) -> list[tuple[int, str]]:
    """Return the numbered files of this dialect, number and text."""
    folder = resources.files("bothworlds.serve.store") / "sql" / writer.dialect
    named = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
    return [(int(name.split("_")[0]), (folder / name).read_text("utf-8")) for name in named]


def migrate(writer: Writer) -> tuple[int, int]:
    """Migrate the tables to the version of this program; return the versions before and after.

    All files that are missing are one transaction.
    """
    files = scripts(writer)
    latest = files[-1][0]
    with writer.transaction():
        if writer.lock_tables is not None:
            writer.execute(writer.lock_tables)
        before = version(writer)
        if before > latest:
            raise StoreError(
                f"The store has tables of version {before}, this program knows {latest}: a "
                "newer version wrote it. Nothing was changed."
            )
        if before < latest:
            writer.check_not_served()
        for number, script in files:
            if number <= before:
                continue
            if number == 1:
                writer.run_script(
                    "CREATE TABLE schema_version "
                    "(version INTEGER PRIMARY KEY, applied_at DOUBLE PRECISION NOT NULL);"
                )
            writer.run_script(script)
            writer.execute("INSERT INTO schema_version VALUES (?, ?)", (number, time.time()))
        if before == 0:
            now = time.time()
            writer.execute(
                "INSERT INTO deployment (id, unit_key, config_version) VALUES (1, ?, 1)",
                (os.urandom(32),),
            )
            writer.execute("INSERT INTO tenant VALUES (1, 'default', ?)", (now,))
            writer.execute("INSERT INTO token_key VALUES (1, ?, ?, NULL)", (os.urandom(32), now))
            writer.begin_incarnation(now, None)
    return before, latest


def check_version(writer: Writer) -> None:
    """Refuse tables that this program does not know."""
    found, latest = version(writer), scripts(writer)[-1][0]
    if found != latest:
        advice = "run: bothworlds serve migrate" if found < latest else "use a newer bothworlds"
        raise StoreError(
            f"The store has tables of version {found}, this program needs {latest}; {advice}."
        )
