"""Policies and environments of the registry in the pages of the reference.

The pages need not list them. The tests read the reference with this; the site is built with it.
"""

from __future__ import annotations

from bothworlds.registry import ENVIRONMENTS, POLICIES

MARKS = {
    "policies": "<!-- every policy of the registry -->",
    "environments": "<!-- every environment of the registry -->",
}


def with_registered(markdown: str) -> str:
    """Put the description of every policy or environment where a page has the mark."""
    described = {
        "policies": [f"{entry.module}.{entry.name}" for entry in POLICIES.values()],
        "environments": [f"bothworlds.environments.{name}" for name in ENVIRONMENTS],
    }
    members = {f"bothworlds.environments.{e.name}": e.members for e in ENVIRONMENTS.values()}
    for kind, mark in MARKS.items():
        blocks = (
            f"::: {name}\n    options: {{ members: [{members.get(name, '')}] }}\n"
            for name in described[kind]
        )
        markdown = markdown.replace(mark, "\n".join(blocks))
    return markdown
