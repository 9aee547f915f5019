"""The digests of the sources cover what they must, and no words."""

import ast
import io
import itertools
import os
import subprocess
import sys
import tokenize

import pytest

from bothworlds import sources
from helpers.parsing import parsed


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two rooms, and the digest of one of them."""
    for name in ("room/one.py", "room/inner/two.py", "other/three.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""About {name}."""\nx = 1\n')
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)
    memory = tmp_path / "__pycache__" / "sources.json"
    monkeypatch.setattr(sources, "_memories", lambda: [memory])
    return tmp_path, lambda *rooms: sources.digest.__wrapped__(*rooms)


def test_words_change_nothing(package):
    path, digest = package
    before = digest("room")
    (path / "room/one.py").write_text('"""Other words."""\n\n\nx = 1  # and more\n')
    assert digest("room") == before


def test_code_changes_the_room_it_stands_in(package):
    path, digest = package
    before = digest("room"), digest("other")
    (path / "room/inner/two.py").write_text("x = 1 + 1\n")
    assert digest("room") != before[0]
    assert digest("other") == before[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x):\n    return x + 1.0\n", "def f(x):\n    return x - 1.0\n"),
        ("def f(x):\n    return x + 1.0\n", "def f(x):\n    return x + 1\n"),
        ("def f(x):\n    return x * 0.0\n", "def f(x):\n    return x * -0.0\n"),
        ("def f(x):\n    return a.b(x)\n", "def f(x):\n    return a.c(x)\n"),
        ("def f(x, y=1):\n    return x\n", "def f(x, y=2):\n    return x\n"),
        ("def f(x):\n    return x in {'a', 'b'}\n", "def f(x):\n    return x in {'a', 'c'}\n"),
        ("@jit\ndef f(x):\n    return x\n", "def f(x):\n    return x\n"),
    ],
)
def test_every_change_of_code_is_seen(one, other):
    assert sources.code_digest(one.encode()) != sources.code_digest(other.encode())
    words = one.replace("\n    return", "\n    'What it does.'\n    # why\n\n    return")
    assert sources.code_digest(words.encode()) == sources.code_digest(one.encode())


@pytest.mark.processes
def test_every_process_finds_the_same():
    program = 'from bothworlds import sources; print(sources.code_digest(b\'y = x in {"a", "b"}\'))'
    found = set()
    for seed in range(4):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


def strings_by_tokens(source):
    """Return the strings of a source but those that are statements, found by Python itself."""
    bare = {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    lines, found, started = source.splitlines(keepends=True), [], []
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            started.append(token.start)
        if name == "STRING" and not started:
            found.append((token.start, token.end))
        if name == "FSTRING_END":
            begun = started.pop()
            if not started:
                found.append((begun, token.end))
    offsets = list(itertools.accumulate((len(line.decode()) for line in lines), initial=0))
    text = source.decode()
    return [
        text[offsets[start[0] - 1] + start[1] : offsets[end[0] - 1] + end[1]].lstrip("bfr").encode()
        for start, end in found
        if start not in bare
    ]


def test_code_is_what_pythons_own_tokenizer_finds():
    for path in sources.files(*sources.KERNELS):
        source = path.read_bytes()
        assert sources.code_of(source)[1] == strings_by_tokens(source), path


def test_files_that_come_go_or_move_change_it(package):
    path, digest = package
    seen = {digest("room")}
    (path / "room/four.py").write_text("x = 1\n")
    seen.add(digest("room"))
    (path / "room/four.py").rename(path / "room/five.py")
    seen.add(digest("room"))
    (path / "room/five.py").unlink()
    (path / "room/one.py").unlink()
    seen.add(digest("room"))
    assert len(seen) == 4


@pytest.mark.parametrize("left", [b"", b"[]", b'{"room/one.py": 7}', b'{"room/one.py": [1, 2, 3]}'])
def test_a_damaged_memory_is_not_believed(package, left):
    path, digest = package
    before = digest("room")
    (path / "__pycache__/sources.json").write_bytes(left)
    assert digest("room") == before


def test_every_file_that_compiles_is_covered():
    covered = set(sources.files(*sources.KERNELS))
    compiling = []
    for path in sources.PACKAGE.rglob("*.py"):
        for node in ast.walk(parsed(path)):
            compiles = isinstance(node, ast.ImportFrom) and node.module == "bothworlds.lanes.jit"
            if compiles and "jit" in {name.name for name in node.names}:
                compiling.append(path)
    assert len(compiling) > 30
    assert set(compiling) <= covered
