"""TypeScript client in Node and in Chromium, against the real service."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.ports import free_port
from helpers.served import served
from helpers.waiting import HANG, wait_until

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "clients/typescript"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.extra,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None, reason="the TypeScript client is tested where Node is"),
]


def run(*command, **more):
    done = subprocess.run(
        command, cwd=FOLDER, capture_output=True, text=True, check=False, timeout=HANG, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built():
    """Install what the client is built with, and build it, once for all workers."""
    sources = [FOLDER / "package-lock.json", FOLDER / "test/page.ts", *FOLDER.glob("src/*.ts")]
    stamp = FOLDER / "node_modules/.built"
    with open(FOLDER / ".lock", "w") as lock:
        # Another worker would remove the packages that this one uses.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or any(
            each.stat().st_mtime > stamp.stat().st_mtime for each in sources
        ):
            run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
            run("npm", "run", "build")
            run("npm", "run", "bundle")
            stamp.touch()


@contextlib.contextmanager
def with_keys(store, *options):
    """Run a service with a key for administration and one for decisions."""
    # Before it starts: a running service learns of new keys only at its next poll.
    admin, caller = key(store, "admin", "read"), key(store, "decide", "feedback")
    with served(store, "--require-keys", *options) as running:
        running.admin, running.caller = admin, caller
        made = running.ask("POST", "/v1/experiments", {"name": "headline", "arms": ARMS}, key=admin)
        assert made.status == 201, made.body
        yield running


@pytest.fixture
def service(tmp_path):
    with with_keys(tmp_path / "store.db") as running:
        yield running


def key(store, *scopes):
    done = subprocess.run(
        [sys.executable, "-m", "bothworlds", "serve", "key", "create", "--store", str(store),
         "--scopes", ",".join(scopes)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


ARMS = [{"name": "blue"}, {"name": "green"}]


def test_the_types_are_those_of_the_openapi_document(built, tmp_path):
    made = tmp_path / "schema.d.ts"
    document = ROOT / "tests/golden/openapi.json"
    run("npx", "openapi-typescript", str(document), "-o", str(made))
    assert made.read_text() == (FOLDER / "src/schema.d.ts").read_text(), "run `npm run types`"


def test_the_client_in_node(built, tmp_path):
    with served(tmp_path / "store.db") as service:
        for more in (
            {"name": "headline"},
            {"name": "advised", "experts": ["model", "rules"]},
            {"name": "shared", "control": "blue", "control_share": 0.2},
        ):
            created = service.ask("POST", "/v1/experiments", {"arms": ARMS, **more})
            assert created.status == 201, created.body
        told = run(NODE, "--test", "test/node.test.mjs", env={**os.environ, "SERVICE": service.url})
        assert "# fail 0" in told, told


def learned_by(service):
    return service.ask("GET", "/v1/experiments/headline", key=service.admin).json["learned"]


@contextlib.contextmanager
def site(service, secret, port=0):
    """Run a shop's own server, with the relay and the tokens of the examples."""
    env = {**os.environ, "BOTHWORLDS_URL": service.url, "BOTHWORLDS_KEY": secret}
    env["PORT"] = str(port)
    process = subprocess.Popen(
        [NODE, "test/site.mjs"], cwd=FOLDER, stdout=subprocess.PIPE, text=True, env=env
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(HANG)
        process.stdout.close()


@pytest.fixture
def page():
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    if found is None:
        pytest.fail("This test needs Chromium on the path: apt-get install chromium.")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        opened = browser.new_page()
        opened.set_default_timeout(1000.0 * HANG)
        yield opened
        browser.close()


@pytest.mark.browser
def test_the_client_in_a_browser(built, service, page):

    def learned():
        return learned_by(service)

    with site(service, service.caller) as url:
        page.goto(url)
        page.wait_for_function("globalThis.Client !== undefined")
        arm = page.evaluate(
            """async () => {
                globalThis.client = new Client(location.origin, { timeout: 60000 });
                const decision = await client.decide("headline", { unit: "ann" });
                const status = await client.feedback(decision, { reward: 1 });
                return [decision.arm, decision.probability, status];
            }"""
        )
        assert arm[0] in ("blue", "green") and 0 < arm[1] <= 1 and arm[2] == "learned"
        assert learned() == 1
        # OpenFeature in the browser, with the published SDK.
        value = page.evaluate(
            """async () => {
                const provider = new BothworldsWebProvider(client, ["headline"]);
                await OpenFeature.setContext({ targetingKey: "bob" });
                await OpenFeature.setProviderAndWait(provider);
                const flags = OpenFeature.getClient();
                const value = flags.getStringValue("headline", "none");
                flags.track("headline", { value: 1 });
                await client.flush();
                return value;
            }"""
        )
        assert value in ("blue", "green")
        assert learned() == 2
        # Feedback that is reported while the page closes arrives by a beacon.
        page.evaluate(
            """async () => {
                const decision = await client.decide("headline");
                const report = () => client.feedback(decision, { reward: 0 });
                addEventListener("pagehide", report, { capture: true });
            }"""
        )
        page.goto("about:blank")
        wait_until(lambda: learned() == 3)
        # What the relay does not name stays on the server.
        page.goto(url)
        refused = page.evaluate(
            "async () => (await fetch('/v1/experiments', { method: 'GET' })).status"
        )
        assert refused == 403


CROSSING = """async (service) => {
    const token = async () => (await fetch("/bandit-token", { method: "POST" })).text();
    globalThis.minted = 0;
    globalThis.client = new Client(service, {
        timeout: 60000, key: async () => { globalThis.minted += 1; return await token(); },
    });
    const decision = await client.decide("headline", { unit: "ann" });
    const status = await client.feedback(decision, { reward: 1 });
    return [decision.arm, status, globalThis.minted];
}"""


@pytest.mark.browser
@pytest.mark.parametrize("path", [(), ("--plain-http",)], ids=["fast", "plain"])
def test_a_page_of_another_origin_decides_with_a_token(built, page, tmp_path, path):
    port = free_port()
    options = ("--cors-origin", f"http://127.0.0.1:{port}", *path)
    with (
        with_keys(tmp_path / "store.db", *options) as service,
        site(service, service.caller, port) as url,
    ):
        page.goto(url)
        page.wait_for_function("globalThis.Client !== undefined")
        arm, status, minted = page.evaluate(CROSSING, service.url)
        assert arm in ("blue", "green")
        assert (status, minted) == ("learned", 1)
        assert learned_by(service) == 1
        # Feedback that is reported while the page closes arrives, although it needs a token.
        page.evaluate(
            """async () => {
                const decision = await client.decide("headline");
                const report = () => client.feedback(decision, { reward: 0 });
                addEventListener("pagehide", report, { capture: true });
            }"""
        )
        page.goto("about:blank")
        wait_until(lambda: learned_by(service) == 2)
        # An expired token is replaced by a new one.
        page.goto(url)
        page.wait_for_function("globalThis.Client !== undefined")
        expired = service.ask("POST", "/v1/decide-tokens", {"seconds": 1}, key=service.caller).json
        wait_until(lambda: service.ask(
            "POST", "/v1/experiments/headline/decisions", {}, key=expired["token"]
        ).status == 401)  # fmt: skip
        found = page.evaluate(
            """async ([service, old]) => {
                const tokens = [old];
                const token = async () => (await fetch("/bandit-token", { method: "POST" })).text();
                const key = async () => tokens.pop() ?? token();
                const client = new Client(service, { timeout: 60000, key });
                return (await client.decide("headline")).mode;
            }""",
            [service.url, expired["token"]],
        )  # fmt: skip
        assert found == "learn"
        # The page can neither read nor change anything, nor send cookies.
        for path, ask in (
            ("/v1/experiments", {"method": "GET"}),
            (
                "/v1/experiments/headline/decisions",
                {"method": "POST", "credentials": "include", "headers": {"X-API-Key": "x"}},
            ),
        ):
            found = page.evaluate(
                """async ([url, ask]) => {
                    try { await fetch(url, ask); return "answered"; }
                    catch (error) { return error.name; }
                }""",
                [service.url + path, ask],
            )
            assert found == "TypeError", path
    assert service.caller not in page.content()


@pytest.mark.browser
def test_a_page_of_an_origin_that_is_not_allowed_is_stopped(built, page, tmp_path):
    options = ("--cors-origin", "https://shop.example.com")
    with (
        with_keys(tmp_path / "store.db", *options) as service,
        site(service, service.caller) as url,
    ):
        page.goto(url)
        page.wait_for_function("globalThis.Client !== undefined")
        found = page.evaluate(
            """async (service) => {
                const token = async () => (await fetch("/bandit-token", { method: "POST" })).text();
                const client = new Client(service, { retries: 0, timeout: 60000, key: token });
                return (await client.decide("headline", { default: "safe" })).mode;
            }""",
            service.url,
        )
        assert found == "default"
        assert service.ask("GET", "/v1/experiments/headline", key=service.admin).json["round"] == 0
