"""Build the documentation into ``site/``: ``python docs/make_site.py``.

Zensical turns Markdown into pages. This script does what it has no option for: it runs the
tutorials and shows what their blocks printed and drew, lists the registered policies, writes
formulas as MathML, and publishes the Markdown of every page next to it, with an ``llms.txt``.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from latex2mathml.converter import convert

from blocks import run_blocks
from registered import with_registered

ROOT = Path(__file__).parents[1]
PREPARED = ROOT / "build" / "docs"
SITE = ROOT / "site"
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
SNIPPET = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
RUN = ("tutorials/", "coming-from/", "how-to/ab_testing.md", "scale.md")
"""Pages whose blocks are run, or the folders of such pages."""


def prepare() -> None:
    """Copy the pages to ``build/docs``, with the outputs of the tutorials and the registry."""
    shutil.rmtree(PREPARED, ignore_errors=True)
    unused = shutil.ignore_patterns("*.py", "__pycache__", "data", "pictures")
    shutil.copytree(ROOT / "docs", PREPARED, ignore=unused)
    for path in sorted(PREPARED.rglob("*.md")):
        here = path.relative_to(PREPARED).as_posix()
        text = SNIPPET.sub(
            lambda found: (ROOT / found[1]).read_text("utf-8"), path.read_text("utf-8")
        )
        text = with_registered(text)
        if here.startswith(RUN):
            text = with_outputs(text, path)
        path.write_text(text, encoding="utf-8")


def with_outputs(markdown: str, path: Path) -> str:
    """Run the blocks of a page; return it with what each block printed and drew below it."""
    shown, last = [], 0
    with tempfile.TemporaryDirectory() as folder:
        ran, _ = run_blocks(markdown, path.stem, Path(folder))
        for block in ran:
            shown.append(markdown[last : block.end])
            if block.printed.strip():
                shown.append(f"\n\n``` {{.text .output}}\n{block.printed.rstrip()}\n```\n")
            for picture in block.pictures:
                name = f"{path.stem}-{picture.name}"
                shutil.copy(picture, path.parent / name)
                shown.append(f"\n\n![{picture.stem}]({name})\n")
            last = block.end
    return "".join([*shown, markdown[last:]])


def with_mathml(content: str) -> str:
    """Replace formulas by MathML, which browsers show without scripts."""

    def mathml(found: re.Match[str]) -> str:
        display = "block" if found[2] == "[" else "inline"
        made = convert(html.unescape(found[3]).strip(), display=display)
        return f'<div class="formula">{made}</div>' if display == "block" else made

    return FORMULA.sub(mathml, content)


def publish_markdown() -> None:
    """Put the Markdown of every page into the site, and ``llms.txt``, which lists the pages."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    for title, page in listed(config["nav"]):
        if page is None:
            lines += ["", f"## {title}", ""]
        else:
            target = SITE / page
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PREPARED / page, target)
            lines.append(f"- [{title}]({page})")
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def listed(nav: list[Any]) -> list[tuple[str, str | None]]:
    """Return the titles of the navigation with their pages; a group has none."""
    found: list[tuple[str, str | None]] = []
    for entry in nav:
        if isinstance(entry, str):
            found.append(("Overview", entry))
            continue
        ((title, below),) = entry.items()
        found += [(title, below)] if isinstance(below, str) else [(title, None), *listed(below)]
    return found


def main() -> None:
    """Build the site; a warning of any step ends the build."""
    prepare()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    told = done.stdout + done.stderr
    # Zensical prints what griffe finds in docstrings and continues.
    if done.returncode or "griffe:" in told:
        sys.exit(f"The site was not built.\n{told}")
    for path in SITE.rglob("*.html"):
        path.write_text(with_mathml(path.read_text("utf-8")), encoding="utf-8")
    publish_markdown()


if __name__ == "__main__":
    main()
