"""Selection of tests: what ``pytest --core`` leaves out, their order, and floors of versions."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


def loaded(path):
    """The module at a path of the repository, which no package contains."""
    spec = importlib.util.spec_from_file_location(path.stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CORE = loaded(Path("conftest.py"))
MINIMUMS = loaded(Path(".ci/minimums.py"))


def left_out(path, core=True):
    return CORE.pytest_ignore_collect(ROOT / path, SimpleNamespace(getoption=lambda name: core))


def test_files_whose_examples_need_an_extra_exist_and_do_not_import_it():
    assert [path for path in CORE.EXAMPLES if not (ROOT / path).exists()] == []
    assert [path for path in CORE.EXAMPLES if CORE.extras_of(ROOT / path)] == []


def test_a_folder_is_left_out_and_its_neighbours_are_not():
    assert left_out("tests/cli")
    assert left_out("tests/cli/test_cli.py")
    assert left_out("tests/omd/test_half.py")
    for kept in ("tests/client/test_client.py", "src/bothworlds/client", "tests/omd", "tests"):
        assert left_out(kept) is None
    assert left_out("tests/cli", core=False) is None


def test_imports_are_followed():
    assert CORE.imported("import pandas.api\nfrom PIL import Image\nif 1:\n    import late") == {
        "pandas.api",
        "PIL",
        "PIL.Image",
    }
    histories = ROOT / "tests" / "helpers" / "histories.py"
    assert ROOT / "src/bothworlds/serve/domain/service.py" in CORE.reached(histories)
    assert "msgspec" in CORE.extras_of(histories)
    assert CORE.extras_of(ROOT / "src" / "bothworlds" / "bandit" / "bandit.py") == set()


@pytest.mark.parametrize("python", [CORE.RECORDED_WITH, (3, 99)])
@pytest.mark.parametrize("core", [False, True])
def test_marked_tests_are_left_out(python, core, monkeypatch):
    monkeypatch.setattr(CORE.sys, "version_info", (*python, 0))
    found, dropped = [], []
    for marker in ("", "extra", "locked"):
        markers = {marker: True}
        found.append(SimpleNamespace(name=marker, get_closest_marker=markers.get))
    config = SimpleNamespace(
        getoption={"core": core, "shuffle": None}.get,
        hook=SimpleNamespace(pytest_deselected=lambda items: dropped.extend(items)),
    )
    CORE.pytest_collection_modifyitems(config, found)
    recorded = python == CORE.RECORDED_WITH
    wanted = {"", *([] if core else ["extra"]), *(["locked"] if recorded else [])}
    assert {each.name for each in found} == wanted
    assert {each.name for each in dropped} == {"", "extra", "locked"} - wanted


PROJECT = {
    "name": "us",
    "dependencies": ["one>=1"],
    "optional-dependencies": {
        "inner": ["two[fast,binary]>=2.5", "one>=1"],
        "outer": ["us[inner]", "three>=3; sys_platform != 'win32'"],
        "dev": ["us[outer]", "four-five>=4.0.1"],
        "idle": ["never"],
    },
}


def test_the_floors_are_those_of_every_extra_that_tests_need():
    expected = {"one": "1", "two": "2.5", "three": "3", "four-five": "4.0.1"}
    assert MINIMUMS.floors(PROJECT) == expected


@pytest.mark.parametrize(
    ("line", "sentence"), [("one", "must state its lowest"), ("two>=2.6", "must have one floor")]
)
def test_floors_that_say_nothing_or_two_things_are_refused(line, sentence):
    extras = {**PROJECT["optional-dependencies"], "inner": ["two>=2.5", line]}
    with pytest.raises(SystemExit, match=sentence):
        MINIMUMS.floors({**PROJECT, "optional-dependencies": extras})


def test_a_seed_gives_one_order_in_which_files_stay_together():
    tests = [SimpleNamespace(path=path, name=name) for path in "abcdef" for name in range(5)]
    one, again, other = (CORE.shuffled(list(tests), seed) for seed in (1, 1, 2))
    assert one == again != other != tests
    assert sorted(map(tests.index, one)) == list(range(30))
    assert [len({test.path for test in one[i : i + 5]}) for i in range(0, 30, 5)] == [1] * 6
