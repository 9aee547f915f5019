"""Syntax trees of source files, parsed once a process for all tests that read them."""

import ast
import functools


@functools.cache
def parsed(path):
    """Return the tree of a file."""
    return ast.parse(path.read_bytes())
