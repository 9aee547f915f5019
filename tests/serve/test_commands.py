"""Commands next to `bothworlds serve`: keys, migration, verification, replay."""

import asyncio
import contextlib
import json
import sqlite3
import sys

import pytest
from typer.testing import CliRunner

from bothworlds.cli import serve as commands
from bothworlds.cli.commands import app
from bothworlds.errors import MissingExtra
from bothworlds.serve.domain.service import Arm, NewExperiment, Service


def run(*words):
    return CliRunner().invoke(app, ["serve", *map(str, words)])


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store.db"


def test_a_key_is_printed_once_and_kept_as_a_hash(store):
    made = run("key", "create", "--store", store, "--scopes", "decide,feedback", "--label", "me")
    assert made.exit_code == 0
    key = made.output.strip()
    assert key.startswith("bw_")
    assert key.split("_", 2)[2].encode() not in store.read_bytes()


@pytest.mark.parametrize("scopes", ["root", "decide,root", ""])
def test_other_scopes_are_refused_in_one_sentence(store, scopes):
    refused = run("key", "create", "--store", store, "--scopes", scopes)
    assert refused.exit_code != 0
    assert len(refused.output.strip().splitlines()) == 1


def test_a_new_store_is_up_to_date_and_keeps_its_invariants(store):
    run("key", "create", "--store", store, "--scopes", "read")
    assert "is up to date" in run("migrate", "--store", store).output
    verified = run("verify", "--store", store, "--json")
    assert verified.exit_code == 0
    assert all(each["ok"] for each in json.loads(verified.output))
    assert run("replay", "--store", store).exit_code == 0


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    for command in ("verify", "replay"):
        refused = run(command, "--store", tmp_path / "none.db")
        assert refused.exit_code == 1
        assert "There is no store" in refused.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [["verify"], ["replay"], ["migrate"], ["key", "create", "--scopes", "read"]],
    ids=" ".join,
)
def test_a_database_that_is_away_is_named_in_one_sentence(words):
    refused = run(*words, "--store", "postgresql://user:s3cret@127.0.0.1:1/x")
    assert refused.exit_code == 1
    assert "cannot be opened" in refused.output
    assert "s3cret" not in refused.output
    assert isinstance(refused.exception, SystemExit)


def test_wrong_options_are_refused(store):
    assert "must be given together" in run("--store", store, "--arms", "a,b").output
    assert "--rate" in run("--store", store, "--rate", "-1").output
    assert "--retention-days" in run("--store", store, "--retention-days", "0").output
    assert "--log-level" in run("--store", store, "--log-level", "loud").output
    assert "loopback" in run("--store", store, "--host", "0.0.0.0").output
    assert "did you mean 'verify'" in run("verfy").output
    assert not store.exists()


def test_a_password_is_not_shown():
    shown = commands._shown("postgresql://me:secret@host:5432/bandits?sslpassword=secret")
    assert shown == "postgresql://me@host:5432/bandits"
    assert commands._shown("folder/bothworlds.db") == "folder/bothworlds.db"


@pytest.mark.parametrize("command", [(), ("verify",), ("migrate",)])
@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("mysql://localhost/bothworlds", "got mysql://"),
        ("postgresql://localhost/bothworlds", "bothworlds[postgres]"),
        ("{folder}/none/store.db", "there is no"),
    ],
)
def test_a_store_that_cannot_be_is_refused_in_one_sentence(
    tmp_path, monkeypatch, command, address, why
):
    monkeypatch.setitem(sys.modules, "bothworlds.serve.store.postgres", None)
    if command == ():
        command = ("--port", "0")
    outcome = run(*command, "--store", address.format(folder=tmp_path))
    assert outcome.exit_code in (1, 2)
    assert why in outcome.output.lower().replace("\n", " ")
    assert "Traceback" not in outcome.output


def test_a_database_that_refuses_is_reported_in_one_sentence():
    # Port 1 of this machine: nothing listens there.
    outcome = run("verify", "--store", "postgresql://me:secret@127.0.0.1:1/bandits")
    assert outcome.exit_code in (1, 2)
    text = " ".join(outcome.output.split())
    assert "cannot be opened" in text and "Connection refused." in text
    assert "?" not in text and "secret" not in text and "Traceback" not in text


def test_other_arms_than_the_stored_ones_are_refused(store):
    async def created():
        service = await Service.open(str(store))
        await service.create(Service.LOCAL, NewExperiment("headline", [Arm("a"), Arm("b")]))
        await service.close()

    asyncio.run(created())
    for arms in ("a,c", "a,b,c"):
        outcome = run("--port", "0", "--store", store, "--experiment", "headline", "--arms", arms)
        assert outcome.exit_code in (1, 2)
        assert "with the arms a, b, not" in outcome.output.replace("\n", " ")
    given = ("--port", "0", "--store", store, "--experiment", "headline", "--arms", "a,b")
    outcome = run(*given, "--policy", "tsallis-iw")
    assert outcome.exit_code in (1, 2)
    assert "with another policy" in outcome.output.replace("\n", " ")
    outcome = run(*given[:4], "--policy", "tsallis-iw")
    assert "--policy needs --experiment" in outcome.output.replace("\n", " ")


def test_a_policy_that_an_earlier_version_described_is_the_same(store):
    """Parameters that a policy has got since are not in the store."""

    async def opened():
        service = await commands._opened(str(store), "headline", ["a", "b"], "floor", None)
        await service.close()

    asyncio.run(opened())
    with contextlib.closing(sqlite3.connect(store)) as database, database:
        config = json.loads(database.execute("SELECT config FROM experiment").fetchone()[0])
        for name in ("min_share", "max_share", "control", "control_share"):
            del config["policy"]["fields"][name], config[name]
        database.execute("UPDATE experiment SET config = ?", (json.dumps(config),))
    asyncio.run(opened())


@pytest.mark.parametrize(
    "word", ["allworlds", "tsallis-soft", "tsallis-v", "htinf", "discounted", "alarmed"]
)
def test_the_policies_that_the_docs_recommend_are_served_by_their_words(store, word):
    async def opened():
        service = await commands._opened(str(store), "headline", ["a", "b"], word, None)
        decided = await service.decide(Service.LOCAL, "headline")
        told = await service.feedback(Service.LOCAL, decided.decision_id, loss=0.5)
        await service.close()
        return told.status

    assert asyncio.run(opened()) == "learned"
    # The same words again find the experiment that is there.
    assert asyncio.run(opened()) == "learned"


@pytest.mark.parametrize(("package", "extra"), [("uvicorn", "serve"), ("msgspec", "serve")])
def test_a_missing_package_names_its_extra(package, extra):
    with pytest.raises(MissingExtra, match=rf"bothworlds\[{extra}\]"), commands.extras():
        raise ImportError(f"No module named {package!r}", name=f"{package}.part")
    with pytest.raises(ImportError, match="other"), commands.extras():
        raise ImportError("No module named 'other'", name="other")
