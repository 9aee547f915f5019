"""Policies of the registry in the pages of the reference, which need not list them.

The tests read the reference with this; the site is built with it.
"""

from __future__ import annotations

from bothworlds.registry import POLICIES

MARK = "<!-- every policy of the registry -->"


def with_policies(markdown: str) -> str:
    """Put the description of every policy where a page has the mark."""
    described = (
        f"::: {entry.module}.{entry.name}\n    options: {{ members: false }}\n"
        for entry in POLICIES.values()
    )
    return markdown.replace(MARK, "\n".join(described))
