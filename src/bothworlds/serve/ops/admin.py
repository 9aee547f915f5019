"""Administration of a store from a shell, next to a running server or without one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from bothworlds.serve.domain.experiment import short
from bothworlds.serve.domain.keys import FIRST_TENANT, NewKey, key_document
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.opening import using
from bothworlds.serve.store.rows import AuditRow
from bothworlds.serve.store.writer import Writer


def create_key(
    where: str, scopes: Sequence[str], *, label: str = "", tenant: str | None = None
) -> str:
    """Create an API key and return its secret, which is not stored.

    A server that runs knows it a moment later.

    Parameters
    ----------
    where : str
        A path, or ``postgresql://...``; created if missing.
    scopes : sequence of str
        Some of decide, feedback, read, admin.
    label : str
        Label shown in the list of keys.
    tenant : str, optional
        The tenant's name, new if it is; by default the first tenant.

    Raises
    ------
    StoreError
        If the store cannot be opened.
    Problem
        If the scopes, the label or the tenant are not valid.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     create_key(os.path.join(folder, "bothworlds.db"), ["decide"])[:3]
    'bw_'
    """
    made = NewKey.made(1, scopes, label, tenant)
    with using(where, create=True) as store:
        audit = AuditRow(time.time(), 1, None, "create_key", None, "shell", made.change())
        store.writer.administer(audit, made.put)
    return made.secret


def list_keys(where: str) -> list[dict[str, Any]]:
    """Return all API keys of a store with their tenants, without secrets.

    Parameters
    ----------
    where : str
        A path, or ``postgresql://...``.

    Raises
    ------
    StoreError
        If the store cannot be opened.
    """
    with using(where) as store:
        found = store.reader.configuration()
    tenants = {number: name for name, number in found.tenants.items()}
    return [{**key_document(key), "tenant": tenants[key.tenant]} for key in found.keys]


def revoke_key(where: str, id: str) -> None:
    """Revoke an API key, with its decide tokens; servers that run know it a moment later.

    Parameters
    ----------
    where : str
        A path, or ``postgresql://...``.
    id : str
        The key's id: what stands between ``bw_`` and the secret.

    Raises
    ------
    StoreError
        If the store cannot be opened.
    Problem
        If there is no such key, or it was revoked before.
    """
    with using(where) as store:
        now = time.time()
        tenant = next(
            (key.tenant for key in store.reader.configuration().keys if key.id == id), FIRST_TENANT
        )

        def work(writer: Writer) -> None:
            if not writer.revoke_key(tenant, id, now):
                raise Problem("key_not_found", f"There is no valid key {short(id)}.")

        audit = AuditRow(now, tenant, None, "revoke_key", None, "shell", {"key": id})
        store.writer.administer(audit, work)


def begin_incarnation(where: str) -> None:
    """Start a new incarnation of a deployment whose store was restored from a backup.

    Ids that the service gave out after the backup are refused from now on.

    Parameters
    ----------
    where : str
        A path, or ``postgresql://...``; no server may serve from it meanwhile.

    Raises
    ------
    StoreError
        If the store cannot be opened, or is served.
    """
    with using(where, serve=True) as store:
        now = time.time()
        audit = AuditRow(now, 1, None, "restored", None, "shell", {})
        store.writer.administer(audit, lambda writer: writer.begin_incarnation(now, None))
