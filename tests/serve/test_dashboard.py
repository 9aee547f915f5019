"""Dashboard of the decision service: who sees and acts, what pages say, how large they are."""

import asyncio
import dataclasses
import gzip
import html
import re
import subprocess
import time
import urllib.request
from urllib.parse import urlencode

import pytest

import bothworlds.serve.dashboard.sessions as sessions_module
from bothworlds.client import Client
from bothworlds.markup import Markup, h, named
from bothworlds.plotting.palette import COLOURS, SHOWN
from bothworlds.serve.dashboard import experiment, front, reading, words
from bothworlds.serve.dashboard.experiment import parts
from bothworlds.serve.dashboard.headline import EXPLAINED
from bothworlds.serve.dashboard.shown import Shown, alarms, drifts
from bothworlds.serve.domain import records, tokens
from bothworlds.serve.domain.service import Service
from bothworlds.serve.http.app import Application
from bothworlds.serve.ops import reports, tallies
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.rows import LogRow
from helpers.histories import QUIET, made, names
from helpers.served import served
from helpers.waiting import HANG, wait_until
from serve.conftest import BOTH, spec

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'"
)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "שלום",
    "&lt;b&gt;",
]


class Visited:
    """The answer to a request of a browser."""

    def __init__(self, sent):
        self.status = sent[0]["status"]
        self.headers = {}
        for name, value in sent[0]["headers"]:
            self.headers.setdefault(name.decode(), []).append(value.decode())
        self.body = b"".join(each.get("body", b"") for each in sent[1:])
        self.text = self.body.decode("utf-8", "replace")

    def header(self, name):
        (found,) = self.headers[name]
        return found


class Browser:
    """Visits of one application: cookies are kept, forms are sent from its own pages."""

    def __init__(self, app, host="localhost:8080", scheme="http"):
        self.app, self.host, self.scheme, self.cookie = app, host, scheme, None

    async def visit(self, method, path, fields=None, body=None, **headers):
        raw, _, query = path.partition("?")
        given = {"host": self.host, **headers}
        if self.cookie is not None:
            given.setdefault("cookie", self.cookie)
        if fields is not None:
            body = urlencode(fields).encode()
            given.setdefault("content-type", "application/x-www-form-urlencoded")
            given.setdefault("origin", f"{self.scheme}://{self.host}")
        scope = {
            "type": "http", "method": method, "raw_path": raw.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items() if value],
        }  # fmt: skip
        sent = self.sent = []
        messages = [{"type": "http.request", "body": body or b"", "more_body": False}]

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        await asyncio.wait_for(self.app(scope, receive, send), HANG)
        found = Visited(sent)
        # A path that takes another method is refused as the wire API refuses.
        if found.status != 405:
            assert found.header("content-security-policy") == POLICY
        for cookie in found.headers.get("set-cookie", ()):
            name, value = cookie.split(";")[0].split("=", 1)
            self.cookie = f"{name}={value}" if value else None
        return found

    async def get(self, path, **headers):
        return await self.visit("GET", path, **headers)

    async def token(self, path="/experiments/headline"):
        return re.search(r'name="token" value="([^"]+)"', (await self.get(path)).text)[1]

    async def act(self, action, name="headline", **more):
        fields = {"action": action, "confirm": name, **more}
        fields.setdefault("token", await self.token(f"/experiments/{name}"))
        return await self.visit("POST", f"/experiments/{name}/act", fields)

    async def login(self, key, **more):
        return await self.visit("POST", "/login", {"key": key, **more})


@pytest.fixture
def dashboard(tmp_path, unsynced, monkeypatch):
    """Run a coroutine function with an application and a browser of it.

    Pages wait for all they show, however busy the machine is.
    """
    monkeypatch.setattr(front, "PATIENCE", HANG)

    def run(work, *, keys=False, store="store.db", arms="abc", **more):
        async def running():
            app = Application(lambda: Service.open(str(tmp_path / store), QUIET), keys=keys)
            app.service = await app._opening()
            try:
                if arms is not None:
                    await app.service.create(Service.LOCAL, spec(arms=arms, **more))
                return await work(app, Browser(app))
            finally:
                app.stopping.set()
                await app.service.close()

        return asyncio.run(running())

    return run


def changes(service):
    """Return how often the configuration was changed."""
    return service.state.configuration.version


# --- what pages say ----------------------------------------------------------------------------


def test_text_becomes_text_wherever_it_stands():
    for text in HOSTILE:
        shown = h.p(text, [named(text)], title=text)
        assert re.sub(r"</?(p|bdi)[^<>]*>", "", shown).count("<") == 0
        assert shown.startswith('<p title="')
        # No quote of the text ends the attribute.
        assert re.match(r'<p title="[^"<>]*">', shown)
    # The control: markup is kept as it is.
    assert h.p(Markup("<b>x</b>")) == "<p><b>x</b></p>"


def test_names_of_arms_are_never_markup(dashboard):
    async def work(app, browser):
        for _ in range(5):
            decided = await app.service.decide(Service.LOCAL, "headline")
            await app.service.feedback(Service.LOCAL, decided.decision_id, loss=0.5)
        await app.service.upkeep.checkpoint()
        await app.service.set_mode(Service.LOCAL, "headline", "pin", arm=HOSTILE[0])
        page = (await browser.get("/experiments/headline")).text
        parts = (await browser.get("/experiments/headline/parts")).text
        overview = (await browser.get("/")).text
        for text in (page, parts, overview):
            assert "<script>alert" not in text
            assert "<img src=x" not in text
            assert "' onmouseover='" not in text
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert all(f"<bdi>{each}</bdi>" in page for each in ("שלום", "&amp;lt;b&amp;gt;"))
        # Nothing runs or is styled in the page itself, which the policy would refuse.
        assert re.findall(r"<script(?! src=)", page) == []
        assert re.findall(r"<[^>]* style=|<style| on\w+=\"", page) == []

    dashboard(work, arms=HOSTILE, description="<script>alert(1)</script> \u202e")


def test_pages_are_there_before_the_first_decision(dashboard):
    async def work(app, browser):
        assert "no experiment yet" in (await browser.get("/")).text
        missing = await browser.get("/experiments/headline")
        assert missing.status == 404 and "headline" in missing.text
        await app.service.create(Service.LOCAL, spec())
        page = await browser.get("/experiments/headline")
        assert page.status == 200
        assert page.header("content-type") == "text/html; charset=utf-8"
        assert page.header("cache-control") == "no-store"
        for said in ("No decision has been made yet", "nothing to report yet", "No alarms"):
            assert said in page.text
        chart = (await browser.get("/experiments/headline/chart.json")).text
        assert '"x":[]' in chart
        assert (
            "curl -s -X POST http://localhost:8080/v1/experiments/headline/decisions" in page.text
        )

    dashboard(work, arms=None)


@pytest.mark.processes
def test_the_page_names_its_replica_and_commands_that_work_when_pasted(tmp_path):
    with served(tmp_path / "store.db") as service:
        with Client(service.url, feedback_timeout=HANG) as client:
            client.create("headline", ["blue", "green"])
        address = f"{service.url}/experiments/headline"

        def page():
            with urllib.request.urlopen(address, timeout=HANG) as answer:
                return answer.read().decode()

        # Another process reads the list of replicas; it is not one of them.
        wait_until(lambda: "being read" not in page())
        assert ">0<span" in page() and ">-1<" not in page()
        (commands,) = re.findall(r"<code>(DECISION_ID=.*?)</code>", page(), re.DOTALL)
        shell = ["bash", "-euc", html.unescape(commands)]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=HANG, check=False)
    assert '"learned"' in done.stdout, done.stderr


def test_a_toy_panel_is_a_function_and_a_row(dashboard, monkeypatch):
    """The page, its list of contents and the live updates follow from the row."""
    toy = experiment.Panel(
        {"toy": lambda shown: h.p("A toy about ", named(shown.described["name"]), id="toys")},
        (("toys", "Toys"),),
        lambda viewer, shown, made: h.section(h.h2("Toys"), made),
    )
    secret = experiment.Panel({"secret": lambda shown: h.p("A secret")}, admin=True)

    async def work(app, browser):
        pages = []
        for scopes in (["read", "admin"], ["read"]):
            key, _ = await app.service.create_key(Service.LOCAL, scopes)
            await browser.login(key)
            assert "Toys" not in (await browser.get("/experiments/headline")).text
            with monkeypatch.context() as patched:
                patched.setattr(experiment, "PANELS", (*experiment.PANELS, toy, secret))
                pages.append((await browser.get("/experiments/headline")).text)
                assert "A toy about" in (await browser.get("/experiments/headline/parts")).text
        for page in pages:
            assert '<a href="#toys">Toys</a>' in page
            assert '<p id="toys">A toy about <bdi>headline</bdi></p>' in page
            assert 'data-part="toy"' in page
        assert ["A secret" in page for page in pages] == [True, False]

    dashboard(work, keys=True)


def test_static_files_and_no_others(dashboard):
    async def work(app, browser):
        page = (await browser.get("/experiments/headline")).text
        files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
        assert len(set(files)) == 5
        for file in files:
            found = await browser.get(file.replace("&amp;", "&"))
            assert found.status == 200 and "immutable" in found.header("cache-control")
        assert (await browser.get("/static/dashboard.css?v=0")).header(
            "cache-control"
        ) == "no-cache"
        for wrong in ("/static/none.js", "/static/..%2Ffront.py", "/static/uplot/LICENSE"):
            assert (await browser.get(wrong)).status == 404

    dashboard(work)


def test_static_files_are_compressed_for_those_who_can_read_it(dashboard):
    async def work(app, browser):
        file = "/static/uplot/uPlot.iife.min.js"
        plain = await browser.get(file)
        for accepted in ("gzip", "br, gzip;q=0.5", "deflate, gzip"):
            packed = await browser.get(file, **{"accept-encoding": accepted})
            assert packed.header("content-encoding") == "gzip"
            assert gzip.decompress(packed.body) == plain.body
            assert len(packed.body) < len(plain.body) / 2
        for refused in ("br", "gzip;q=0", "gzip; q=0.0, br", "xgzip"):
            assert (await browser.get(file, **{"accept-encoding": refused})).body == plain.body
        page = await browser.get("/experiments/headline", **{"accept-encoding": "gzip"})
        assert "content-encoding" not in page.headers

    dashboard(work)


def test_the_colours_are_those_of_the_figures():
    light = front._static()["dashboard.css"][0].decode().split("@media")[0]
    found = dict(re.findall(r"--(s\d): (#\w{6})", light))
    assert tuple(found[f"s{n}"] for n in range(SHOWN)) == COLOURS


def test_a_page_counts_what_the_feedback_counts(dashboard):
    async def work(app, browser):
        async def words(page=""):
            app._dashboard._reading._kept.clear()
            text = (await browser.get(f"/experiments/headline{page}")).text
            return [word for word in ("reward", "loss") if f"recent mean {word}" in text]

        for given in ({"loss": 0.0}, {"reward": 1.0}):
            decided = await app.service.decide(Service.LOCAL, "headline")
            await app.service.feedback(Service.LOCAL, decided.decision_id, **given)
            assert await words() == list(given)
        assert await words("?as=loss") == ["loss"]

    dashboard(work)


def test_a_page_shows_the_experts_and_no_others_have_the_panel(dashboard):
    experts = ["model <b>", "rules"]

    async def work(app, browser):
        service = app.service
        await service.create(Service.LOCAL, spec("plain"))
        for n in range(60):
            decided = await service.decide(
                Service.LOCAL, "headline", advice=dict(zip(experts, "ab", strict=True))
            )
            loss = float(decided.arm != "a")
            await service.feedback(Service.LOCAL, decided.decision_id, loss=loss)
            if n in (20, 40):
                await service.upkeep.checkpoint()
        await service.flushed()
        text = (await browser.get("/experiments/headline")).text
        weights = service.experiment_state(Service.LOCAL, "headline").weights()
        return text, (await browser.get("/experiments/plain")).text, weights

    text, plain, weights = dashboard(work, experts=experts)
    assert 'id="experts"' in text and 'href="#experts"' in text
    assert "model &lt;b&gt;" in text and "model <b>" not in text
    # The percentage may be "> 99.9 %": the arms are drawn at random.
    assert f"with <b>{html.escape(words.percent(weights['model <b>']))}</b>" in text
    assert "has the best mean loss so far (" in text
    assert "Weights of the experts, as a table" in text
    assert "of the decisions so far" in text
    # What a reader can paste into a shell has the advice that a decision needs.
    assert "advice" in text and "advice" not in plain
    assert 'id="experts"' not in plain and 'href="#experts"' not in plain


def test_the_headline_never_contradicts_itself(dashboard):
    async def work(app, browser):
        service = app.service
        experiment = service.experiment_state(Service.LOCAL, "headline")
        described = service.experiment(Service.LOCAL, "headline")
        rows = [(n % 3, 600.0 - n, float(n % 3 != 1), 0.3, "learned") for n in range(600)]
        window = reading.counted(log(experiment, rows, 1e9), experiment, 1e9)
        shares = {"a": 0.02, "b": 0.95, "c": 0.03}

        def headline():
            described["learned"] = 600
            for arm in described["arms"]:
                arm.update(probability=shares[arm["name"]], decided=200)
            text = parts(Shown(described, window, None, None), False)["summary"]
            return re.sub("<[^>]*>", "", text.split("</p>")[0])

        assert "b receives 95 % of the next decisions. It is the best arm" in headline()
        shares.update(a=0.95, b=0.02)
        assert "a receives 95 % of the next decisions. But recent feedback favours b" in headline()
        shares.update(a=0.3, b=0.3, c=0.4)
        assert (
            "No arm receives most of the decisions yet. b is the best arm with 95 % confidence"
            in headline()
        )
        window = reading.counted(log(experiment, rows[:4], 1e9), experiment, 1e9)
        shares.update(a=0.02, b=0.95, c=0.03)
        assert "No two arms can be ranked with 95 % confidence yet." in headline()
        described.update(mode="pinned", pinned_arm="a")
        window = reading.counted(log(experiment, rows, 1e9), experiment, 1e9)
        assert (
            "Every decision returns a; nothing is learned. But recent feedback favours b"
            in headline()
        )
        described.update(mode="paused", pinned_arm=None)
        assert (
            "Decisions are refused. Once resumed, b receives 95 % of them. It is the best arm"
            in (headline())
        )
        arms = parts(Shown(described, window, None, None), False)["arms"]
        assert "Share: of the decisions once resumed." in arms

    dashboard(work)


def test_a_mean_outside_its_interval_is_explained_in_words(dashboard):
    async def work(app, browser):
        experiment = app.service.experiment_state(Service.LOCAL, "headline")
        described = app.service.experiment(Service.LOCAL, "headline")
        rows = [(n % 3, 600.0 - n, float(n % 3 != 1), 0.3, "learned") for n in range(600)]
        rows[300] = (0, 300.0, 0.0, 0.3, "learned")
        for heavy, times in ((None, 0), (300, 2)):
            window = reading.counted(log(experiment, rows, 1e9, heavy), experiment, 1e9)
            arms = parts(Shown(described, window, None, None), False)["arms"]
            # Once as a tooltip, once below the table for readers without a mouse.
            assert arms.count(EXPLAINED["outside"]) == times

    dashboard(work)


def test_rewards_are_shown_after_a_restart(tmp_path):
    async def work():
        store = str(tmp_path / "store.db")
        shown = []
        for _ in range(2):
            service = await Service.open(store)
            if not shown:
                await service.create(Service.LOCAL, spec())
                decided = await service.decide(Service.LOCAL, "headline")
                await service.feedback(Service.LOCAL, decided.decision_id, reward=1.0)
                await service.upkeep.checkpoint()
            facts = await reading.Watching(service).facts(Service.LOCAL, "headline", HANG)
            shown.append(facts.rewarded)
            await service.close()
        return shown

    assert asyncio.run(work()) == [True, True]


def test_shares_stand_next_to_what_an_arm_receives(dashboard):
    async def work(app, browser):
        shares = {"min_share": {"b": 0.05, "c": 0.1}, "max_share": {"c": 0.4, "d": 0.5}}
        await app.service.create(Service.LOCAL, spec("shared", control="a", **shares))
        page = " ".join((await browser.get("/experiments/shared")).text.split())
        for text in ("control, fixed at 10 %", "at least 5 %", "at least 10 %, at most 40 %"):
            assert f"<small>{text}</small>" in page
        assert page.count("<small>at ") == 3

    dashboard(work)


def test_thousands_of_arms_have_pages(dashboard):
    async def work(app, browser):
        for _ in range(3):
            decided = await app.service.decide(Service.LOCAL, "headline")
            await app.service.feedback(Service.LOCAL, decided.decision_id, loss=0.5)
            await app.service.upkeep.checkpoint()
        first = (await browser.get("/experiments/headline?as=reward")).text
        last = (await browser.get("/experiments/headline?as=reward&arms=47")).text
        beyond = (await browser.get("/experiments/headline?arms=99999")).text
        for page, count in ((first, 64), (last, 3000 - 46 * 64), (beyond, 3000 - 46 * 64)):
            assert page.count('class="interval"') == count and len(page) < 150_000
        assert "?as=reward&amp;arms=2#arms" in first and "arms=46#arms" in last
        assert "ranks up to 64 arms" in first
        chart = (await browser.get("/experiments/headline/chart.json")).text
        # Too little feedback for means over time.
        assert chart.count('"label"') == SHOWN + 1 and "2992 others" in chart

    dashboard(work, arms=[f"arm {n}" for n in range(3000)])


# --- who sees and acts -------------------------------------------------------------------------


def test_one_logs_in_with_a_key_that_may_read(dashboard):
    async def work(app, browser):
        service = app.service
        key, _ = await service.create_key(Service.LOCAL, ["read"])
        blind, _ = await service.create_key(Service.LOCAL, ["decide"])
        first = await browser.get("/experiments/headline")
        assert first.status == 303
        assert first.header("location") == "/login?next=/experiments/headline"
        for path in ("/parts", "/live", "/experiments/headline/chart.json",
                     "/experiments/headline/export"):  # fmt: skip
            assert (await browser.get(path)).status == 401
        assert (await browser.login("bw_0_nothing")).status == 401
        assert (await browser.login(blind)).status == 403
        assert browser.cookie is None
        inside = await browser.login(key, next="/experiments/headline")
        assert (inside.status, inside.header("location")) == (303, "/experiments/headline")
        assert key not in inside.text and key not in str(inside.headers)
        page = await browser.get("/experiments/headline")
        assert page.status == 200 and "Changes need a key with the admin scope" in page.text
        assert "Audit log" not in page.text
        rows = await browser.get("/experiments/headline/export?format=csv")
        assert rows.text.startswith("decision_id")
        # What a key may not do by the wire API it may not do by a form.
        before = changes(service)
        token = await browser.token("/")
        refused = await browser.act("pause", token=token)
        assert refused.status == 403 and changes(service) == before
        left = await browser.visit("POST", "/logout", {"token": token})
        assert left.status == 303 and browser.cookie is None
        assert (await browser.get("/")).status == 303

    dashboard(work, keys=True)


@pytest.mark.parametrize(
    ("host", "scheme", "cookie"),
    [
        ("example.org", "https", "__Host-bothworlds=[0-9a-f.]+; Path=/; Max-Age=43200; HttpOnly; "
                                 "SameSite=Strict; Secure"),
        ("localhost:8080", "http", "bothworlds=[0-9a-f.]+; Path=/; Max-Age=43200; HttpOnly; "
                                   "SameSite=Strict"),
        ("example.org", "http", None),
    ],
)  # fmt: skip
def test_the_cookie_is_for_this_host_alone(dashboard, host, scheme, cookie):
    async def work(app, _):
        browser = Browser(app, host, scheme)
        key, _ = await app.service.create_key(Service.LOCAL, ["read"])
        answer = await browser.login(key)
        if cookie is None:
            assert answer.status == 403 and "https" in answer.text
            return
        assert re.fullmatch(cookie, answer.header("set-cookie"))
        assert (await browser.get("/")).status == 200
        if scheme == "http":
            # A cookie of plain http counts on this machine alone.
            assert (await browser.get("/", host="example.org")).status == 303

    dashboard(work, keys=True)


def test_a_cookie_that_was_changed_or_outlived_its_key_is_none(dashboard, monkeypatch):
    async def work(app, browser):
        service = app.service
        key, row = await service.create_key(Service.LOCAL, ["read", "admin"])
        await browser.login(key)
        good = browser.cookie
        name, value = good.split("=")
        parts = value.split(".")
        other, _ = await service.create_key(Service.LOCAL, ["read", "admin"])
        for place in range(4):
            bad = [*parts]
            bad[place] = {0: other.split("_")[1], 1: f"{int(parts[1], 16) + 9:x}"}.get(
                place, "0" * 32
            )
            assert (await browser.get("/", cookie=f"{name}={'.'.join(bad)}")).status == 303
        assert (await browser.get("/", cookie=good)).status == 200
        now = time.time()
        with monkeypatch.context() as later:
            later.setattr(sessions_module.time, "time", lambda: now + sessions_module.SECONDS + 1)
            assert (await browser.get("/")).status == 303
        assert (await browser.get("/")).status == 200
        await service.revoke_key(Service.LOCAL, row["id"])
        assert (await browser.get("/")).status == 303

    dashboard(work, keys=True)


@pytest.mark.parametrize("keys", [False, True])
def test_a_forged_form_changes_nothing(dashboard, keys):
    async def work(app, browser):
        service = app.service
        if keys:
            for each in (browser, other := Browser(app)):
                key, _ = await service.create_key(Service.LOCAL, ["read", "admin"])
                await each.login(key)
            theirs = await other.token()
        before = changes(service)
        token = await browser.token()
        path = "/experiments/headline/act"
        good = {"action": "pause", "confirm": "headline", "token": token}
        forged = [
            (good, {"origin": "http://evil.example"}),
            (good, {"origin": "null"}),
            (good, {"origin": ""}),
            (good, {"origin": "http://localhost:8081"}),
            ({**good, "token": ""}, {}),
            ({**good, "token": token[:-1] + ("0" if token[-1] != "0" else "1")}, {}),
            ({**good, "token": "1" + token}, {}),
        ]
        if keys:
            forged += [(good, {"cookie": ""}), ({**good, "token": theirs}, {})]
        for fields, headers in forged:
            refused = await browser.visit("POST", path, fields, **headers)
            assert refused.status in (401, 403), (fields, headers)
        # Not what a form sends, or not what was typed.
        json = await browser.visit("POST", path, good, **{"content-type": "application/json"})
        assert json.status == 415
        twice = await browser.visit(
            "POST", path, body=(urlencode(good) + "&confirm=headline").encode(),
            origin="http://localhost:8080", **{"content-type": "application/x-www-form-urlencoded"},
        )  # fmt: skip
        assert twice.status == 400
        for confirm in ("", "headlin", "Headline"):
            assert (await browser.act("pause", confirm=confirm)).status == 400
        assert (await browser.act("explode")).status == 400
        assert (await browser.get(path)).status == 405
        assert changes(service) == before
        # The control: the same form, sent from its own page.
        assert (await browser.visit("POST", path, good)).status == 303
        assert service.experiment(Service.LOCAL, "headline")["mode"] == "paused"

    dashboard(work, keys=keys)


def test_every_control_does_what_it_says(dashboard):
    async def work(app, browser):
        service = app.service

        async def done(action, **more):
            answer = await browser.act(action, **more)
            assert answer.status == 303, answer.text
            page = await browser.get(answer.header("location"))
            assert 'role="status" class="done"' in page.text
            return service.experiment(Service.LOCAL, "headline")

        assert (await done("pin", arm="b"))["pinned_arm"] == "b"
        assert (await service.decide(Service.LOCAL, "headline")).arm == "b"
        assert (await done("uniform"))["mode"] == "uniform"
        assert (await done("pause"))["mode"] == "paused"
        with pytest.raises(Problem, match="paused"):
            await service.decide(Service.LOCAL, "headline")
        assert (await done("resume"))["mode"] == "learn"
        assert [arm["name"] for arm in (await done("add_arm", new="d"))["arms"]] == [*"abcd"]
        assert (await done("retire_arm", arm="a"))["arms"][0]["status"] == "retired"
        refused = await browser.act("add_arm", new="a")
        assert refused.status == 409 and 'role="alert"' in refused.text
        for _ in range(3):
            decided = await service.decide(Service.LOCAL, "headline", unit="bot")
            await service.feedback(Service.LOCAL, decided.decision_id, loss=1.0)
        # As a second later.
        app._dashboard._reading._kept.clear()
        page = (await browser.get("/experiments/headline")).text
        assert "2 answers in quarantine" in page
        learned = service.experiment(Service.LOCAL, "headline")["learned"]
        assert (await done("release"))["learned"] == learned + 2
        # Every change is in the audit log, which the page shows to an administrator.
        await asyncio.sleep(0)
        rows = await service.audit(Service.LOCAL)
        assert [row["action"] for row in rows[1:]] == [
            "pin", "uniform", "pause", "resume", "add_arm", "retire_arm", "release",
        ]  # fmt: skip

    dashboard(work, unit_cap=1)


def test_a_page_of_another_host_is_refused_without_keys(dashboard):
    async def work(app, browser):
        assert (await browser.get("/", host="evil.example")).status == 403
        assert (await browser.get("/", origin="http://evil.example")).status == 403
        assert (await browser.get("/")).status == 200

    dashboard(work)


# --- live --------------------------------------------------------------------------------------


def test_a_live_page_sends_what_has_changed_and_ends_with_the_key(dashboard, monkeypatch):
    monkeypatch.setattr(front, "PAUSE", 0.01)

    async def work(app, browser):
        service = app.service
        key, row = await service.create_key(Service.LOCAL, ["read"])
        await browser.login(key)
        page = (await browser.get("/experiments/headline")).text
        have = re.findall(r'data-part="([\w-]+)" data-is="(\w+)"', page)
        assert len(have) == 9
        path = "/experiments/headline/live?have=" + ",".join(map(":".join, have))
        following = asyncio.ensure_future(browser.get(path))
        decided = await service.decide(Service.LOCAL, "headline")
        await service.feedback(Service.LOCAL, decided.decision_id, loss=0.5)

        async def learned():
            while not any(
                b"feedback learned</dt><dd>1<" in each.get("body", b"") for each in browser.sent
            ):
                await asyncio.sleep(0.01)

        await asyncio.wait_for(learned(), HANG)
        await service.revoke_key(Service.LOCAL, row["id"])
        sent = (await following).text
        # Parts that say nothing new are not sent.
        assert '"summary":' in sent and '"drift":' not in sent

    dashboard(work, keys=True)


def test_a_live_page_is_rendered_once_for_all_and_limited_by_key(dashboard, monkeypatch):
    monkeypatch.setattr(front, "PAUSE", 3600.0)
    monkeypatch.setattr(front, "MOST_VIEWERS", 5)
    made = []
    parts = front.experiment.parts
    monkeypatch.setattr(
        front.experiment, "parts", lambda *given: made.append(given) or parts(*given)
    )

    async def work(app, browser):
        path = "/experiments/headline/live"
        viewers = [asyncio.ensure_future(browser.get(path)) for _ in range(5)]
        async with asyncio.timeout(HANG):
            while not made or app._dashboard._viewers.total() < 5:
                await asyncio.sleep(0.01)
        assert (await browser.get(path)).status == 429
        app.stopping.set()
        await asyncio.gather(*viewers)
        assert app._dashboard._viewers.total() == 0
        assert len(made) == 1

    dashboard(work)


def test_the_overview_has_pages_and_describes_only_what_it_shows(dashboard, monkeypatch):
    monkeypatch.setattr(front, "EXPERIMENTS", 3)

    async def work(app, browser):
        service, described, ticks = app.service, [], [0]
        for n in range(6):
            await service.create(Service.LOCAL, spec(f"more{n}"))
        one = service.experiment
        monkeypatch.setattr(
            service, "experiment", lambda who, name: described.append(ticks[0]) or one(who, name)
        )

        async def ticking():
            while True:
                ticks[0] += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(ticking())
        seen = []
        for page, size in ((1, 3), (2, 3), (3, 1)):
            described.clear()
            path = f"/?page={page}" if page > 1 else "/"
            text = (await browser.get(path)).text
            seen += re.findall(r'href="/experiments/([a-z0-9]+)"', text)
            assert len(described) == size == len(set(described))
            assert f'data-live="{path}"' in text and "of 7 experiments" in text
            assert ("Previous" in text, "Next" in text) == (page > 1, page < 3)
            assert "of 7 experiments" in (await browser.get(f"/parts?page={page}")).text
        other.cancel()
        assert seen == ["headline", *(f"more{n}" for n in range(6))]
        # A page beyond the end is the last one.
        assert "more5" in (await browser.get("/?page=99")).text

    dashboard(work)


# --- what is read ------------------------------------------------------------------------------


def log(experiment, rows, now, heavy=None):
    """Return rows of a log: arm, seconds ago, loss or None, lag, status.

    Arms were drawn with probability 1/2, but that of row ``heavy`` with 1/200.
    """
    found = []
    for n, (arm, ago, loss, lag, status) in enumerate(rows):
        at = now - ago
        id = tokens.first_identity(at)[:6] + n.to_bytes(10, "big")
        inverse = 200.0 if n == heavy else 2.0
        raw = records.encode(1, 1, 0, arm, experiment.known, n + 1, id, inverse, records.NEAR_ALL)
        told = None if loss is None else at + lag
        source = None if loss is None else "client"
        found.append(LogRow(id, raw, 0, 1, n, None, loss, source, status, told, None))
    return found


def test_the_window_counts_answers_in_the_order_of_decisions(dashboard, monkeypatch):
    async def work(app, _):
        service = app.service
        await service.create(
            Service.LOCAL, spec("filled", missing="default", default_loss=1.0, log="before")
        )
        plain, filled = (
            service.experiment_state(Service.LOCAL, name) for name in ("headline", "filled")
        )
        rows = [(n % 2, 500.0 - n, 0.0, 0.5, "learned") for n in range(100)]
        # Silence is closed later than clicks are reported.
        rows[40] = (0, 460.0, None, 0.0, None)

        def told(experiment, *given):
            window = reading.counted(log(experiment, rows, 1e9), experiment, 1e9, *given)
            return sum(each.told for each in window.report.values()), window.waiting

        assert told(plain) == told(filled) == (40, 59)
        # Closed by the sweep where missing feedback is filled in, else by the feedback window.
        assert told(filled, log(filled, rows, 1e9)[40].id) == (99, 0)
        rows[40] = (0, 1e6, None, 0.0, None)
        rows.insert(0, rows.pop(40))
        assert told(plain) == (99, 0)
        assert told(filled) == (0, 99)
        # However long it is pending, it holds back part of the window.
        monkeypatch.setattr(reading, "HELD", 60)
        assert told(filled) == (99, 0)

    dashboard(work)


def test_the_window_counts_what_became_of_decisions(dashboard):
    async def work(app, _):
        experiment = app.service.experiment_state(Service.LOCAL, "headline")
        rows = log(
            experiment,
            [
                (0, 500.0, 0.0, 0.5, "learned"), (0, 400.0, 1.0, 30.0, "learned"),
                (0, 300.0, None, 0.0, None), (1, 50.0, None, 0.0, None),
                (1, 40.0, 1.0, 0.05, "quarantined"), (1, 30.0, 0.5, 2.0, "not_learnable"),
            ],
            1e9,
        )  # fmt: skip
        window = reading.counted(rows, experiment, 1e9)
        assert window.rows == 6 and window.since == pytest.approx(1e9 - 500.0)
        assert window.arms["a"] == reading.Counted(3, 2, 1, 0, 0)
        assert window.arms["b"] == reading.Counted(3, 1, 0, 1, 1)
        assert window.lags == (1, 1, 1, 1, 0, 0, 0, 0)
        assert window.unanswered == 3
        # What was not learned from is not reported on.
        assert [(each.decisions, each.told) for each in window.report.values()] == [
            (3, 2), (3, 0), (0, 0),
        ]  # fmt: skip

    dashboard(work, bounds=(2.0, 12.0), feedback_window=100.0)


def test_the_report_is_that_of_inference(dashboard, monkeypatch):
    # A record has 1/p, a logged decision has p: 1/(1/x) is not always x, in the last bit.
    read = tallies.DecisionColumns.read

    def twice_inverted(*given):
        found = read(*given)
        return dataclasses.replace(found, inverse_p=1.0 / (1.0 / found.inverse_p))

    monkeypatch.setattr(tallies.DecisionColumns, "read", twice_inverted)

    async def work(app, _):
        service = app.service
        for n in range(60):
            decided = await service.decide(Service.LOCAL, "headline")
            loss = 12.0 if decided.arm != "b" and n % 3 > 0 else 2.0
            await service.feedback(Service.LOCAL, decided.decision_id, loss=loss)
        await service.set_mode(Service.LOCAL, "headline", "pin", arm="a")
        decided = await service.decide(Service.LOCAL, "headline")
        await service.feedback(Service.LOCAL, decided.decision_id, loss=12.0)
        await service.flushed()
        window = await reading.Watching(service).window(Service.LOCAL, "headline", HANG)
        expected = await reports.report(service, Service.LOCAL, "headline", 0.95)
        found = window.report.as_dict()
        for part in ("arms", "gaps"):
            assert found[part] == expected[part]
        assert window.rows == 61 and sum(arm["told"] for arm in expected["arms"]) == 60

    dashboard(work, bounds=(2.0, 12.0))


def test_drift_is_told_and_only_where_there_is_some(dashboard):
    async def work(app, _):
        service = app.service
        experiment = service.experiment_state(Service.LOCAL, "headline")
        described = service.experiment(Service.LOCAL, "headline")
        rows = [(n % 3, 600.0 - n, float(n % 9 == 0), 0.1, "learned") for n in range(300)]
        window = reading.counted(log(experiment, rows, 1e9), experiment, 1e9)
        same = {"told": 10_000, "mean_loss": window.report["a"].mean}
        for arm in described["arms"]:
            arm.update(same if arm["name"] == "a" else {"told": 10_000, "mean_loss": 0.0})
        shown = Shown(described, window, None, None)
        assert drifts(shown) == []
        described["arms"][0]["mean_loss"] = 0.9
        ((name, said),) = drifts(shown)
        assert name == "a" and "0.9 over all time" in said
        assert alarms(shown) == [(f"Arm 'a': {said}", "drift")]

    dashboard(work)


@pytest.mark.parametrize("dialect", BOTH)
def test_every_store_is_read_alike(on_service, monkeypatch):
    monkeypatch.setattr(reading, "RATE_SECONDS", HANG)

    async def work(service):
        for _ in range(4):
            decided = await service.decide(Service.LOCAL, "headline", unit="bot")
            await service.feedback(Service.LOCAL, decided.decision_id, loss=0.5)
        await service.upkeep.checkpoint()
        await service.flushed()
        watching = reading.Watching(service)
        facts = await watching.facts(Service.LOCAL, "headline", HANG)
        assert facts.rate == 4 / HANG
        assert 0.0 <= facts.lag < HANG and sum(facts.quarantined.values()) == 3
        (replica,) = facts.replicas
        assert replica.own and replica.serving and (replica.learned, replica.rounds) == (1, 4)
        assert replica.started_at <= time.time() and replica.ended_at is None
        assert [row.action for row in facts.changes] == ["create"]
        window = await watching.window(Service.LOCAL, "headline", HANG)
        assert (window.rows, window.unanswered, sum(window.lags)) == (4, 3, 4)
        history = await watching.history(Service.LOCAL, "headline", HANG)
        assert history.shares.shape == (1, 4) and history.told.sum() == 1

    on_service(work, unit_cap=1)


def test_a_page_does_not_wait_for_what_takes_long(dashboard, monkeypatch):
    async def work(app, browser):
        released, real = asyncio.Event(), app.service.looked_up

        async def slow(*arguments):
            await released.wait()
            return await real(*arguments)

        monkeypatch.setattr(app.service, "looked_up", slow)
        monkeypatch.setattr(front, "PATIENCE", 0.01)
        page = await browser.get("/experiments/headline")
        assert page.status == 200
        assert "is being computed" in page.text and "replicas is being read" in page.text
        monkeypatch.setattr(front, "PATIENCE", HANG)
        released.set()
        assert "nothing to report yet" in (await browser.get("/experiments/headline/parts")).text

    dashboard(work)


@pytest.mark.slow
def test_a_long_history_makes_no_large_page(tmp_path, dashboard):
    made(
        tmp_path / "long.db", "headline", names(64), rounds=10**7, logged=reading.WINDOW,
        checkpoints=2000, drift=True, quarantined=20,
    )  # fmt: skip

    async def work(app, browser):
        watching = app._dashboard._reading
        for read in (watching.window, watching.history, watching.facts):
            assert await read(Service.LOCAL, "headline", HANG) is not None
        page = await browser.get("/experiments/headline")
        assert page.text.count('class="interval"') == 64
        assert "10,000 decisions" in page.text and "over all time" in page.text
        files = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text))
        bodies = [page, await browser.get("/experiments/headline/chart.json")]
        bodies += [await browser.get(file.replace("&amp;", "&")) for file in files]
        assert sum(len(each.body) for each in bodies) <= 200_000
        # The control: one that is not thinned would be larger.
        history = await watching.history(Service.LOCAL, "headline", HANG)
        assert len(history.at) == reading.POINTS
        assert history.at[-1] - history.at[0] == pytest.approx(5 * 86_400, rel=0.01)
        overview = await browser.get("/")
        assert len(overview.body) < 20_000 and "9,999,9" in overview.text

    dashboard(work, store="long.db", arms=None)
