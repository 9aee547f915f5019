"""Waiting for other threads and processes, on a machine that may be busy with something else."""

import time

HANG = 600.0
"""Seconds after which something hangs; nothing that works is judged by it."""


def wait_until(condition):
    """Return as soon as the condition holds."""
    deadline = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
