"""Failing disk: a scripted run and commands whose n-th file operation fails, for every n.

``python failing_disk.py STORE`` runs with ``failing_disk.c`` preloaded, in a folder that has only
the store. Operations fail once with EIO, or from the n-th one on with ENOSPC until the disk heals.
The service must answer 503, or not start, or a command end, each in one sentence. Afterwards the
store must hold, and have all that was acknowledged.
"""

import contextlib
import ctypes
import errno
import json
import os
import re
import sys
import traceback
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import typer

from bothworlds.cli import serve as commands
from bothworlds.serve.store import commit
from serve.scripted import Campaign, forked

DISK = ctypes.CDLL(None)
ALWAYS = 2**62
WAYS = {"EIO once": (errno.EIO, 0), "ENOSPC from then on": (errno.ENOSPC, ALWAYS)}
"""Ways to fail: with which error, and for how many operations more."""
COMMANDS = {
    "verify": commands.verify,
    "replay": partial(commands.replay, write=True),
    "restored": commands.restored,
    "migrate": commands.migrate,
    "key create": partial(commands.create, "decide"),
}


class FailingDisk:
    """A disk of which an operation fails while the store is opened, or while it is written to.

    Parameters
    ----------
    store : str
        A path.
    phase : {"opening", "writing"}
        What fails.
    number : int
        Which operation fails, counted from 1; 0 to count them.
    way : str
        One of `WAYS`.
    """

    def __init__(self, store, phase, number=0, way="EIO once"):
        self.store = store
        self.phase = phase
        self.number = number
        self.code, self.more = WAYS[way]
        self.passed = 0

    def opening(self):
        """Fail while the store is opened."""
        return self.failing() if self.phase == "opening" else contextlib.nullcontext()

    def writing(self, service):
        """Fail while the script writes."""
        return self.failing() if self.phase == "writing" else contextlib.nullcontext()

    @contextlib.contextmanager
    def failing(self):
        """Let the disk fail in the block; it is well again afterwards."""
        first = ctypes.c_long(self.number or ALWAYS)
        last = ctypes.c_long((self.number or ALWAYS) + self.more)
        folder = os.fsencode(Path(self.store).parent)
        DISK.disk_fails(folder, first, last, self.code)
        try:
            yield
        finally:
            self.passed = DISK.disk_passed()
            DISK.disk_fails(b"", first, last, 0)


def number_of(said):
    """Return how many operations a run had."""
    return next(each[1] for each in said if each[0] == "passed")


def run_script(campaign, phase):
    """Let every operation of a phase fail, in every way; return how many there are."""
    store = campaign.store
    code, said = campaign.run(FailingDisk(store, phase))
    assert code == 0
    operations = number_of(said)
    for way in WAYS:
        number = 0
        # A run may have a few operations more or less than another one.
        while number < operations + 20:
            number += 1
            code, said = campaign.run(FailingDisk(store, phase, number, way))
            assert code == 0, (phase, number, way)
            campaign.check()
            if number_of(said) < number:
                break
            campaign.renew(FailingDisk(store, "nothing"))
    return operations


def run_command(store, command, number, way):
    """Run a command whose n-th operation fails; return its exit code, what it said, and n."""
    disk = FailingDisk(store, "command", number, way)

    def work(lines):
        os.dup2(lines, 1)
        os.dup2(lines, 2)
        code = 0
        try:
            with disk.failing():
                command(store=store)
        except typer.Exit as end:
            code = end.exit_code
        except BaseException:
            # What a user would see.
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        os.write(lines, json.dumps([code, disk.passed]).encode() + b"\n")

    _, said = forked(work, str)
    return *json.loads(said[-1]), said[:-1]


def run_commands(campaign):
    """Let every operation of every command fail; return how many ended with a sentence."""
    ended = dict.fromkeys(COMMANDS, 0)
    for name, command in COMMANDS.items():
        for way in WAYS:
            number, passed = 0, 0
            while passed >= number:
                number += 1
                code, passed, text = run_command(campaign.store, command, number, way)
                if code:
                    where = (name, number, way, text)
                    assert len(text) == 1 and re.fullmatch(r"[A-Z].*[^.]\.\n", text[0]), where
                    ended[name] += 1
                campaign.check()
    return ended


def main(store):
    """Let every operation fail, and print what happened as JSON."""
    # A store that fails is tried again soon, so that a run does not take seconds.
    commit.PATIENCE = 0.01
    campaign = Campaign(store)
    # First: after `restored`, ids from before it are refused.
    ended = run_commands(campaign)
    opening = run_script(campaign, "opening")
    writing = run_script(campaign, "writing")
    campaign.finish(FailingDisk(store, "nothing"))
    print(
        json.dumps(
            {
                "opening": opening, "writing": writing, "commands": ended,
                "stored": campaign.whole, **campaign.statuses,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
