"""Decision service: decisions over HTTP, with an embedded store or PostgreSQL.

Needs the extra ``serve``. `bothworlds.client` is what a program that asks for decisions imports.
`draw` and `contribution` are the two steps of the mathematics, for services of another kind; they
need no extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bothworlds.lazy import lazily

if TYPE_CHECKING:
    from bothworlds.serve.domain.draws import draw
    from bothworlds.serve.domain.sums import contribution

__all__ = ["contribution", "draw"]

# Looked up when first used: the commands of the service must not wait for Numba.
if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"contribution": "domain.sums", "draw": "domain.draws"})
