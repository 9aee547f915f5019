"""Write the files that are derived from others: ``python tools/generate.py``.

The registry describes every policy once. Type checkers need plain imports, which are written from
it, and the README a table, whose rows end the docstrings of the policies' modules. The blocking
client is written from the asynchronous one. A test compares them with what is committed.
"""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from bothworlds.registry import POLICIES  # noqa: E402

HEAD = "| Policy | Stochastic regret | Adversarial regret | Source |\n|---|---|---|---|\n"
DUELS = "| `Sparring(TsallisINF())` | Σ log T / Δ for duels | √(KT) for duels | Corollary 2 |"
"""The row of the wrapper for duels, which is no entry of the registry."""


def typing_module() -> str:
    """Return the module by which type checkers know the policies."""
    entries = sorted(POLICIES.values(), key=lambda entry: entry.module)
    imports = "\n".join(f"from {entry.module} import {entry.name}" for entry in entries)
    # As ruff sorts them: constants, classes, the others.
    names = sorted(POLICIES, key=lambda name: (not name.isupper(), name))
    listed = "".join(f'    "{name}",\n' for name in names)
    return (
        '"""Policies of the package as plain imports, by which type checkers know them.\n\n'
        'Written by ``tools/generate.py`` from `bothworlds.registry`.\n"""\n\n'
        f"{imports}\n\n__all__ = [\n{listed}]\n"
    )


def rows_of(module: str) -> list[str]:
    """Return a policy's rows of the README's table: the end of its module's docstring."""
    path = Path(find_spec(module).origin)
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    rows = text.partition("\nREADME:\n\n")[2]
    return [" ".join(row.split()) for row in rows.split("\n\n") if row]


def with_table(readme: str) -> str:
    """Return the README with the rows that the policies have for its table of algorithms."""
    before, rest = readme.split(HEAD)
    after = rest[rest.index("\n\n") :]
    rows = [row for entry in POLICIES.values() for row in rows_of(entry.module)]
    return before + HEAD + "\n".join([*rows, DUELS]) + after


BLOCKING = {
    'is awaited, for programs built on asyncio."""': "blocks, safe to share between threads.\n\n"
    'Written by ``tools/generate.py`` from `bothworlds.client.asynchronous`.\n"""',
    ", without blocking.": ".",
    "the default.\n    f": "the default. Looking up the name of the host is not counted.\n    f",
    "    >>> import asyncio\n": "",
    "asyncio.run(main())": "main()",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "AsyncClient": "Client",
    "AsyncTransport": "Transport",
    "async def ": "def ",
    "async with ": "with ",
    "await ": "",
}
"""What the blocking client has in place of the asynchronous one's text."""


def blocking_client() -> str:
    """Return the module of the blocking client."""
    text = (ROOT / "src/bothworlds/client/asynchronous.py").read_text(encoding="utf-8")
    for old, new in BLOCKING.items():
        if old not in text:
            raise ValueError(f"The asynchronous client has no {old!r}; adapt BLOCKING.")
        text = text.replace(old, new)
    return text


def generated() -> dict[Path, str]:
    """Return the content of every derived file by its path."""
    readme = ROOT / "README.md"
    return {
        ROOT / "src/bothworlds/policies/_typing.py": typing_module(),
        ROOT / "src/bothworlds/client/blocking.py": blocking_client(),
        readme: with_table(readme.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for path, content in generated().items():
        path.write_text(content, encoding="utf-8")
