"""The machine-code cache: never stale, never in the way."""

import importlib
import sys

import pytest

from bothworlds.lanes import jit as compiling

SOURCE = "from bothworlds.lanes.jit import jit\n\n\n@jit\ndef plus(x):\n    return x + {}\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module with one kernel, and a function that loads it anew."""
    path = tmp_path / "kernel_of_a_test.py"
    path.write_text(SOURCE.format(1))
    monkeypatch.syspath_prepend(str(tmp_path))

    def load():
        sys.modules.pop("kernel_of_a_test", None)
        importlib.invalidate_caches()
        return importlib.import_module("kernel_of_a_test")

    yield path, load
    sys.modules.pop("kernel_of_a_test", None)


def test_a_second_process_finds_the_machine_code(module):
    _, load = module
    assert load().plus(1) == 2
    again = load()
    assert again.plus(1) == 2
    assert sum(again.plus.stats.cache_hits.values()) == 1


def test_a_change_anywhere_in_the_kernels_makes_the_cache_miss(module, monkeypatch):
    _, load = module
    assert load().plus(1) == 2
    monkeypatch.setattr(compiling.sources, "digest", lambda *rooms: b"another version")
    again = load()
    assert again.plus(1) == 2
    assert sum(again.plus.stats.cache_misses.values()) == 1


def test_an_unreadable_cache_is_replaced(module):
    path, load = module
    assert load().plus(1) == 2
    indices = list((path.parent / "__pycache__").glob("*.nbi"))
    assert indices
    for index in indices:
        index.write_bytes(b"left by something else")
    again = load()
    assert again.plus(1) == 2
    assert sum(again.plus.stats.cache_misses.values()) == 1
    healed = load()
    assert healed.plus(1) == 2
    assert sum(healed.plus.stats.cache_hits.values()) == 1
