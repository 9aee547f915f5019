"""Administration of a store from a shell, next to a running server or without one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from bothworlds.serve.domain.keys import NewKey
from bothworlds.serve.store.opening import opened
from bothworlds.serve.store.rows import AuditRow


def create_key(
    where: str, scopes: Sequence[str], *, label: str = "", tenant: str | None = None
) -> str:
    """Create an API key and return its secret, which is kept nowhere.

    A server that runs knows it a moment later.

    Parameters
    ----------
    where : str
        A path, or ``postgresql://...``; made if there is none.
    scopes : sequence of str
        Some of decide, feedback, read, admin.
    label : str
        For people.
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
    with contextlib.closing(opened(where, serve=False)) as store:
        audit = AuditRow(time.time(), 1, None, "create_key", None, "shell", made.change())
        store.writer.administer(audit, made.put)
    return made.secret


def begin_incarnation(where: str) -> None:
    """Begin a new incarnation of a deployment whose store was restored from a backup.

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
    with contextlib.closing(opened(where, create=False, alone=True)) as store:
        now = time.time()
        audit = AuditRow(now, 1, None, "restored", None, "shell", {})
        store.writer.administer(audit, lambda writer: writer.begin_incarnation(now, None))
