"""`bothworlds serve`: the decision service, its keys, and the care of its store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from bothworlds.cli import parse
from bothworlds.cli.console import FAILED, Commands, command, refusals, say
from bothworlds.cli.options import AsJson, argument, flag, option
from bothworlds.errors import InvalidParameter, invalid, missing_extra

if TYPE_CHECKING:
    from bothworlds.serve.domain.experiment import Experiment
    from bothworlds.serve.domain.service import Service

app = typer.Typer(
    cls=Commands,
    invoke_without_command=True,
    help="Decide over HTTP: a service with exact probabilities and late feedback.\n\n"
    "Start with: bothworlds serve --experiment headline --arms a,b,c",
)
key = typer.Typer(cls=Commands, no_args_is_help=True, help="Create, list and revoke keys.")
app.add_typer(key, name="key")

PACKAGES = ("httptools", "msgspec", "prometheus_client", "uvicorn", "uvloop")
Store = Annotated[
    str,
    option(
        "STORE",
        help="SQLite file, which `serve` creates, or postgresql://...",
        envvar="BOTHWORLDS_STORE",
    ),
]


def _configured(context: typer.Context, path: str | None) -> str | None:
    """Make the options of a configuration file the defaults of those that are not given."""
    if path is None:
        return None
    with refusals(), extras():
        from bothworlds.serve.ops.config_file import read

        given = read(path).service
        options = {option.name for option in typer.main.get_group(app).params} - {"config"}
        for name in given:
            parse.choose("option of [service]", name, sorted(map(str, options)))
        # A command of its own, such as plan, has some of the options of `serve`.
        context.default_map = {**given, **(context.default_map or {})}
    return path


ConfigPath = Annotated[
    str,
    typer.Option(
        "--config",
        help="Configuration file with options and experiments, in TOML.",
        metavar="FILE",
        callback=_configured,
        is_eager=True,
    ),
]


@contextlib.contextmanager
def extras() -> Iterator[None]:
    """Answer a missing package with the command that installs it."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise missing_extra("serve", package) from error


@app.callback()
@command
def serve(
    context: typer.Context,
    config: Annotated[
        str | None, option("FILE", False, callback=_configured, is_eager=True)
    ] = None,
    host: Annotated[str, option("ADDRESS")] = "127.0.0.1",
    port: Annotated[int, option("PORT", min=0, max=65_535)] = 8080,
    store: Store = "bothworlds.db",
    require_keys: Annotated[bool, flag("--require-keys")] = False,
    experiment: Annotated[str | None, option("NAME", False)] = None,
    arms: Annotated[str | None, option("NAMES", False)] = None,
    policy: Annotated[str | None, option("WORD", "tsallis")] = None,
    rate: Annotated[float | None, option("N", "unlimited")] = None,
    retention_days: Annotated[float | None, option("N", "never")] = None,
    access_log: Annotated[bool, flag("--access-log")] = False,
    plain_http: Annotated[bool, flag("--plain-http")] = False,
    cors_origin: Annotated[list[str] | None, option("ORIGIN", False)] = None,
    tracing: Annotated[bool, flag("--tracing")] = False,
    log_level: Annotated[str, option("LEVEL")] = "info",
) -> None:
    """Decide over HTTP: a service with exact probabilities and late feedback.

    Start with: bothworlds serve --experiment headline --arms a,b,c

    Parameters
    ----------
    config : str, optional
        Configuration file with options and experiments, in TOML; experiments that are missing are
        created.
    host : str
        Address to listen on.
    port : int
        Port to listen on; 0 takes a free one.
    require_keys : bool
        Answer only requests with a key; needed beyond this machine.
    experiment : str, optional
        Experiment to create if missing; needs --arms.
    arms : str, optional
        Its arms, separated by commas.
    policy : str, optional
        Its policy, by the name that `bothworlds compare` uses.
    rate : float, optional
        Requests a second that one key may make.
    retention_days : float, optional
        Days after which the log is deleted; the learned state is kept.
    access_log : bool
        Log every request, not only changes.
    plain_http : bool
        Switch off the fast path for decisions and feedback; slower, same answers.
    cors_origin : list[str], optional
        Origin whose web pages may decide and report feedback, such as https://shop.example.com; may
        be given several times.
    tracing : bool
        Send a span of every request to OpenTelemetry; the variables OTEL_* state where.
    log_level : str
        debug, info, warning or error.
    """
    if context.invoked_subcommand is not None:
        return
    level = parse.choose("--log-level", log_level, ["debug", "info", "warning", "error"])
    if (experiment is None) != (arms is None):
        raise InvalidParameter("The options --experiment and --arms must be given together.")
    if policy is not None and experiment is None:
        raise InvalidParameter("The option --policy needs --experiment and --arms.")
    names = [] if arms is None else parse.listed(arms, "--arms")
    if arms is not None and len(names) < 2:
        raise invalid("--arms", "bothworlds serve", "at least two names", arms)
    if rate is not None and not 0.0 < rate < 1e9:
        raise invalid("--rate", "bothworlds serve", "a positive number", rate)
    if retention_days is not None and not 0.0 < retention_days < 1e6:
        raise invalid("--retention-days", "bothworlds serve", "a positive number", retention_days)
    with extras():
        from bothworlds.serve.http.server import run
        from bothworlds.serve.ops import logs
        from bothworlds.serve.ops.tracing import Tracing

        logs.configure(level)

        def announce(url: str) -> None:
            open_to = "keys required" if require_keys else "this machine only, no keys"
            typer.echo(f"Listening on {url} ({open_to}), store {_shown(store)}")

        run(
            lambda: _opened(store, experiment, names, policy, retention_days, config),
            host=host,
            port=port,
            keys=require_keys,
            rate=rate,
            access_log=access_log,
            plain_http=plain_http,
            cors_origins=cors_origin or (),
            tracing=Tracing.exporting() if tracing else None,
            announce=announce,
        )


async def _opened(
    store: str,
    experiment: str | None,
    arms: list[str],
    policy: str | None,
    retention_days: float | None,
    config: str | None = None,
) -> Service:
    """Open the service, with the experiments that were asked for."""
    from bothworlds.serve.domain.config import checked
    from bothworlds.serve.domain.service import Arm, NewExperiment, Service, Settings
    from bothworlds.serve.problems import Problem

    service = await Service.open(store, Settings(retention_days=retention_days))
    if experiment is not None:
        made = [Arm(name) for name in arms]
        spec = NewExperiment(experiment, made, policy=policy or "tsallis")
        try:
            await service.create(replace(Service.LOCAL, request_id="command line"), spec)
        except Problem as problem:
            different: str | None = ""
            if problem.code == "experiment_exists":
                stored = service.experiment_state(Service.LOCAL, experiment)
                different = _difference(stored, arms, policy and checked(spec)[0].learner)
            if different is not None:
                await service.close()
            if different == "":
                raise
            if different is not None:
                raise InvalidParameter(
                    f"The store has an experiment {experiment!r} with {different}. Leave "
                    f"--experiment, --arms and --policy out, or choose another name."
                ) from None
    if config is not None:
        try:
            await _created(service, config)
        except BaseException:
            await service.close()
            raise
    return service


def _difference(stored: Experiment, arms: list[str], policy: object) -> str | None:
    """Return the difference between an experiment and the one asked for, None without any."""
    found = stored.names(stored.active)
    if set(found) != set(arms):
        return f"the arms {', '.join(found)}, not {', '.join(arms)}"
    # An earlier version may have described the same policy in other words.
    if policy is not None and stored.config.learner != policy:
        return "another policy"
    return None


async def _created(service: Service, config: str) -> None:
    """Create the experiments of a configuration file that are missing."""
    from bothworlds.serve.ops import config_file
    from bothworlds.serve.ops.logs import LOGGER
    from bothworlds.serve.problems import Problem

    file = config_file.read(config)
    for step in await config_file.plan(service, file, only_new=True):
        try:
            await step.apply()
        except Problem as problem:
            # Another replica that starts at the same time was faster.
            if problem.code != "experiment_exists":
                raise
    try:
        steps = await config_file.plan(service, file)
    except Problem as problem:
        LOGGER.warning("%s", problem)
    else:
        if steps:
            LOGGER.warning("Changes of %s are not applied; see `bothworlds serve plan`.", config)


@app.command()
@refusals()
def plan(config: ConfigPath = "bothworlds.toml", store: Store = "bothworlds.db") -> None:
    """Show the changes that `serve apply` would make; works while a server is running.

    Without a store, the plan creates everything.

    Example: bothworlds serve plan --config bothworlds.toml
    """
    _planned(config, store, apply=False)


@app.command()
@refusals()
def apply(config: ConfigPath = "bothworlds.toml", store: Store = "bothworlds.db") -> None:
    """Make the experiments of a store match a configuration file.

    Creates what is missing and changes what may be changed; refuses to lose anything. Works while
    a server is running.

    Example: bothworlds serve apply --config bothworlds.toml
    """
    _planned(config, store, apply=True)


def _planned(config: str, store: str, *, apply: bool) -> None:
    with extras():
        import asyncio
        import tempfile
        from pathlib import Path

        from bothworlds.serve.domain.service import Service
        from bothworlds.serve.ops import config_file
        from bothworlds.serve.store.opening import is_new

        async def run(folder: str) -> bool:
            file = config_file.read(config)
            # Where there is nothing yet, the plan is that of an empty store.
            planned = str(Path(folder) / "empty.db") if not apply and is_new(store) else store
            service = await Service.open(planned, serve=False, create=planned != store or apply)
            try:
                steps = await config_file.plan(service, file)
                for step in steps:
                    if apply:
                        await step.apply()
                    typer.echo(step.text)
                return bool(steps)
            finally:
                await service.close()

        with tempfile.TemporaryDirectory() as folder:
            changed = asyncio.run(run(folder))
    if not changed:
        typer.echo(f"{_shown(store)} matches {config}: nothing to change.")
    elif apply:
        typer.echo(f"Applied to {_shown(store)}.")
    else:
        typer.echo(f"Not applied to {_shown(store)} yet; run `bothworlds serve apply`.")


def _shown(store: str) -> str:
    """Return the name of a store without the password that may be in it."""
    scheme, found, rest = store.partition("://")
    if not found:
        return store
    login, at, place = rest.rpartition("@")
    user = login.partition(":")[0]
    return f"{scheme}://{user}{at}{place.partition('?')[0]}"


@key.command("create")
@command
def create(
    scopes: Annotated[str, option("SCOPES")],
    store: Store = "bothworlds.db",
    label: Annotated[str, option("TEXT", False)] = "",
    tenant: Annotated[str | None, option("NAME", "the first")] = None,
) -> None:
    """Create a key and print it once; works while a server is running.

    Example: bothworlds serve key create --scopes decide,feedback

    Parameters
    ----------
    scopes : str
        Scopes of the key, separated by commas: decide, feedback, read, admin.
    label : str
        Label shown in the list of keys.
    tenant : str, optional
        Tenant of the key, created if missing.
    """
    with extras():
        from bothworlds.serve.ops.admin import create_key

        typer.echo(create_key(store, parse.listed(scopes, "--scopes"), label=label, tenant=tenant))


@key.command("list")
@refusals()
def list_(store: Store = "bothworlds.db", as_json: AsJson = False) -> None:
    """List the keys of all tenants, without their secrets.

    Example: bothworlds serve key list
    """
    with extras():
        from bothworlds.serve.ops.admin import list_keys

        found = list_keys(store)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    for each in found:
        state = "valid" if each["revoked_at"] is None else "revoked"
        scopes = ",".join(each["scopes"])
        typer.echo(f"{each['id']}  {state:7}  {each['tenant']}  {scopes}  {each['label']}".rstrip())


@key.command()
@command
def revoke(
    id: Annotated[str, argument("ID")],
    store: Store = "bothworlds.db",
) -> None:
    """Revoke a key and its decide tokens; works while a server is running.

    Example: bothworlds serve key revoke 0123456789ab

    Parameters
    ----------
    id : str
        The id of the key, which the list shows.
    """
    with extras():
        from bothworlds.serve.ops.admin import revoke_key

        revoke_key(store, id)
    typer.echo(f"The key {id} is revoked.")


@app.command()
@refusals()
def migrate(store: Store = "bothworlds.db") -> None:
    """Update the tables of a store to this version.

    Example: bothworlds serve migrate --store postgresql://localhost/bothworlds
    """
    with extras():
        from bothworlds.serve.store.opening import migrate as migrated

        before, after = migrated(store)
    done = "is up to date" if before == after else f"went from version {before} to {after}"
    typer.echo(f"{_shown(store)} {done}.")


@app.command()
@refusals()
def restored(store: Store = "bothworlds.db") -> None:
    """Refuse the decision ids that a restored backup does not know; run it before the server.

    Example: bothworlds serve restored
    """
    with extras():
        from bothworlds.serve.ops.admin import begin_incarnation

        begin_incarnation(store)
    typer.echo(f"{_shown(store)} refuses decision ids created after its backup.")


@app.command()
@refusals()
def verify(store: Store = "bothworlds.db", as_json: AsJson = False) -> None:
    """Check the invariants of a store, also while a server is running.

    Example: bothworlds serve verify
    """
    with extras():
        from bothworlds.serve.ops.verify import verify as verified

        findings = verified(store)
    if as_json:
        lines = [
            {"invariant": each.invariant, "ok": each.ok, "detail": each.detail} for each in findings
        ]
        typer.echo(json.dumps(lines, ensure_ascii=False))
    else:
        for each in findings:
            typer.echo(f"{each.invariant:4} {'holds' if each.ok else 'FAILS'}  {each.detail}")
    failed = [each.invariant for each in findings if not each.ok]
    if failed:
        say(f"The store {_shown(store)} does not keep {', '.join(failed)}.")
        raise typer.Exit(FAILED)


@app.command()
@command
def replay(
    store: Store = "bothworlds.db",
    write: Annotated[bool, flag("--write")] = False,
) -> None:
    """Rebuild the state of every experiment from its log, and compare.

    Example: bothworlds serve replay

    Parameters
    ----------
    write : bool
        Replace the stored state by the one rebuilt from the log.
    """
    with extras():
        from bothworlds.serve.ops.verify import replay as replayed

        found = replayed(store, write=write)
    for each in found:
        same = "equal" if each.equal else "replaced" if write else "DIFFERENT"
        typer.echo(f"{each.experiment} epoch {each.epoch}: {each.rows} rows, {same}")
    if not write and not all(each.equal for each in found):
        say("The state differs from the one rebuilt from the log; --write replaces it.")
        raise typer.Exit(FAILED)
