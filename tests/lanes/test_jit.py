"""The machine-code cache: never stale, never in the way."""

import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

import bothworlds
from bothworlds.lanes import compile_events
from bothworlds.lanes import jit as compiling

SOURCE = "from bothworlds.lanes.jit import jit\n\n\n@jit\ndef plus(x):\n    return x + {}\n"

# What a process found: the result, hits and misses of the cache, and the warnings.
CALL = """
import json, sys, warnings
sys.path.insert(0, sys.argv[1])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from kernel_of_a_test import plus
    values = [plus(1), plus(1.5)]
print(json.dumps({
    "values": values,
    "hits": sum(plus.stats.cache_hits.values()),
    "misses": sum(plus.stats.cache_misses.values()),
    "warnings": [[w.category.__name__, str(w.message)] for w in caught],
}))
"""


def python(script, *arguments, **environment):
    """Run a script in another process and return what it printed."""
    settings = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | environment
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=settings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def call(folder, **environment):
    """Call the kernel of a test in another process."""
    return json.loads(python(CALL, folder, **environment))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module with one kernel, and a function that loads it again."""
    path = tmp_path / "kernel_of_a_test.py"
    path.write_text(SOURCE.format(1))
    monkeypatch.syspath_prepend(str(tmp_path))
    # Code is kept next to its module, whatever NUMBA_CACHE_DIR names for the other kernels.
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)

    def load():
        sys.modules.pop("kernel_of_a_test", None)
        importlib.invalidate_caches()
        return importlib.import_module("kernel_of_a_test")

    yield path, load
    sys.modules.pop("kernel_of_a_test", None)


def hits(module):
    return sum(module.plus.stats.cache_hits.values())


def misses(module):
    return sum(module.plus.stats.cache_misses.values())


def test_a_second_process_finds_the_machine_code(module):
    _, load = module
    assert load().plus(1) == 2
    again = load()
    assert again.plus(1) == 2
    assert hits(again) == 1


def test_nothing_is_looked_for_before_the_first_call(module):
    path, load = module
    load()
    assert not list(path.parent.rglob("*.nb?"))


def test_a_change_anywhere_in_the_kernels_makes_the_cache_miss(module, monkeypatch):
    _, load = module
    assert load().plus(1) == 2
    monkeypatch.setattr(compiling.sources, "digest", lambda *rooms: b"another version")
    again = load()
    assert again.plus(1) == 2
    assert misses(again) == 1


def damages(content):
    """Yield ways in which a file can be broken."""
    for length in (0, 1, 40, len(content) // 2, len(content) - 1):
        yield content[:length]
    for place in (3, len(content) // 3, len(content) // 2, len(content) - 40, len(content) - 2):
        yield content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
    yield b"left by something else"


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_file_is_compiled_again_and_replaced(module, suffix):
    path, load = module
    assert load().plus(1) == 2
    (file,) = path.parent.rglob(f"*.{suffix}")
    whole = file.read_bytes()
    for broken in damages(whole):
        file.write_bytes(broken)
        again = load()
        assert again.plus(1) == 2
        assert (hits(again), misses(again)) == (0, 1), len(broken)
        healed = load()
        assert healed.plus(1) == 2
        assert (hits(healed), misses(healed)) == (1, 0), len(broken)


@pytest.mark.processes
def test_a_truncated_object_file_stops_no_other_process(module):
    path, _ = module
    assert call(path.parent)["misses"] == 2
    for file in path.parent.rglob("*.nbc"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    found = call(path.parent)
    assert (found["values"], found["hits"], found["misses"]) == ([2, 2.5], 0, 2)
    found = call(path.parent)
    assert (found["values"], found["hits"], found["misses"]) == ([2, 2.5], 2, 0)
    assert found["warnings"] == []


def test_code_is_never_taken_for_that_of_other_types(module):
    """As when two processes gave one name to two files at the same time."""
    path, load = module
    first = load()
    assert (first.plus(1), first.plus(1.5)) == (2, 2.5)
    one, two = sorted(path.parent.rglob("*.nbc"))
    shutil.copy(two, one)
    again = load()
    assert (again.plus(1), again.plus(1.5)) == (2, 2.5)
    assert (hits(again), misses(again)) == (1, 1)


# --- no place to keep it ---------------------------------------------------------------------


def unwritable(folder):
    """Put a file where every folder for byte code belongs, which binds even the superuser."""
    for place in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        (place / "__pycache__").write_text("")
    return {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull}


@pytest.mark.processes
def test_without_a_folder_code_stays_in_memory_with_one_warning(module):
    path, _ = module
    nowhere = unwritable(path.parent)
    for _ in range(2):
        found = call(path.parent, **nowhere)
        assert (found["values"], found["hits"], found["misses"]) == ([2, 2.5], 0, 2)
        ((category, sentence),) = found["warnings"]
        assert category == "CacheWarning"
        assert "NUMBA_CACHE_DIR" in sentence


@pytest.mark.processes
def test_the_folder_that_the_user_names_is_used(module, tmp_path):
    path, _ = module
    where = unwritable(path.parent) | {"NUMBA_CACHE_DIR": str(tmp_path / "named")}
    assert call(path.parent, **where)["misses"] == 2
    found = call(path.parent, **where)
    assert (found["hits"], found["warnings"]) == (2, [])


@pytest.mark.processes
def test_a_folder_that_can_only_be_read_is_read(module, tmp_path):
    path, _ = module
    assert call(path.parent, NUMBA_CACHE_DIR=str(tmp_path / "named"))["misses"] == 2
    sealed = (
        "import tempfile\n"
        "def refuse(*args, **kwargs):\n    raise PermissionError(13, 'Permission denied')\n"
        "tempfile.TemporaryFile = refuse\n"
    )
    script = sealed + CALL.replace("plus(1.5)]", "plus(1.5), plus(True)]")
    found = json.loads(python(script, path.parent, NUMBA_CACHE_DIR=str(tmp_path / "named")))
    assert (found["hits"], found["misses"]) == (2, 1)
    ((category, sentence),) = found["warnings"]
    assert category == "CacheWarning"
    assert "Permission denied" in sentence


def copied(folder):
    """Return a copy of the package in a folder, without byte code and machine code."""
    package = Path(bothworlds.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "*.nb?")
    return Path(shutil.copytree(package, folder / "bothworlds", ignore=ignored))


@pytest.mark.processes
def test_copies_of_the_package_share_code_if_their_kernels_are_the_same(tmp_path):
    script = """
from bothworlds.policies.late import mark
print(mark(0), sum(mark.stats.cache_hits.values()), mark.__code__.co_filename)
"""
    copies = [copied(tmp_path / name) for name in ("one", "other", "edited")]
    edited = copies[-1] / "policies" / "late.py"
    edited.write_text(edited.read_text().replace("1 << ((index", "2 << ((index"))
    found = []
    for copy in copies:
        folder, named = str(copy.parent), str(tmp_path / "named")
        printed = python(script, PYTHONPATH=folder, NUMBA_CACHE_DIR=named).split()
        assert printed.pop().startswith(folder)
        found.append([int(word) for word in printed])
    # The second finds the code of the first; the third has another kernel and compiles it.
    assert found == [[128, 0], [128, 1], [256, 0]]


@pytest.mark.processes
def test_a_bandit_runs_from_a_package_that_cannot_be_written(tmp_path):
    copy = copied(tmp_path)
    script = """
import sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import bothworlds as bw
    assert bw.__file__.startswith(sys.argv[1]), bw.__file__
    bandit = bw.Bandit(bw.Uniform(), 3, seed=1)
    bandit.tell(bandit.ask(), loss=0.5)
print([w.category.__name__ for w in caught])
"""
    found = python(script, tmp_path, PYTHONPATH=str(tmp_path), **unwritable(copy))
    assert found == "['CacheWarning']\n"


@pytest.mark.processes
def test_a_numba_without_these_parts_compiles_in_memory(module):
    path, _ = module
    script = "import sys\nsys.modules['bothworlds.lanes.code_cache'] = None\n" + CALL
    found = json.loads(python(script, path.parent))
    assert (found["values"], found["hits"]) == ([2, 2.5], 0)
    assert [category for category, _ in found["warnings"]] == ["CacheWarning"]


# --- a person who waits ----------------------------------------------------------------------

WAIT = """
import sys
sys.path.insert(0, sys.argv[1])
from bothworlds.lanes import compile_events
compile_events.PATIENCE = float(sys.argv[2])
from kernel_of_a_test import plus
plus(1), plus(1.5), plus(True)
"""


def seen_on_a_terminal(folder, patience):
    """Return what a terminal shows on standard error while the kernel of a test compiles."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT, str(folder), str(patience)], stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other side is closed
        pass
    finally:
        os.close(ours)
    assert process.wait() == 0
    return shown.decode()


@pytest.mark.processes
def test_a_long_compilation_says_so_once_on_a_terminal(module):
    path, _ = module
    shown = seen_on_a_terminal(path.parent, 0.0)
    assert shown.count("bothworlds: compiling kernel ") == 1
    assert "later runs start at once" in shown
    assert seen_on_a_terminal(path.parent, 0.0) == ""


@pytest.mark.processes
def test_a_short_compilation_and_a_pipe_hear_nothing(module):
    path, _ = module
    assert seen_on_a_terminal(path.parent, 3600.0) == ""
    shutil.rmtree(path.parent / "__pycache__")
    command = [sys.executable, "-c", WAIT, str(path.parent), "0"]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


class Clock:
    """A clock that a test moves on, and alarms that ring by it."""

    def __init__(self):
        self.now, self.alarms = 0.0, []

    def timer(self, seconds, say, arguments):
        def ring():
            say(*arguments)

        alarm = SimpleNamespace(start=lambda: self.alarms.append((due, ring)))
        due = self.now + seconds
        alarm.cancel = self.alarms.clear
        return alarm

    def advance(self, seconds):
        self.now += seconds
        for due, ring in self.alarms:
            if due <= self.now:
                ring()


class Event:
    data = {"dispatcher": None}  # noqa: RUF012


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_in_small_steps_while_kernels_compile(collects):
    notice = compile_events.CompileNotice(lambda dispatcher: None)
    before, thresholds, steps = gc.isenabled(), gc.get_threshold(), []

    def collected(phase, details):
        if phase == "stop":
            steps.append((details["generation"], details["collected"]))

    gc.collect()
    gc.callbacks.append(collected)
    try:
        (gc.enable if collects else gc.disable)()
        for happens in (notice.on_start, notice.on_start, notice.on_end):
            happens(Event)
            assert gc.get_threshold()[0] == compile_events.YOUNG
            for _ in range(2 * compile_events.YOUNG):
                cycle = []
                cycle.append(cycle)
        assert {generation for generation, _ in steps} <= {0}
        assert all(count <= 2 * compile_events.YOUNG for _, count in steps)
        notice.on_end(Event)
        assert gc.get_threshold() == thresholds
        assert gc.isenabled() == collects
        # The rest was collected by the thread that compiled, unless the user collects nothing.
        assert bool(steps) == collects
        assert not collects or steps[-1][0] == 1
    finally:
        gc.callbacks.remove(collected)
        (gc.enable if before else gc.disable)()


def test_the_notice_adds_up_what_kernels_take(monkeypatch, capsys):
    monkeypatch.setattr(compile_events, "watched", lambda: True)
    monkeypatch.setattr(compile_events, "PATIENCE", 0.4)
    clock = Clock()
    monkeypatch.setattr(compile_events, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(compile_events.threading, "Timer", clock.timer)
    notice = compile_events.CompileNotice(lambda dispatcher: "Kernel {}.")
    heard = []
    for _ in range(4):
        notice.on_start(Event)
        notice.on_start(Event)
        notice.on_end(Event)
        clock.advance(0.15)
        notice.on_end(Event)
        heard.append(capsys.readouterr().err)
    assert heard == ["", "", "Kernel 3.\n", ""]


NESTED = (
    "from bothworlds.lanes.jit import jit\n\n\n"
    "@jit\ndef half(x):\n    return x / 2\n\n\n"
    "@jit\ndef quarter(x):\n    return half(half(x))\n"
)

NESTED_CALL = """
import sys
sys.path.insert(0, sys.argv[1])
from nested_of_a_test import half, quarter
first = [quarter(6.0)]
alone = len(half.signatures)
print(first + [half(6.0), alone, sum(quarter.stats.cache_hits.values())])
"""


@pytest.mark.processes
def test_python_can_call_what_compiled_code_called_first(tmp_path):
    # Compiled code calls a twin that Python could not call; the two are kept in files of their own.
    (tmp_path / "nested_of_a_test.py").write_text(NESTED)
    for hits in (0, 1):
        assert python(NESTED_CALL, tmp_path).strip() == f"[1.5, 3.0, 0, {hits}]"
    kept = {path.name.split("-")[0] for path in (tmp_path / "__pycache__").glob("*.nbi")}
    assert kept == {f"nested_of_a_test.{name}" for name in ("half", "quarter")}
    flavours = [path.name for path in (tmp_path / "__pycache__").glob("*half*.nbi")]
    assert sum(".bare." in name for name in flavours) == 1 and len(flavours) == 2


PARTS = (
    "from bothworlds.lanes.jit import jit\n\n\n"
    "@jit\ndef plus(x, k):\n    return x + k\n\n\n"
    "@jit\ndef six(x):\n    return plus(plus(plus(x, 1), 2), 3)\n\n\n"
    "@jit\ndef ten(x):\n    return plus(six(x), 4)\n"
)

PARTS_CALL = """
import sys
sys.path.insert(0, sys.argv[1])
from numba.core import event
from parts_of_a_test import six, ten

class Compiled(event.Listener):
    names = []
    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

event.register("numba:compile", Compiled())
wanted = {"six": six, "ten": ten}[sys.argv[2]]
print([wanted(0.5), wanted(1), sorted(Compiled.names)])
"""


@pytest.mark.processes
def test_a_part_is_compiled_once_for_all_numbers_and_all_callers(tmp_path):
    (tmp_path / "parts_of_a_test.py").write_text(PARTS)
    # For a float and for a whole number, and not for 1, for 2 and for 3.
    found = python(PARTS_CALL, tmp_path, "six").strip()
    assert found == "[6.5, 7, ['plus', 'plus', 'six', 'six']]"
    # Another process: `plus` is found on disk, and linked into what was not compiled yet.
    found = python(PARTS_CALL, tmp_path, "ten").strip()
    assert found == "[10.5, 11, ['six', 'six', 'ten', 'ten']]"
    found = python(PARTS_CALL, tmp_path, "ten").strip()
    assert found == "[10.5, 11, []]"
    # For another processor, the parts are those that are there, and the machine code is not.
    other = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    found = python(PARTS_CALL, tmp_path, "ten", **other).strip()
    assert found == "[10.5, 11, ['ten', 'ten']]"


def test_a_part_is_no_machine_code():
    from bothworlds.lanes.jit import jit
    from bothworlds.lanes.parts import Part

    @jit
    def inner(x):
        return 2.0 * x

    @jit
    def outer(x):
        return inner(x) + 1.0

    assert outer(3.0) == 7.0
    (whole,) = outer.overloads.values()
    assert not isinstance(whole.library, Part) and inner.overloads == {}
    part, *same = {each for each in whole.library._linking_libraries if isinstance(each, Part)}
    assert same == []
    assert part.codegen._engine.is_symbol_defined(whole.fndesc.llvm_func_name)
    names = [each.name for each in part.get_defined_functions()]
    assert names and not any(map(part.codegen._engine.is_symbol_defined, names))


def test_machine_code_is_called_by_its_address_and_its_errors_come_through():
    from numba.core import types

    from bothworlds.lanes.jit import jit, placed_code
    from bothworlds.lanes.kernels import calling

    shape = types.float64(types.int64, types.float64)
    invoke = calling(lambda lanes: shape)

    @jit
    def power(n, x):
        if n < 0:
            raise ValueError("n must be at least 0")
        return x**n

    @jit
    def through(code, n, x):
        return invoke(code, (n, x))

    place, holder = placed_code(power, shape)
    assert power.overloads == {} and list(holder.overloads) == [shape.args]
    assert through(place, 3, 1.5) == 1.5**3
    # Arguments become those of the shape: a whole number is a number.
    assert through(place, 2, 3) == 9.0
    with pytest.raises(ValueError, match="at least 0"):
        through(place, -1, 1.5)


@pytest.mark.processes
def test_without_the_compiler_the_library_says_what_to_do():
    program = "import bothworlds as bw\nbw.Bandit(bw.TsallisINF(), arms=2)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "bothworlds.errors.KernelError: The environment variable NUMBA_DISABLE_JIT"
    )
