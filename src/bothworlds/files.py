"""Files that are replaced all at once or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = True) -> Iterator[pathlib.Path]:
    """Give the path of a draft that takes the place of ``path`` when the block ends well.

    After a crash or an exception the old file is there as it was, and no draft is left.  What
    need not last through a power failure, ``durable=False``, is written without waiting for the
    disk.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = pathlib.Path(folder, "note.txt")
    ...     with replacing(target) as draft:
    ...         _ = draft.write_text("done")
    ...     target.read_text()
    'done'
    """
    # A link keeps pointing where it did; its target is replaced.
    target = pathlib.Path(path).resolve()
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        # Made here, so that the user's own mask decides who may read it.
        draft.touch(exist_ok=False)
        yield draft
        if durable:
            with open(draft, "rb") as stream:
                os.fsync(stream.fileno())
        if target.exists():
            os.chmod(draft, target.stat().st_mode & 0o7777)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(target.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    """Make the new name last through a power failure, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
