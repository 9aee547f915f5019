"""Dashboard in a real browser: quiet, live, on a phone, without scripts, and the kill switch."""

import contextlib
import re
import shutil
from dataclasses import replace

import pytest
from playwright.sync_api import expect, sync_playwright

import bothworlds as bw
from bothworlds.demo.page import COLOURS
from bothworlds.demo.page import served as demo_page
from bothworlds.demo.players import Copies
from bothworlds.demo.race import Contest
from bothworlds.demo.worlds import WORLDS
from helpers.histories import made, names
from helpers.served import served
from helpers.waiting import HANG

pytestmark = [pytest.mark.processes, pytest.mark.browser]

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 1000.0 * HANG
HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "שלום abc", "x" * 200]
DRAWN = ("long", "hostile", "paused")
"""Experiments with a history, and so with charts."""
PAGES = ("/", "/experiments/empty", *(f"/experiments/{name}" for name in DRAWN))
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Return a service with a long history, hostile names and an experiment without a decision."""
    store = tmp_path_factory.mktemp("browser") / "store.db"
    made(
        store, "long", names(64), rounds=10**6, logged=2000, checkpoints=300, quarantined=3,
        drift=True, feedback_window=120.0,
    )  # fmt: skip
    made(store, "hostile", HOSTILE, rounds=5000, logged=500, checkpoints=20)
    made(store, "paused", ["one page", "two pages"], rounds=5000, logged=500, checkpoints=20)
    for name in ("empty", "live", "stopped"):
        made(store, name, ["red", "green", "blue"])
    with served(store) as running:
        assert running.ask("POST", "/v1/experiments/paused/pause").status == 200
        yield running


@pytest.fixture(scope="module")
def chromium(service):
    """Return the browser, one for all tests; while it is open, no other event loop can run."""
    found = shutil.which("chromium")
    if found is None:
        pytest.fail("These tests need Chromium on the path: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium, service):
    """Open pages of the service; what they say to the console and ask elsewhere is kept."""
    with contextlib.ExitStack() as stack:

        def make(path, *, width=1280, scheme="light", **more):
            context = chromium.new_context(
                viewport={"width": width, "height": 800}, color_scheme=scheme, **more
            )
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.noise, page.foreign = [], []
            page.on("console", lambda message: page.noise.append(message.text))
            page.on("pageerror", lambda error: page.noise.append(str(error)))
            page.on("dialog", lambda dialog: page.noise.append(dialog.message))
            page.on(
                "request",
                lambda request: (
                    None
                    if request.url.startswith((service.url, "data:"))
                    else page.foreign.append(request.url)
                ),
            )
            page.goto(service.url + path)
            return page

        yield make


def decide(service, name):
    return service.ask("POST", f"/v1/experiments/{name}/decisions")


def test_pages_are_quiet_ask_nobody_else_and_fit_a_phone(opened):
    for path in PAGES:
        page = opened(path, width=375)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.reload()
            expect(page.locator("#pulse")).to_have_text("live")
            if path.endswith(DRAWN):
                expect(page.locator("figure[data-chart] canvas")).to_have_count(2)
            assert page.evaluate("document.documentElement.scrollWidth") == 375, path
            assert page.noise == [] and page.foreign == [], path
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    # The control: what is wider than the phone is noticed, and so is a message.
    page.evaluate("document.body.append(document.createElement('hr'))")
    page.evaluate("document.querySelector('hr').style.width = '900px'; console.log('heard')")
    assert page.evaluate("document.documentElement.scrollWidth") > 375
    assert page.noise == ["heard"]


WIDTHS = (320, 375, 768, 1024, 1280, 1600)
LEAVING = """() => {
  const scrolled = (each) => each && (/auto|scroll|hidden/.test(getComputedStyle(each).overflowX)
    || scrolled(each.parentElement));
  const width = document.documentElement.clientWidth;
  const boxes = [...document.querySelectorAll("body *")].filter((each) =>
    each.checkVisibility() && !each.closest("svg, .skip, .unseen, .u-over") && !scrolled(each));
  const out = boxes.filter((each) => {
    const own = each.getBoundingClientRect();
    return own.width && (own.right > width + 1 || own.left < -1);
  });
  const all = document.querySelectorAll("td, tbody th, .tiles > div, .panel, .scroll:has(.wide)");
  const cells = [...all].filter((each) => each.checkVisibility()
    && each.scrollWidth > each.clientWidth + 1);
  return [...out, ...cells].map((each) => each.outerHTML.slice(0, 80));
}"""
"""Elements that leave the page, and cells whose content leaves them."""


@pytest.mark.parametrize("path", PAGES)
def test_the_dashboard_is_intact_at_every_width(opened, path):
    page = opened(path, width=WIDTHS[0])
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        page.reload()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("#pulse")).to_have_text("live")
            if path.endswith(DRAWN):
                expect(page.locator("figure[data-chart] canvas")).to_have_count(2)
                if scheme == "light":
                    page.locator("details.panel summary").click()
            assert page.evaluate(LEAVING) == [], (path, width, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") == width, (path, scheme)
    # The control: a box that is too wide is noticed.
    page.set_viewport_size({"width": 320, "height": 800})
    page.evaluate("document.querySelector('main > *').style.width = '900px'")
    assert page.evaluate(LEAVING) != []


def test_many_arms_are_filtered_and_legends_are_filled(opened):
    page = opened("/experiments/long")
    rows = page.locator("#part-arms tbody tr:visible")
    expect(rows).to_have_count(8)
    page.get_by_label("show all").check()
    expect(rows).to_have_count(64)
    page.get_by_label("Filter arms by name").fill("variant 17")
    expect(rows).to_have_count(1)
    expect(page.locator("figure[data-chart] canvas")).to_have_count(2)
    values = page.locator(".u-legend .u-value").all_inner_texts()
    assert len(values) > 9 and not {"--", "\u2013", ""} & set(values)
    origin = page.evaluate("location.origin")
    assert f"curl -s -X POST {origin}/v1/experiments/long/decisions" in page.content()


def test_a_phone_reads_only_about_columns_that_it_shows(opened):
    for width, columns in ((1280, 10), (375, 3)):
        page = opened("/experiments/paused", width=width)
        expect(page.locator(".verdict")).to_contain_text("Once resumed, two pages receives")
        heads = page.locator("#part-arms thead th:visible")
        expect(heads).to_have_count(columns)
        caption = page.locator("#part-arms caption")
        expect(caption).to_contain_text("Share: of the decisions once resumed.")
        told = "The tick is the mean over all time" in caption.inner_text()
        assert told == (width == 1280)
        # Numbers and their heads end at the same side.
        cells = page.locator("#part-arms tbody tr").first.locator("td:visible")
        ends = [each.bounding_box() for each in (heads.last, cells.last)]
        assert abs(sum(ends[0][k] - ends[1][k] for k in ("x", "width"))) < 1
        assert heads.last.evaluate("each => getComputedStyle(each).textAlign") == "right"


ESCAPES = """() => [...document.querySelectorAll("section")].flatMap((card, n, all) => {
  const box = card.getBoundingClientRect();
  const inside = [...card.querySelectorAll("*")].filter((each) => {
    const own = each.getBoundingClientRect();
    if (!own.width) return false;
    return own.right > box.right + 1 || own.left < box.left - 1 || own.bottom > box.bottom + 1;
  });
  const over = all.slice(n + 1).filter((other) => {
    const own = other.getBoundingClientRect();
    return own.left < box.right && box.left < own.right && own.top < box.bottom
      && box.top < own.bottom;
  });
  return [...inside, ...over].map((each) => each.outerHTML.slice(0, 60));
})"""
"""Elements that leave their card, and cards that overlap."""
LETTERS = """() => [...document.querySelectorAll("svg text")].map((each) =>
  parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a)"""
"""Sizes of the letters in charts, in pixels."""


def test_the_demo_is_intact_at_every_width(chromium):
    contests = []
    for kind in WORLDS:
        world = kind(1, 50)
        players = {name: Copies(bw.UCB1(), world, [1]) for name in COLOURS}
        contests.append(Contest(world, players))
        for _ in range(40):
            contests[-1].play(50)
            contests[-1].note()
    # Numbers of an evening.
    pictures = [contest.picture() for contest in contests]
    pictures = [
        replace(
            each, standings=[replace(s, lost=123456.0, worst=1234567.0) for s in each.standings]
        )
        for each in pictures
    ]
    with demo_page(lambda: pictures, "http://127.0.0.1:1") as url:
        for width in (320, 375, 480, 600, 768, 899, 900, 1024, 1280, 1440, 1600):
            page = chromium.new_page(viewport={"width": width, "height": 900})
            page.goto(url)
            assert page.evaluate(ESCAPES) == [], width
            assert page.evaluate("document.documentElement.scrollWidth") == width
            columns = page.evaluate("getComputedStyle(document.querySelector('main'))"
                                    ".gridTemplateColumns.split(' ').length")  # fmt: skip
            assert columns == (2 if width >= 900 else 1)
            assert min(page.evaluate(LETTERS)) >= 10.5, width
            # The control: a table that is too wide is noticed.
            page.evaluate("document.querySelector('table').style.width = '2000px'")
            assert page.evaluate(ESCAPES) != []
            page.close()


def test_requests_can_be_tried_on_the_page_of_the_api(opened, tmp_path):
    for width, scheme in ((375, "dark"), (1280, "light")):
        page = opened("/docs", width=width, scheme=scheme)
        decide_form = page.locator("details#decide")
        decide_form.locator("summary").click()
        decide_form.get_by_label("The name of an experiment.").fill("hostile")
        decide_form.get_by_role("button", name="Send").click()
        answer = decide_form.locator("pre")
        expect(answer).to_contain_text("201")
        expect(answer).to_contain_text('"decision_id"')
        feedback = page.locator("details#feedback")
        feedback.locator("summary").click()
        feedback.get_by_label("The decision_id of a decision.").fill("forged")
        feedback.get_by_role("button", name="Send").click()
        expect(feedback.locator("pre")).to_contain_text('"code": "bad_token"')
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.foreign == []
        page.screenshot(path=tmp_path / f"{width}.png")


def test_without_scripts_everything_can_be_read(opened):
    page = opened("/experiments/long", java_script_enabled=False)
    # Reports need a moment on a page that was not opened before.
    while "being computed" in page.content():
        page.reload()
    assert page.locator("svg.chart").count() == 2
    assert page.locator("svg.interval").count() == 64
    assert "decisions of 2,000 have no feedback" in page.locator("#part-report").inner_text()
    assert "over all time" in page.locator("#part-alarms").inner_text()
    page.locator("#part-shares-data summary").click()
    assert page.locator("#part-shares-data td").count() == 12 * 9
    page.get_by_role("link", name="Experiments").click()
    assert page.get_by_role("row").count() == 7


def test_a_page_changes_while_one_looks(opened, service):
    page = opened("/experiments/live")
    overview = opened("/")
    tile = page.locator("#part-summary dd").first
    expect(tile).to_have_text("0")
    expect(page.locator("#pulse")).to_have_text("live")
    for _ in range(3):
        token = decide(service, "live").json["decision_id"]
        service.ask("PUT", f"/v1/decisions/{token}/feedback", {"loss": 0.0})
    expect(tile).to_have_text("3")
    expect(overview.get_by_role("row", name="live").locator("td").nth(3)).to_have_text("3")
    assert page.noise == []


def test_a_page_asks_again_where_events_fail(opened, service):
    page = opened("/")
    page.route(re.compile(r"/live\?"), lambda route: route.abort())
    page.goto(f"{service.url}/experiments/live")
    tile = page.locator("#part-summary dd").first
    expect(page.locator("#pulse")).to_have_text("polling")
    before = int(tile.inner_text())
    decide(service, "live")
    expect(tile).to_have_text(str(before + 1))


def test_the_kill_switch_reaches_the_next_decision(opened, service):
    page = opened("/experiments/stopped")
    controls = page.locator("details.panel summary")
    controls.click()
    confirm = page.get_by_label("to confirm")
    # Nothing happens without the name, and Enter alone presses no button.
    page.get_by_role("button", name="Pin").click()
    confirm.fill("stopped")
    confirm.press("Enter")
    confirm.fill("another")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
    assert decide(service, "stopped").json["mode"] == "learn"
    page.get_by_label("to confirm").fill("stopped")
    page.get_by_label("Arm", exact=True).select_option("blue")
    page.get_by_role("button", name="Pin").click()
    expect(page.locator(".done")).to_contain_text("pinned")
    controls.click()
    decided = decide(service, "stopped").json
    assert (decided["arm"], decided["mode"], decided["probability"]) == ("blue", "pinned", 1.0)
    page.get_by_label("to confirm").fill("stopped")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".verdict")).to_contain_text("refused")
    assert decide(service, "stopped").code == "experiment_paused"
    expect(page.locator("#part-changes")).to_contain_text("pause")


def test_a_form_on_another_page_is_refused(opened, service):
    page = opened("/experiments/live")
    token = page.locator("input[name=token]").first.get_attribute("value")
    form = f"""<form method="post" action="{service.url}/experiments/live/act">
        <input name="token" value="{token}"><input name="confirm" value="live">
        <input name="action" value="pause"><button>Win a prize</button></form>"""
    page.route(
        "http://prize.test/", lambda route: route.fulfill(body=form, content_type="text/html")
    )
    page.goto("http://prize.test/")
    page.get_by_role("button").click()
    expect(page.locator("body")).to_contain_text(
        "The request comes from a web page of another origin"
    )
    assert decide(service, "live").status == 201


def test_the_keyboard_reaches_the_content_and_is_not_interrupted(opened, service):
    page = opened("/experiments/live")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('svg:not([aria-hidden]), input:not([type=hidden]), select')]"
        ".filter(e => !e.getAttribute('aria-label') && !(e.labels && e.labels.length)).length"
    )
    assert unnamed == 0
    # A table that is open stays open when what it says is replaced.
    token = decide(service, "live").json["decision_id"]
    service.ask("PUT", f"/v1/decisions/{token}/feedback", {"loss": 0.0})
    lag = page.locator("#part-lag")
    lag.locator("summary").click()
    page.evaluate("document.activeElement.blur()")
    before = lag.inner_html()
    token = decide(service, "live").json["decision_id"]
    service.ask("PUT", f"/v1/decisions/{token}/feedback", {"loss": 0.0})
    expect(lag).not_to_have_js_property("innerHTML", before)
    expect(lag.locator("details")).to_have_attribute("open", "")
