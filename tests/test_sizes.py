"""Sizes of the house: no class and no file grows beyond what a reader takes in at once."""

import ast
from pathlib import Path

from helpers.parsing import parsed

SOURCES = sorted((Path(__file__).parent.parent / "src").rglob("*.py"))
CLASS, FILE = 500, 850


def test_no_class_and_no_file_is_too_long():
    long = {}
    for path in SOURCES:
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > FILE:
            long[path.name] = lines
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and node.end_lineno - node.lineno + 1 > CLASS:
                long[f"{path.name}::{node.name}"] = node.end_lineno - node.lineno + 1
    assert len(SOURCES) > 300
    assert long == {}
