"""Release files: workflows, manifests, unit and image are valid and name what exists."""

import importlib.metadata
import itertools
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bothworlds

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(*command):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )


SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.dependabot": [ROOT / ".github/dependabot.yml"],
    "vendor.github-issue-config": [ROOT / ".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [
        ROOT / ".github/ISSUE_TEMPLATE/bug.yml",
        ROOT / ".github/ISSUE_TEMPLATE/idea.yml",
    ],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
    "vendor.compose-spec": sorted((ROOT / "deploy").glob("compose*.yaml")),
}


@pytest.mark.processes
@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_follow_the_published_schema(schema):
    files = SCHEMAS[schema]
    assert files
    checker = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema)
    done = run(*checker, *files)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.processes
def test_a_workflow_that_breaks_the_schema_is_found(tmp_path):
    broken = tmp_path / "broken.yml"
    broken.write_text("on: push\njobs:\n  one:\n    steps: []\n")
    checker = (sys.executable, "-m", "check_jsonschema", "--builtin-schema")
    assert run(*checker, "vendor.github-workflows", broken).returncode != 0


def steps(path):
    """Yield the commands of a workflow."""
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        for step in job["steps"]:
            if "run" in step:
                yield step["run"]


def test_workflows_run_targets_and_files_there_are():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(VENV)", ".venv")
    targets = set(re.findall(r"^([\w./-]+):", makefile, re.MULTILINE))
    commands = [command for path in WORKFLOWS for command in steps(path)]
    asked = {found for command in commands for found in re.findall(r"\bmake ([\w./-]+)", command)}
    assert asked and asked <= targets
    assert ".ci/run" in commands
    assert (ROOT / ".ci/run").exists()


def test_the_tested_pythons_are_the_classified_ones():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))[
        "jobs"
    ]
    tested = {"3.11", *jobs["pythons"]["strategy"]["matrix"]["python"]}
    prefix = "Programming Language :: Python :: "
    stated = {each.removeprefix(prefix) for each in PROJECT["classifiers"] if prefix in each}
    assert tested == stated - {"3", "3 :: Only"}


@pytest.mark.processes
def test_the_kubernetes_manifests_follow_the_published_schemas():
    import kubernetes_validate

    files = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
    kinds = set()
    for file in files:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        kubernetes_validate.validate(document, "1.31", strict=True)
        kinds.add(document["kind"])
    assert kinds == {"Deployment", "PodDisruptionBudget", "Secret", "Service"}
    deployment = yaml.safe_load((ROOT / "deploy/kubernetes/deployment.yaml").read_text())
    deployment["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.31", strict=True)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f":v{bothworlds.__version__}")


@pytest.mark.processes
@pytest.mark.parametrize("name", ["bothworlds.service", "bothworlds@.service"])
def test_the_systemd_unit_is_valid(tmp_path, name):
    unit = (ROOT / "deploy" / name).read_text(encoding="utf-8")
    assert re.search(r"^ExecStart=/opt/bothworlds/bin/bothworlds serve ", unit, re.MULTILINE)
    if shutil.which("systemd-analyze"):
        # The program need not be installed here.
        tried = tmp_path / name.replace("@", "@8080")
        tried.write_text(unit.replace("/opt/bothworlds/bin/bothworlds", shutil.which("true")))
        done = run("systemd-analyze", "verify", tried)
        assert done.returncode == 0 and not done.stderr.strip(), done.stderr


INSTRUCTIONS = {
    "ARG": r"[A-Z_]+(=\S+)?",
    "CMD": r"\[.+\]",
    "COPY": r"(\S+ )+/\S+",
    "ENTRYPOINT": r"\[.+\]",
    "ENV": r"[A-Z_]+=\S+",
    "EXPOSE": r"\d+",
    "FROM": r"\S+:\S+@sha256:[0-9a-f]{64}",
    "HEALTHCHECK": r"(--[a-z-]+=\S+ +)+CMD \[.+\]",
    "RUN": r".+",
    "STOPSIGNAL": r"SIG[A-Z]+",
    "USER": r"\w+",
    "VOLUME": r"/\S+",
}


def test_every_instruction_of_the_image_is_well_formed():
    text = (ROOT / "deploy/Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = [line.split(" ", 1) for line in lines]
    assert found[0][0] == "FROM" and found[-1][0] == "CMD"
    for word, rest in found:
        assert re.fullmatch(INSTRUCTIONS[word], rest.strip()), (word, rest)
    for rest in (rest.split() for word, rest in found if word == "COPY"):
        assert all((ROOT / name).exists() for name in rest[:-1])
    # Contributors, CI and the image install the same versions.
    assert "-c /src/constraints.txt" in text


def pinned():
    """Return the versions in the lock, by the normalised name of the package."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        each = Requirement(line)
        found.setdefault(canonicalize_name(each.name), set()).add(str(each.specifier)[2:])
    return found


def needed(extras, pins):
    """Return the packages that the extras need here, through those installed as pinned."""
    found = set()
    waiting = [Requirement(f"bothworlds[{extras}]")]
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if name != "bothworlds" and installed.version not in pins.get(name, {installed.version}):
            continue  # the lowest versions, or the newest, which need others
        for line in installed.requires or ():
            other = Requirement(line)
            marks = ({"extra": extra} for extra in ("", *each.extras))
            if other.marker is None or any(map(other.marker.evaluate, marks)):
                # An extra of the same package has requirements of its own.
                key = (canonicalize_name(other.name), frozenset(other.extras))
                if key not in found:
                    found.add(key)
                    waiting.append(other)
    return {name for name, _ in found} - {"bothworlds"}


@pytest.mark.locked
def test_the_lock_pins_everything_that_is_installed():
    pins = pinned()
    names = needed("bench,dev,docs", pins)
    assert len(names) > 20 and names - pins.keys() == set()
    less = {name: versions for name, versions in pins.items() if name != "pluggy"}
    assert needed("bench,dev,docs", less) - less.keys() == {"pluggy"}


def test_what_the_manifest_names_exists():
    for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines():
        word, *names = line.split()
        if word == "include":
            assert all((ROOT / name).is_file() for name in names), line
        elif word == "recursive-include":
            assert (ROOT / names[0]).is_dir(), line


def test_the_version_is_written_once_in_code():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert len(re.findall(rf'"{re.escape(bothworlds.__version__)}"', source)) == 1
    assert PROJECT["dynamic"] == ["version"]


def test_the_licences_of_all_direct_dependencies_are_listed():
    page = (ROOT / "docs/licences.md").read_text(encoding="utf-8")
    # What users install; the other extras are for contributors.
    extras = PROJECT["optional-dependencies"].keys() - {"dev", "docs", "bench"}
    stated = [PROJECT["optional-dependencies"][extra] for extra in extras]
    shipped = [*PROJECT["dependencies"], *itertools.chain.from_iterable(stated)]
    names = {re.match(r"[\w-]+", each)[0] for each in shipped} - {"bothworlds"}
    assert len(names) > 15
    assert {name for name in names if not re.search(rf"\b{name}\b", page)} == set()
