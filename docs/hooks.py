"""Hooks of MkDocs beyond its plugins: run the tutorials, and turn TeX into MathML."""

from __future__ import annotations

import html
import re
import tempfile
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

from blocks import run_blocks
from registered import with_registered

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


RUN = ("scale.md",)
"""Pages besides the tutorials whose blocks are run."""


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Describe the policies; run a tutorial and put what each block printed and drew under it."""
    here = page.file.src_uri
    if not here.startswith("tutorials/") and here not in RUN:
        return with_registered(markdown)
    name = Path(here).stem
    with tempfile.TemporaryDirectory() as folder:
        ran, _ = run_blocks(markdown, name, Path(folder))
        shown, last = [], 0
        for block in ran:
            shown.append(markdown[last : block.end])
            if block.printed.strip():
                shown.append(f"\n\n``` {{.text .output}}\n{block.printed.rstrip()}\n```\n")
            for picture in block.pictures:
                uri = (Path(here).parent / f"{name}-{picture.name}").as_posix()
                files.append(File.generated(config, uri, content=picture.read_bytes()))
                shown.append(f"\n\n![{picture.stem}]({name}-{picture.name})\n")
            last = block.end
    return "".join([*shown, markdown[last:]])


def on_page_content(content: str, **_: Any) -> str:
    """Replace formulas by MathML, which browsers show without scripts."""

    def mathml(found: re.Match[str]) -> str:
        display = "block" if found[2] == "[" else "inline"
        made = convert(html.unescape(found[3]).strip(), display=display)
        return f'<div class="formula">{made}</div>' if display == "block" else made

    return FORMULA.sub(mathml, content)
