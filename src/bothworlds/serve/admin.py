"""Administration of a store from a shell, beside a running server or without one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace

from bothworlds.serve.domain.keys import made_key
from bothworlds.serve.store.opening import opened
from bothworlds.serve.store.rows import AuditRow


def create_key(
    where: str, scopes: Sequence[str], *, label: str = "", tenant: str | None = None
) -> str:
    """Make an API key and return its secret, which is kept nowhere.

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
        If the scopes, the label or the tenant are none.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     create_key(os.path.join(folder, "bothworlds.db"), ["decide"])[:3]
    'bw_'
    """
    secret, key = made_key(1, scopes, label)
    with contextlib.closing(opened(where, serve=False)) as store:

        def work() -> None:
            owner = 1 if tenant is None else store.put_tenant(tenant, key.created_at)
            store.put_key(replace(key, tenant=owner))

        change = {"key": key.id, "scopes": sorted(key.scopes), "label": label, "tenant": tenant}
        store.administer(AuditRow(time.time(), 1, None, "create_key", None, "shell", change), work)
    return secret
