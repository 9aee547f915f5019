"""Files are replaced at once or not at all, locked between processes, and read without threads."""

import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time

import pytest

from bothworlds import files
from bothworlds.errors import InvalidParameter, StateFileError
from bothworlds.files import ABANDONED, locked, replacing, sweep


def drafts(folder):
    return sorted(path.name for path in folder.glob(".*.part"))


@pytest.fixture
def special(tmp_path):
    """A file that is none, by its kind."""
    folder, pipe, link = (tmp_path / name for name in ("folder", "pipe", "link"))
    folder.mkdir()
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    # The name of a socket may have a hundred characters only.
    here = os.getcwd()
    os.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as open_socket:
        open_socket.bind("socket")
        os.chdir(here)
        places = {"a folder": folder, "a pipe": pipe, "a socket": tmp_path / "socket"}
        yield places | {"a device": os.devnull, "a pipe behind a link": link}


@pytest.mark.parametrize(
    "kind", ["a folder", "a pipe", "a socket", "a device", "a pipe behind a link"]
)
def test_what_is_no_ordinary_file_is_never_replaced(kind, special, tmp_path):
    path = special[kind]
    before = os.stat(path)
    with pytest.raises(InvalidParameter) as refused, replacing(path):
        pytest.fail("the block must not begin")
    got = kind.removesuffix(" behind a link")
    assert str(refused.value) == (
        f"The file {os.fspath(path)!r} must be an ordinary file or a new one, got {got}."
    )
    after = os.stat(path)
    assert stat.S_IFMT(after.st_mode) == stat.S_IFMT(before.st_mode)
    assert after.st_ino == before.st_ino
    assert drafts(tmp_path) == []


def test_a_pipe_that_appears_meanwhile_is_not_replaced_either(tmp_path):
    path = tmp_path / "state.json"
    with pytest.raises(InvalidParameter), replacing(path) as draft:
        draft.write_text("new")
        os.mkfifo(path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert drafts(tmp_path) == []


@pytest.mark.parametrize("name", ["a\0b", "loop"])
def test_a_name_the_system_cannot_use_is_refused(name, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises((InvalidParameter, OSError)), replacing(tmp_path / name):
        pytest.fail("the block must not begin")


WRITER = textwrap.dedent("""
    import sys, time
    from bothworlds.files import replacing
    with replacing(sys.argv[1]) as draft:
        draft.write_text("half")
        print(draft.name, flush=True)
        time.sleep(600)
    """)


def writing(path):
    """Start a process that is in the middle of replacing a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    return process, path.with_name(process.stdout.readline().strip())


def aged(path):
    long_ago = time.time() - 2 * ABANDONED
    os.utime(path, (long_ago, long_ago))


@pytest.mark.processes
@pytest.mark.skipif(files.fcntl is None, reason="needs file locks")
def test_a_later_writer_removes_drafts_of_dead_processes_only(tmp_path):
    killed, left = writing(tmp_path / "a.json")
    alive, kept = writing(tmp_path / "b.json")
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        other = tmp_path / ".notes.part"
        other.write_text("of another program")
        for path in (left, kept, other):
            aged(path)
        with replacing(tmp_path / "c.json") as draft:
            draft.write_text("done")
        assert not left.exists()
        assert kept.exists()
        assert other.exists()
        assert (tmp_path / "c.json").read_text() == "done"
    finally:
        alive.kill()
        for process in (alive, killed):
            process.wait()
            process.stdout.close()


def test_a_draft_that_was_just_written_stays(tmp_path):
    fresh, old = (tmp_path / f".a.{word}.part" for word in ("00000000", "11111111"))
    for path in (fresh, old):
        path.write_text("half")
    aged(old)
    sweep(tmp_path)
    assert drafts(tmp_path) == [fresh.name]


def test_a_draft_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    """The other process is faster once."""
    flock, removed = files.fcntl.flock, []

    def slow(handle, flags):
        if not removed:
            (draft,) = tmp_path.glob(".*.part")
            draft.unlink()
            removed.append(draft)
        flock(handle, flags)

    monkeypatch.setattr(files.fcntl, "flock", slow)
    with replacing(tmp_path / "a") as draft:
        assert draft != removed[0]
        draft.write_text("done")
    assert (tmp_path / "a").read_text() == "done"


def test_files_are_replaced_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    for word in ("old", "new"):
        with replacing(tmp_path / "a") as draft:
            draft.write_text(word)
    with locked(tmp_path / "a") as held:
        assert held is False
    assert (tmp_path / "a").read_text() == "new"


def test_a_lock_is_waited_for_and_then_refused(tmp_path):
    with (
        locked(tmp_path / "a") as held,
        pytest.raises(StateFileError, match=r"'.*a' is in use by another process"),
        locked(tmp_path / "a", patience=0.05),
    ):
        pytest.fail("two must not hold it")
    assert held is True
    with locked(tmp_path / "a", patience=0.0):
        pass
