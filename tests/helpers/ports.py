"""Ports for servers that cannot choose one by themselves."""

import random
import socket

FIRST, LAST = 20_000, 32_767
"""Below the ports that systems give to connections and to servers that ask for any."""


def free_port():
    """Return a port that no process takes before the server that is told to."""
    while True:
        port = random.SystemRandom().randint(FIRST, LAST)
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
