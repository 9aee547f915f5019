"""Package as a whole: its names, its errors, and what importing it costs."""

import ast
import importlib.metadata
import importlib.resources
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bothworlds
from bothworlds import errors, registry
from bothworlds.policies import _typing
from helpers.parsing import parsed

ROOT = Path(__file__).parent.parent


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_version_is_the_installed_one():
    assert bothworlds.__version__ == importlib.metadata.version("bothworlds")


def test_citation_names_the_version():
    citation = Path(__file__).parent.parent / "CITATION.cff"
    lines = citation.read_text(encoding="utf-8").splitlines()
    assert f"version: {bothworlds.__version__}" in lines


def test_the_changelog_has_a_section_for_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {bothworlds.__version__}\n" in text


NO_SUBJECT = re.compile(
    r"(What|Where|Who|Whose|How|Which|Why|When|Whatever|Whoever|Whether|The one|One|It|This|That|"
    r"Lo|Hence|Whence|Hither|Herein|Thereof|Wherein|Upon)\b"
)
"""Words that open a first line without naming its subject."""


def first_lines():
    """Give the first line of every module's docstring."""
    for room in ("src", "benchmarks", "docs", "examples", "tests"):
        for file in sorted((ROOT / room).rglob("*.py")):
            text = ast.get_docstring(parsed(file))
            yield file.relative_to(ROOT).as_posix(), (text or "").split("\n")[0]


def test_every_module_opens_with_its_subject():
    lines = dict(first_lines())
    assert len(lines) > 200
    assert [file for file, line in lines.items() if not line or NO_SUBJECT.match(line)] == []


@pytest.mark.parametrize("line", ["What a store holds.", "Where it is.", "One unit of work."])
def test_a_line_without_a_subject_is_found(line):
    assert NO_SUBJECT.match(line) and not NO_SUBJECT.match("Onestep, whatever it is.")


def test_all_is_sorted_without_repetition():
    assert bothworlds.__all__ == sorted(set(bothworlds.__all__))


def test_all_is_exactly_what_can_be_loaded():
    assert set(bothworlds.__all__) == {*bothworlds._HOMES, *registry.POLICIES}
    assert dir(bothworlds) == sorted([*bothworlds.__all__, "__version__"])


def names_for_type_checkers(source):
    """Return the names that a module imports for type checkers only."""
    (block,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    names = [name for node in block.body for name in node.names]
    starred = ["*"] * [name.name for name in names].count("*")
    # Without "as" a name would not be public to them.
    return sorted(starred + [name.asname for name in names if name.asname])


def test_type_checkers_know_the_same_names():
    source = Path(bothworlds.__file__).read_text(encoding="utf-8")
    assert names_for_type_checkers(source) == sorted(["*", *bothworlds._HOMES])
    for name, entry in registry.POLICIES.items():
        assert entry.load() is getattr(_typing, name) is getattr(bothworlds.policies, name)
        assert entry.load().registered is entry


def test_a_name_that_type_checkers_do_not_know_would_be_found():
    source = "if TYPE_CHECKING:\n    from a import b as b\n    from a import c\n"
    assert names_for_type_checkers(source) == ["b"]


@pytest.mark.parametrize("name", bothworlds.__all__)
def test_public_name_loads_and_is_called_so(name):
    value = getattr(bothworlds, name)
    assert value.__name__.rpartition(".")[2] == name
    assert getattr(bothworlds, name) is value


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Bandits'"):
        _ = bothworlds.Bandits


HEAVY = ("llvmlite", "matplotlib", "numba", "pyarrow", "rich", "typer")


def heavy_modules_after(code):
    report = f"{code}; import sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = run_python(report)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.processes
def test_importing_loads_nothing_heavy():
    assert heavy_modules_after("import bothworlds; dir(bothworlds); bothworlds.errors") == []


@pytest.mark.processes
def test_heavy_modules_would_be_noticed():
    assert "numba" in heavy_modules_after("import bothworlds, numba")


def test_types_are_shipped():
    assert importlib.resources.files("bothworlds").joinpath("py.typed").is_file()


BUILT_IN = {
    errors.InvalidParameter: ValueError,
    errors.InvalidFeedback: ValueError,
    errors.UnknownDecision: KeyError,
    errors.DecisionClosed: errors.UnknownDecision,
    errors.StateFileError: ValueError,
    errors.ResultFileError: ValueError,
    errors.KernelError: RuntimeError,
    errors.ForkError: RuntimeError,
    errors.ClusterError: RuntimeError,
    errors.ServiceError: RuntimeError,
    errors.ServiceAway: ConnectionError,
    errors.StoreError: RuntimeError,
    errors.CheckFailed: AssertionError,
    errors.MissingExtra: ImportError,
}


def exception_classes():
    return {value for value in vars(errors).values() if isinstance(value, type)}


def test_every_error_has_a_place_in_the_tree():
    assert exception_classes() == {errors.BothworldsError, errors.CacheWarning, *BUILT_IN}
    assert issubclass(errors.CacheWarning, UserWarning)
    for error, parent in BUILT_IN.items():
        assert issubclass(error, errors.BothworldsError)
        assert issubclass(error, parent)


def test_the_drawing_shows_the_tree():
    drawn = errors.__doc__.partition("::")[2]
    for error in exception_classes():
        assert error.__name__ in drawn.split()
    for error in BUILT_IN.keys() - {errors.DecisionClosed}:
        line = next(line for line in drawn.splitlines() if f" {error.__name__} " in line)
        assert f"({BUILT_IN[error].__name__})" in line


@pytest.mark.parametrize("error", sorted(exception_classes(), key=lambda error: error.__name__))
def test_errors_print_their_sentence_and_survive_pickling(error):
    # Worker processes hand their errors back by pickle.
    raised = error("The arm's name is 'blue'.")
    assert str(raised) == "The arm's name is 'blue'."
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is error
    assert str(again) == str(raised)


@pytest.mark.parametrize(
    ("got", "shown"),
    [
        (1.5, "1.5"),
        ("half", "'half'"),
        (None, "None"),
        (np.float64("nan"), "nan"),
        (np.int64(-3), "-3"),
        (np.array(2.0), "2.0"),
    ],
)
def test_must_is_the_house_sentence(got, shown):
    sentence = errors.must("alpha", "TsallisINF", "a number in [0, 1]", got)
    assert sentence == f"The alpha of TsallisINF must be a number in [0, 1], got {shown}."


@pytest.mark.parametrize("got", ["x" * 10_000, list(range(10_000)), np.zeros((300, 3)), object])
def test_must_stays_one_short_line(got):
    sentence = errors.must("arms", "Bandit", "a list of names", got)
    assert len(sentence) < 160
    assert "\n" not in sentence


def test_missing_extra_names_package_and_command():
    error = errors.missing_extra("lab", "pyarrow")
    assert isinstance(error, errors.MissingExtra)
    assert error.name == "pyarrow"
    assert str(error).endswith('run: pip install "bothworlds[lab]"')


@pytest.mark.processes
@pytest.mark.parametrize("package", ["typer", "rich"])
def test_command_without_its_extra_names_the_install_command(package, tmp_path):
    cli = tmp_path / "stand_in.py"
    cli.write_text(f"import {package}\n", encoding="utf-8")
    # A None in sys.modules makes Python answer an import as it does for a package not installed.
    code = (
        "import importlib.util, sys\n"
        f"sys.modules[{package!r}] = None\n"
        "class Finder:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'bothworlds.cli':\n"
        f"            return importlib.util.spec_from_file_location(name, {os.fspath(cli)!r})\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from bothworlds.__main__ import main\n"
        "main()\n"
    )
    done = run_python(code)
    assert done.returncode == 1
    assert done.stderr.strip() == str(errors.missing_extra("lab", package))


@pytest.mark.processes
def test_command_does_not_hide_other_import_errors():
    done = run_python(
        "import sys\n"
        "sys.modules['bothworlds.cli'] = None\n"
        "from bothworlds.__main__ import main\n"
        "main()\n"
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "bothworlds.cli" in done.stderr
