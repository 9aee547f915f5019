"""Selection of the tests that need nothing but the core dependencies: ``pytest --core``.

What needs a package of an extra is named here, or marked `extra` where it is one test among others
that do not. Nothing is skipped by itself: a test that is neither must pass without any extra.
"""

from pathlib import Path

ROOT = Path(__file__).parent
NEED_AN_EXTRA = (
    "src/bothworlds/campaign/store.py",
    "src/bothworlds/campaign/store_view.py",
    "src/bothworlds/cli",
    "src/bothworlds/client/openfeature.py",
    "src/bothworlds/demo",
    "src/bothworlds/interop/gymnasium.py",
    "src/bothworlds/interop/litellm.py",
    "src/bothworlds/logs/parquet.py",
    "src/bothworlds/interop/river.py",
    "src/bothworlds/plotting/arms.py",
    "src/bothworlds/plotting/draw.py",
    "src/bothworlds/plotting/pairs.py",
    "src/bothworlds/plotting/result.py",
    "src/bothworlds/serve",
    "src/bothworlds/simulation/export.py",
    "tests/campaign/test_cluster.py",
    "tests/campaign/test_continuing.py",
    "tests/campaign/test_store.py",
    "tests/cli",
    "tests/client/test_openfeature_provider.py",
    "tests/clients",
    "tests/demo",
    "tests/docs",
    "tests/environments/test_env_stochastic.py",
    "tests/experiments/test_full_scale.py",
    "tests/experiments/test_panels.py",
    "tests/helpers/histories.py",
    "tests/inference/test_from_logs.py",
    "tests/interop",
    "tests/lanes/test_lanes.py",
    "tests/omd/test_half.py",
    "tests/omd/test_many.py",
    "tests/omd/test_moving.py",
    "tests/omd/test_omd.py",
    "tests/plotting",
    "tests/policies/test_baselines.py",
    "tests/policies/test_lazy_thompson.py",
    "tests/serve",
    "tests/simulation/test_realised.py",
    "tests/simulation/test_results.py",
    "tests/storm.py",
    "tests/test_benchmarks.py",
    "tests/golden",
    "tests/test_golden.py",
    "tests/test_release.py",
    "tests/test_wheel.py",
    "tests/typing",
)
"""Files and folders that need an extra, or the references of the extra `dev`, at some place."""


def pytest_addoption(parser):
    """Add the option."""
    parser.addoption("--core", action="store_true", help="leave out what needs an extra")


def pytest_ignore_collect(collection_path, config):
    """Leave out the files that need an extra."""
    if not config.getoption("core"):
        return None
    named = {ROOT / place for place in NEED_AN_EXTRA}
    return True if named & {collection_path, *collection_path.parents} else None


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that say they need one."""
    if not config.getoption("core"):
        return
    kept, left_out = [], []
    for item in items:
        (left_out if item.get_closest_marker("extra") else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
