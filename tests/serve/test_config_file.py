"""Configuration file: planned, applied next to a running service, and refused."""

import asyncio
import json
from functools import partial

import msgspec
import pytest
from typer.testing import CliRunner

from bothworlds.cli.commands import app
from bothworlds.errors import InvalidParameter
from bothworlds.serve.domain.config import CHANGEABLE, Changeable, NewExperiment
from bothworlds.serve.domain.service import Service
from bothworlds.serve.ops import config_file
from bothworlds.serve.ops.admin import create_key, list_keys
from bothworlds.serve.problems import Problem
from helpers.served import served as running
from helpers.waiting import wait_until
from serve.conftest import BOTH, QUIET, spec

ME = Service.LOCAL
HEADLINE = '[experiments.headline]\narms = ["blue", "green"]\n'


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a configuration file and returns its path."""

    def written(text, service=""):
        path = tmp_path / "bothworlds.toml"
        path.write_text(f"[service]\nstore = '{tmp_path}/store.db'\n{service}\n{text}")
        return str(path)

    return written


def run(*words, **environment):
    done = CliRunner(env=environment).invoke(app, ["serve", *map(str, words)])
    # A notice that kernels are compiled goes to standard error, as refusals do.
    return done.exit_code, " ".join((done.output if done.exit_code else done.stdout).split())


def test_apply_creates_what_is_missing_and_is_idempotent(file, tmp_path):
    path = file(HEADLINE + 'floor = 0.1\npolicy = "exp3"\n')
    planned = "headline: create with the arms blue, green"
    first = (
        0,
        f"{planned} Not applied to {tmp_path}/store.db yet; run `bothworlds serve apply`.",
    )
    # Before there is a store, and with an empty one.
    assert run("plan", "--config", path) == first
    assert not (tmp_path / "store.db").exists()
    create_key(str(tmp_path / "store.db"), ["read"])
    assert run("plan", "--config", path) == first
    assert run("apply", "--config", path) == (0, f"{planned} Applied to {tmp_path}/store.db.")
    before = (tmp_path / "store.db").read_bytes()
    for command in ("plan", "apply"):
        assert run(command, "--config", path) == (
            0, f"{tmp_path}/store.db matches {path}: nothing to change.",
        )  # fmt: skip
    assert (tmp_path / "store.db").read_bytes() == before


def test_every_setting_of_an_experiment_can_be_written(file):
    """A setting that is added to the schema is accepted, planned and applied without more code."""
    samples = {
        "feedback_window": 60.0, "missing": "default", "default_loss": 1.0, "floor": 0.25,
        "floor_power": 0.5, "control": "blue", "control_share": 0.25, "sticky_seconds": 30.0,
        "log": "before", "unit_cap": 5, "key_cap": 50, "description": "What the page says.",
        "max_segments": 50, "segment_prior": 30, "segment_key": "country",
    }  # fmt: skip
    assert samples.keys() <= set(CHANGEABLE)
    assert run("apply", "--config", file(HEADLINE))[0] == 0
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in samples.items())
    lines += "min_share = { green = 0.1 }\nmax_share = { green = 0.8 }\n"
    samples |= {"min_share": {"green": 0.1}, "max_share": {"green": 0.8}}
    path = file(HEADLINE + lines)
    code, told = run("plan", "--config", path)
    assert code == 0
    for name, value in samples.items():
        assert f"{name} {getattr(Changeable(), name)!r} -> {value!r}" in told
    assert run("apply", "--config", path)[0] == 0
    assert "nothing to change" in run("plan", "--config", path)[1]
    # What is left out has its default again.
    assert "floor 0.25 -> 0.0" in run("apply", "--config", file(HEADLINE))[1]


def test_other_tenants_have_experiments_of_their_own(file, tmp_path):
    path = file(HEADLINE + HEADLINE.replace("[", "[tenants.shop.", 1))
    lines = (
        "headline: create with the arms blue, green create the tenant shop "
        "shop: headline: create with the arms blue, green"
    )
    store = str(tmp_path / "store.db")
    assert run("plan", "--config", path)[1].startswith(f"{lines} Not applied")
    assert run("apply", "--config", path) == (0, f"{lines} Applied to {store}.")
    assert "nothing to change" in run("apply", "--config", path)[1]
    more = file(HEADLINE + HEADLINE.replace("[", "[tenants.shop.", 1) + "floor = 0.1\n")
    assert "shop: headline: change floor 0.0 -> 0.1" in run("apply", "--config", more)[1]

    async def floors():
        service = await Service.open(store, QUIET)
        try:
            key, _ = await service.create_key(ME, ["read"], tenant="shop")
            callers = service.principal(key), ME
            return [service.experiment(who, "headline")["floor"] for who in callers]
        finally:
            await service.close()

    assert asyncio.run(floors()) == [0.1, 0.0]


def test_experts_can_be_written_and_are_fixed(file):
    path = file(HEADLINE + 'experts = ["model", "rules"]\n')
    assert run("apply", "--config", path)[0] == 0
    assert "nothing to change" in run("plan", "--config", path)[1]
    code, told = run("apply", "--config", file(HEADLINE + 'experts = ["model"]\n'))
    assert code == 1 and "the setting 'experts' is fixed" in told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[experiments.x]\narms = ['a']\n", "Expected `array` of length >= 2"),
        ("[experiments.x]\narms = ['a', 'b']\nflor = 1\n", "unknown field `flor`"),
        ("[experiments.x]\narms = ['a', 'b']\nfloor = 2\n", "Expected `float` <= 1.0"),
        ("[experiments.x]\narms = ['a', 'a']\n", "of distinct names"),
        ("[experiments.x]\narms = ['a', 'b']\nmin_share = { a = 1, b = 1 }\n", "to at most 1"),
        (
            "[experiments.x]\narms = ['a', 'b']\ncontrol = 'c'\n",
            "The control 'c' must be an active arm.",
        ),
        ("[experiments.x]\narms = ['a', 'b']\npolicy = 'magic'\n", "must be a word such as"),
        ("[experiments.'a b']\narms = ['a', 'b']\n", "Expected 1 to 100 letters, digits"),
        ("[tenants.shop.experiments.x]\narms = ['a']\n", "Expected `array` of length >= 2"),
        ("[tenants.'a\u200b'.experiments.x]\narms = ['a', 'b']\n", "tenant"),
        ("[tenants.shop]\narms = ['a', 'b']\n", "unknown field `arms`"),
        ("[experiment.x]\narms = ['a', 'b']\n", "unknown field `experiment`"),
        ("[experiments.x]\narms = [", "is not valid"),
        ("experiments = 3", "Expected `object`"),
    ],
)
def test_a_file_that_is_not_valid_is_refused_in_one_sentence(file, tmp_path, text, why):
    create_key(str(tmp_path / "store.db"), ["read"])
    before = (tmp_path / "store.db").read_bytes()
    path = tmp_path / "other.toml"
    path.write_text(text)
    for command in ("plan", "apply"):
        code, told = run(command, "--config", path, "--store", tmp_path / "store.db")
        assert code in (1, 2) and why in told, told
    assert (tmp_path / "store.db").read_bytes() == before


def test_options_come_from_the_file_unless_they_are_given(file, tmp_path):
    assert "did you mean 'rate'" in run("--config", file("", "rat = 3"))[1]
    assert "--rate" in run("--config", file("", "rate = -3"))[1]
    assert "--cors-origin" in run(
        "--config", file("", 'require_keys = true\ncors_origin = ["*"]')
    )[1]  # fmt: skip
    assert "--rate" in run("--config", file("", "rate = 3"), "--rate", "-1")[1]
    assert "Not applied to here.db yet" in run(
        "plan", "--config", file(HEADLINE), "--store", "here.db"
    )[1]  # fmt: skip
    assert "No such file" in run("plan", "--config", tmp_path / "none.toml")[1]


def test_secrets_come_from_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "bothworlds.toml"
    monkeypatch.setenv("DB_PASSWORD", "s3cret")
    path.write_text("[service]\nstore = 'postgresql://me:${DB_PASSWORD}@db/bandits'\n")
    assert config_file.read(path).service["store"] == "postgresql://me:s3cret@db/bandits"
    monkeypatch.delenv("DB_PASSWORD")
    with pytest.raises(InvalidParameter, match="variable DB_PASSWORD, which is not set"):
        config_file.read(path)
    for store in ("postgresql://me:s3cret@db/bandits", "postgresql://db/bandits?password=s3cret"):
        path.write_text(f"[service]\nstore = '{store}'\n")
        with pytest.raises(InvalidParameter, match="must not have a password") as refused:
            config_file.read(path)
        assert "s3cret" not in str(refused.value)


# --- next to services that run --------------------------------------------------------------------


@pytest.fixture(params=BOTH)
def dialect(request):
    return request.param


def changed(**more):
    return [spec("headline", "abc", **more)]


async def administered(where, work):
    """Let a service that does not serve do something in the store of one that does."""
    visitor = await Service.open(where(), QUIET, serve=False)
    try:
        return await work(visitor)
    finally:
        await visitor.close()


def stated(wanted):
    """Return a configuration file with these experiments."""
    tables = [msgspec.to_builtins(each) for each in wanted]
    return config_file.ConfigFile(experiments={each.pop("name"): each for each in tables})


async def applied(wanted, visitor):
    steps = await config_file.plan(visitor, stated(wanted))
    for step in steps:
        await step.apply()
    return [step.text for step in steps]


def test_a_database_without_tables_is_planned_from_nothing(file, where):
    code, told = run("plan", "--config", file(HEADLINE), "--store", where("new.db"))
    assert code == 0 and "headline: create with the arms blue, green" in told
    assert run("plan", "--config", file(HEADLINE), "--store", where("new.db"))[0] == 0


def test_a_running_service_follows_and_a_new_arm_has_its_probability(on_service, where):
    @partial(on_service, arms="ab")
    async def body(service):
        for _ in range(30):
            made = await service.decide(ME, "headline")
            await service.feedback(ME, made.decision_id, loss=float(made.arm == "a"))
        await service.flushed()
        before = service.experiment(ME, "headline")
        told = await administered(where, partial(applied, changed(floor=0.1)))
        assert told == ["headline: add the arm c", "headline: change floor 0.0 -> 0.1"]
        await service.replicas.poll_once()
        found = service.experiment(ME, "headline")
        assert found["floor"] == 0.1
        assert [arm["name"] for arm in found["arms"]] == ["a", "b", "c"]
        # As `POST .../arms` would place it: 1 / K by default, before the floor.
        share = found["arms"][2]["probability"]
        assert share == pytest.approx(1 / 3, abs=1e-6)
        assert found["learned"] == before["learned"] == 30
        assert (await service.gaps(ME, "headline"))["unclean"] == 0

    assert body is None


def test_what_would_lose_something_is_refused_and_changes_nothing(on_service, where):
    @partial(on_service, arms="abcd")
    async def body(service):
        made = await service.decide(ME, "headline", available=["d"])
        await service.flushed()
        before = service.experiment(ME, "headline")

        async def refused(wanted, why):
            with pytest.raises(Problem, match=why):
                await administered(where, partial(applied, wanted))
            await service.replicas.poll_once()
            after = service.experiment(ME, "headline")
            assert {**after, "state_age": 0, "arms": None} == {
                **before, "state_age": 0, "arms": None,
            }  # fmt: skip

        new = spec("other", "xy")
        await refused([new, *changed()], "for the arm 'd' still wait for their feedback")
        await refused([new, spec(policy="exp3")], "the setting 'policy' is fixed")
        await refused([new, spec(bounds=(0.0, 2.0))], "the setting 'bounds' is fixed")
        valued = msgspec.structs.replace(spec(), arms=[{"name": "a", "value": 1}, *"bcd"])
        valued = msgspec.convert(msgspec.to_builtins(valued), NewExperiment)
        await refused([new, valued], "the value of 'a' is fixed")
        assert service.names(ME) == ["headline"]
        # Once the feedback has come, the arm may go; its name stays taken.
        await service.feedback(ME, made.decision_id, loss=0.5)
        told = await administered(where, partial(applied, changed()))
        assert told == ["headline: retire the arm d"]
        await service.replicas.poll_once()
        with pytest.raises(Problem, match="is retired, and its name stays taken"):
            await administered(where, partial(applied, [spec()]))
        await service.set_mode(ME, "headline", "pin", arm="c")
        with pytest.raises(Problem, match="'c' is pinned; resume the experiment first"):
            await administered(where, partial(applied, [spec(arms="ab")]))

    assert body is None


@pytest.mark.processes
def test_serve_with_a_file_creates_what_is_missing_and_changes_nothing(file, tmp_path):
    path = file(HEADLINE)
    store = tmp_path / "store.db"
    with running(store, "--config", path) as service:
        found = service.ask("GET", "/v1/experiments/headline").json
        assert [arm["name"] for arm in found["arms"]] == ["blue", "green"]
        assert "not applied" not in service.log()
        # Next to the running service.
        changed = file(HEADLINE + "floor = 0.2\n")
        assert "change floor" in run("apply", "--config", changed)[1]
        wait_until(lambda: service.ask("GET", "/v1/experiments/headline").json["floor"] == 0.2)
    with running(store, "--config", file(HEADLINE)) as service:
        assert service.ask("GET", "/v1/experiments/headline").json["floor"] == 0.2
        assert "are not applied; see `bothworlds serve plan`" in service.log()
    lines = [json.loads(line) for line in service.log().splitlines()]
    made = [line for line in lines if line["message"] == "changed"]
    assert [(line["experiment"], line["action"]) for line in made] == [("headline", "create")]


def test_keys_are_listed_without_secrets_and_revoked(tmp_path, dialect, where):
    store = where()
    secret = create_key(store, ["decide"], label="shop")
    other = create_key(store, ["read"], tenant="other")
    id = secret.split("_")[1]
    code, told = run("key", "list", "--store", store)
    assert code == 0
    assert f"{id} valid default decide shop" in told
    assert f"{other.split('_')[1]} valid other read" in told
    assert secret.split("_", 2)[2] not in told
    assert run("key", "revoke", id, "--store", store) == (0, f"The key {id} is revoked.")
    assert run("key", "revoke", other.split("_")[1], "--store", store)[0] == 0
    for again in (id, "nothing"):
        code, told = run("key", "revoke", again, "--store", store)
        assert code == 1 and "There is no valid key" in told
    found = json.loads(CliRunner().invoke(
        app, ["serve", "key", "list", "--store", store, "--json"]
    ).output)  # fmt: skip
    assert found == list_keys(store)
    assert all(key["revoked_at"] is not None for key in found)

    async def refused():
        service = await Service.open(store, QUIET)
        try:
            return service.principal(secret)
        finally:
            await service.close()

    assert asyncio.run(refused()) is None
