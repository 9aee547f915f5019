"""Selection and order of the tests: ``pytest --core`` and ``pytest --shuffle SEED``.

With ``--core``, tests run that need nothing but the core dependencies. A file whose imports reach a
package of an extra is left out, found by following them; so are the rooms of the extras. A test
that needs an extra among others that do not is marked `extra`. Nothing else is skipped: any other
test must pass without any extra.

With ``--shuffle``, files run in a random order, and so do the tests of each: no test may depend on
another one.

Tests marked `locked` compare with files that were recorded with one version of Python, and run with
that one alone.
"""

import ast
import functools
import gc
import os
import random
import shutil
import sys
import time
from pathlib import Path

# A worker per core runs tests; threads of BLAS would only spin in each other's way. Set before
# anything imports NumPy, and inherited by the processes that tests start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Clones with the same kernels share their machine code. Inherited as well.
CODE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bothworlds" / "tests"
os.environ.setdefault("NUMBA_CACHE_DIR", str(CODE))

KEPT = 8
"""Folders of machine code that are kept, each up to 300 MB: those tested last."""

RECORDED_WITH = (3, 11)
"""Version of Python with which tests marked `locked` recorded what they compare with."""

ROOT = Path(__file__).parent

CORE = {
    "bothworlds",
    "hypothesis",
    "llvmlite",
    "numba",
    "numpy",
    "pytest",
    *sys.stdlib_module_names,
}
"""Packages that the core has, and those that every test may use."""

ROOMS = ("cli", "demo", "serve", "docs", "golden", "interop", "plotting", "typing")
"""Rooms of an extra, and after the first three those of which only the tests need one."""

EXAMPLES = (
    "src/bothworlds/campaign/store.py",
    "src/bothworlds/campaign/store_view.py",
    "src/bothworlds/client/openfeature.py",
    "src/bothworlds/interop/gymnasium.py",
    "src/bothworlds/interop/litellm.py",
    "src/bothworlds/interop/river.py",
    "src/bothworlds/logs/parquet.py",
    "src/bothworlds/plotting/arms.py",
    "src/bothworlds/plotting/draw.py",
    "src/bothworlds/plotting/many.py",
    "src/bothworlds/plotting/pairs.py",
    "src/bothworlds/plotting/result.py",
    "src/bothworlds/simulation/export.py",
)
"""Files that import a package of an extra only when one of their examples runs."""


def imported(source):
    """Return the modules that a module needs as soon as it is imported itself."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            # A name taken from a package may be a module.
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@functools.cache
def modules_of(path):
    """Return the modules that a file needs."""
    return imported(path.read_text(encoding="utf-8"))


@functools.cache
def files_of(module):
    """Return the files of this repository that are loaded with a module."""
    parts = module.split(".")
    places = [
        ROOT.joinpath(folder, *parts[:end])
        for folder in ("src", "", "tests", "docs")
        for end in range(1, len(parts) + 1)
    ]
    files = [p for place in places for p in (place / "__init__.py", place.with_suffix(".py"))]
    return [p for p in files if p.exists()]


def reached(path):
    """Return all files that are loaded with a file, itself among them."""
    found, waiting = set(), [path]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            for module in modules_of(each):
                waiting += files_of(module)
    return found


@functools.cache
def extras_of(path):
    """Return the packages of an extra that are loaded with a file."""
    modules = {module for file in reached(path) for module in modules_of(file)}
    return {m.partition(".")[0] for m in modules if not files_of(m)} - CORE


def in_a_room(path):
    """Return whether a file or folder belongs to a room of an extra."""
    first, *others = (*path.relative_to(ROOT).parts, "")
    return (first == "src" and others[1:2] and others[1] in ROOMS[:3]) or (
        first == "tests" and others[0] in ROOMS
    )


def needs_an_extra(path):
    """Return whether a file or folder is left out where only the core is installed."""
    if in_a_room(path) or path.relative_to(ROOT).as_posix() in EXAMPLES:
        return True
    if path.suffix != ".py" or path.parent == ROOT:
        return False
    return bool(extras_of(path))


def pytest_addoption(parser):
    """Add the option."""
    parser.addoption("--core", action="store_true", help="leave out what needs an extra")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run in a random order")


def changed_at(folder):
    """Return when a folder was changed; 0 for one that another run of the tests has removed."""
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def pytest_sessionstart(session):
    """Remove the machine code of all but the latest sources that were tested."""
    if hasattr(session.config, "workerinput") or os.environ["NUMBA_CACHE_DIR"] != str(CODE):
        return
    from bothworlds import sources

    own = sources.digest(*sources.KERNELS).hex()[:16]
    for folder in CODE.glob(f"bothworlds-{own}-*"):
        os.utime(folder)
    package = sorted(CODE.glob("bothworlds-*"), key=changed_at)
    # Kernels of tests are kept by the place of their file, some in a folder of one run.
    others = [each for each in CODE.glob("*_*") if time.time() - changed_at(each) > 86_400]
    for folder in package[:-KEPT] + others:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_ignore_collect(collection_path, config):
    """Leave out the files that need an extra."""
    if not config.getoption("core") or not collection_path.is_relative_to(ROOT):
        return None
    return True if needs_an_extra(collection_path) else None


def shuffled(items, seed):
    """Return tests in an order that the seed gives, those of a file together."""
    chance, files = random.Random(seed), {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    groups = list(files.values())
    chance.shuffle(groups)
    for group in groups:
        chance.shuffle(group)
    return [item for group in groups for item in group]


def pytest_collection_finish():
    """Keep the thousands of tests out of every later collection of garbage.

    Without them Python takes all that is left for new, and would visit it every 70,000 objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that are marked, and shuffle the others."""
    if config.getoption("shuffle") is not None:
        items[:] = shuffled(items, config.getoption("shuffle"))
    without = [] if sys.version_info[:2] == RECORDED_WITH else ["locked"]
    if config.getoption("core"):
        without.append("extra")
    kept, left_out = [], []
    for item in items:
        (left_out if any(map(item.get_closest_marker, without)) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    items[:] = kept
