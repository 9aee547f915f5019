"""Golden set: public names, help texts, the OpenAPI document, a dashboard page, stores.

``PYTHONPATH=tests python tests/golden/record.py`` records all of it again, for a change that is
meant to change it; the commit states in one line what changed and why. Draws and state
files are recorded by ``tests/recorded`` in the same way.
"""

import inspect
import json
import re
import sqlite3
import sys
import tempfile
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
MODULES = ("bandit", "checks", "client", "environments", "errors", "inference", "interop", "omd",
           "plotting", "policies", "serve", "simulation", "theory")  # fmt: skip
ARMS = ["blue", "green", "red"]


def names():
    """Return the signature of every public name, and of the public methods of classes."""
    import bothworlds as bw

    found = {}
    for name in bw.__all__:
        _describe(found, f"bothworlds.{name}", getattr(bw, name))
    for module in MODULES:
        home = import_module(f"bothworlds.{module}")
        for name in getattr(home, "__all__", ()):
            if name == "litellm":  # Importing it asks the network for prices of models.
                continue
            _describe(found, f"bothworlds.{module}.{name}", getattr(home, name))
    for name in dir(bw.bounds):
        if not name.startswith("_") and callable(getattr(bw.bounds, name)):
            _describe(found, f"bothworlds.bounds.{name}", getattr(bw.bounds, name))
    return dict(sorted(found.items()))


def _describe(found, name, value):
    if inspect.ismodule(value):
        found[name] = "module"
        return
    found[name] = _signature(value)
    if not inspect.isclass(value):
        return
    for attribute in dir(value):
        if attribute.startswith("_"):
            continue
        static = inspect.getattr_static(value, attribute)
        own = getattr(value, attribute, None)
        if isinstance(static, property):
            found[f"{name}.{attribute}"] = "property"
        elif callable(own):
            # Newer versions of Python know the signatures of methods that all exceptions have.
            known = not hasattr(BaseException, attribute)
            found[f"{name}.{attribute}"] = _signature(own) if known else "callable"


def _signature(value):
    if not callable(value):
        return type(value).__name__
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "callable"
    # Annotations name the modules of types, which are not what a caller writes.
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", re.sub(r" at 0x\w+", "", text))


def helps():
    """Return the help text of every command."""
    import typer
    import typer.rich_utils
    from typer.testing import CliRunner

    from bothworlds.cli import app

    runner = CliRunner(env={"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"})
    found = {}

    def visit(command, words):
        result = runner.invoke(app, [*words, "--help"])
        assert result.exit_code == 0, result.output
        text = "\n".join(line.rstrip() for line in result.output.splitlines()).strip()
        found[" ".join(["bothworlds", *words])] = text.splitlines()
        for name in getattr(command, "commands", {}):
            visit(command.commands[name], [*words, name])

    # Read from the environment when Typer is imported, which may be long ago.
    before, typer.rich_utils.MAX_WIDTH = typer.rich_utils.MAX_WIDTH, 100
    try:
        visit(typer.main.get_command(app), [])
    finally:
        typer.rich_utils.MAX_WIDTH = before
    return found


def openapi(service):
    """Return the OpenAPI document, but for the version of the package."""
    document = service.ask("GET", "/openapi.json").json
    document["info"].pop("version")
    return document


def page(folder):
    """Return the dashboard page of an experiment with a seeded history, without its times."""
    from helpers.histories import made
    from helpers.served import served
    from helpers.waiting import wait_until

    store = Path(folder) / "seeded.db"
    made(store, "headline", ARMS, rounds=20_000, logged=300, checkpoints=50, quarantined=2)
    with served(store) as service:
        # What takes long to compute follows a moment after the page.
        wait_until(lambda: "being computed" not in _visit(service))
        text = _visit(service)
    text = text.replace(f"{service.host}:{service.port}", "HOST")
    text = re.sub(r'(name="token" value=")[^"]+', r"\1TOKEN", text)
    text = re.sub(r"(\?v=)\w+", r"\1VERSION", text)
    text = re.sub(r'(data-is=")\w+', r"\1DIGEST", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?", "TIME", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"[\w-]{76}", "DECISION", text)
    # The log and the report depend on the time at which rows fall, which is that of the recording.
    text = re.sub(r"\d[\d,.]*", "0", text)
    # A curve has as many points as there were states, which the service writes by its clock.
    text = re.sub(r"(L0 0)+", "L0 0", text)
    text = re.sub(r"l0 -?0( -?0)*", "l0 0", text)
    return [line for line in re.sub(r"(>)(<)", r"\1\n\2", text).splitlines() if line.strip()]


def _visit(service):
    return service.ask("GET", "/experiments/headline").body.decode()


def wheel(folder):
    """Return the files of the wheel, but for those of its metadata."""
    import zipfile

    from test_wheel import built

    with zipfile.ZipFile(built(Path(folder))) as archive:
        return sorted(name for name in archive.namelist() if ".dist-info/" not in name)


def history(service):
    """Let a service decide and learn, some of it late, quarantined or missing; return the ids."""
    for name, more in (("headline", {}), ("price", {"policy": "tsallis-iw"})):
        arms = [{"name": arm} for arm in ARMS]
        created = service.ask("POST", "/v1/experiments", {"name": name, "arms": arms, **more})
        assert created.status == 201, created.body
    ids = []
    for turn in range(40):
        name = ("headline", "price")[turn % 2]
        decided = service.ask("POST", f"/v1/experiments/{name}/decisions", {}).json
        ids.append(decided["decision_id"])
        if turn % 5:
            told(service, ids[-1], 0.2 if decided["arm"] == "green" else 0.7)
    for late in ids[::10]:
        told(service, late, 0.5)
    added = service.ask("POST", "/v1/experiments/headline/arms", {"name": "grey"})
    assert added.status == 201, added.body
    decided = service.ask("POST", "/v1/experiments/headline/decisions", {}).json
    told(service, decided["decision_id"], 1.0)
    return ids


def told(service, decision, loss):
    """Report a loss and return the answer's status."""
    answer = service.ask("PUT", f"/v1/decisions/{decision}/feedback", {"loss": loss})
    assert answer.status == 200, answer.body
    return answer.json["status"]


def seen(service):
    """Return what a service says of its experiments: documents, probabilities, sums."""
    found = {}
    for name in ("headline", "price"):
        document = service.ask("GET", f"/v1/experiments/{name}").json
        document.pop("state_age")
        lines = service.ask("GET", f"/v1/experiments/{name}/export").body.decode().splitlines()
        found[name] = {"experiment": document, "log": [json.loads(line) for line in lines]}
    return found


def dumped_sqlite(path):
    """Return a SQLite store as a script."""
    with sqlite3.connect(path) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def dumped_postgres(url):
    """Return the rows of a PostgreSQL store as a script, for the tables of the first version."""
    import psycopg
    from psycopg import sql

    schema = (HERE / "stores/postgres_tables.sql").read_text()
    versions = "version INTEGER PRIMARY KEY, applied_at DOUBLE PRECISION NOT NULL"
    lines = [schema, f"CREATE TABLE schema_version ({versions});"]
    with psycopg.connect(url) as connection:
        order = re.findall(r"CREATE (?:UNLOGGED )?TABLE (\w+)", schema)
        for table in ("schema_version", *order):
            for row in connection.execute(
                sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))
            ):
                values = sql.SQL(", ").join(sql.Literal(value) for value in row)
                insert = sql.SQL("INSERT INTO {} OVERRIDING SYSTEM VALUE VALUES ({});")
                lines.append(insert.format(sql.Identifier(table), values).as_string(connection))
        for table in re.findall(r"TABLE (\w+) \(\n\s+id BIGINT GENERATED", schema):
            sequence = f"pg_get_serial_sequence('{table}', 'id')"
            lines.append(f"SELECT setval({sequence}, (SELECT max(id) FROM {table}));")
    return "\n".join(lines) + "\n"


def write(name, value):
    """Write a recorded value as JSON, a list of lines as text."""
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "\n".join(value) + "\n" if isinstance(value, list) else json.dumps(value, indent=1) + "\n",
        encoding="utf-8",
    )


def main():
    from helpers.served import served

    write("names.json", names())
    write("help.json", helps())
    with tempfile.TemporaryDirectory() as folder:
        with served(Path(folder) / "empty.db") as service:
            write("openapi.json", openapi(service))
        write("dashboard.html", page(folder))
        write("wheel.txt", wheel(folder))


def record_stores():
    """Record the two stores; called once, since stores of this version must go on loading."""
    from helpers.served import served
    from serve.databases import Server

    server = Server()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for dialect in ("sqlite", "postgres"):
                where = Path(folder) / "store.db" if dialect == "sqlite" else server.database()
                log = where if dialect == "sqlite" else Path(folder) / "postgres"
                with served(where, log=log) as service:
                    ids = history(service)
                    expected = {"ids": ids, **seen(service)}
                dump = dumped_sqlite(where) if dialect == "sqlite" else dumped_postgres(where)
                (HERE / f"stores/{dialect}.sql").write_text(dump, encoding="utf-8")
                write(f"stores/{dialect}.json", expected)
    finally:
        server.stop()


if __name__ == "__main__":
    record_stores() if sys.argv[1:] == ["stores"] else main()
