"""The demonstration: its worlds, its players, its page, and how it ends."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import bothworlds as bw
from bothworlds.cli.commands import app
from bothworlds.cli.demo import table
from bothworlds.client import Decision
from bothworlds.demo.page import COLOURS, document, served
from bothworlds.demo.players import WINDOW, Copies, Score, Served
from bothworlds.demo.race import POINTS, Contest
from bothworlds.demo.run import demonstration
from bothworlds.demo.worlds import WORLDS, Backends, Headlines, Models, Moving, Round, World
from helpers.waiting import HANG, wait_until


@pytest.mark.parametrize("kind", WORLDS)
def test_traffic_follows_from_its_seed_and_stays_within_its_bounds(kind):
    first, again, other = kind(1, 50), kind(1, 50), kind(2, 50)
    low, high = kind.bounds
    differs = False
    for _ in range(500):
        a, b, c = first.next(), again.next(), other.next()
        assert np.array_equal(a.losses, b.losses)
        assert (a.delay, a.trouble) == (b.delay, b.trouble)
        assert a.losses.shape == a.means.shape == (len(kind.arms),)
        assert low <= a.losses.min() <= a.losses.max() <= high
        differs |= not np.array_equal(a.losses, c.losses)
    assert differs


@pytest.mark.statistical
@pytest.mark.parametrize("kind", WORLDS)
def test_means_are_those_of_the_losses(kind):
    world = kind(3, 50)
    rounds = [world.next() for _ in range(4000)]
    apart = np.array([each.losses - each.means for each in rounds])
    error = apart.std(axis=0, ddof=1) / len(rounds) ** 0.5
    assert (np.abs(apart.mean(axis=0)) < 4 * error).all()
    # The same test notices means that are a tenth off.
    gap = np.array([each.means.max() - each.means.min() for each in rounds]).mean()
    assert (np.abs(apart.mean(axis=0) + gap / 2) > 4 * error).all()


def test_the_attack_begins_at_a_random_moment_and_favours_nobody():
    begins = {Headlines(seed, 1000).begins for seed in range(20)}
    assert len(begins) > 10
    assert min(begins) >= 3000
    world = Headlines(1, 100)
    means = [world.next().means for _ in range(3000)]
    assert len({each[0] for each in means}) == 2
    assert len({tuple((each - each.min()).round(9)) for each in means}) == 1


def test_only_judgements_are_late_or_missing():
    for kind in (Headlines, Backends, Moving):
        world = kind(1, 50)
        assert {world.next().delay for _ in range(200)} == {0}
    world = Models(1, 50)
    delays = [world.next().delay for _ in range(400)]
    assert None in delays
    assert len(set(delays)) > 20


def test_a_score_counts_what_was_lost_and_remembers_the_last_rounds():
    score, means = Score(), np.array([0.5, 0.2])
    for _ in range(WINDOW - 1):
        score.count(0, means)
        assert not score.misled
    score.count(0, means)
    assert score.misled
    assert (score.lost, score.best) == (pytest.approx(0.3 * WINDOW), 0.0)
    for _ in range(WINDOW // 4):
        score.count(1, means)
    assert (score.lost, score.best) == (pytest.approx(0.3 * WINDOW), 0.25)
    for _ in range(WINDOW // 4):
        score.count(1, means)
    assert not score.misled


class Steady(World):
    """Two arms that never change; every third feedback is late, every seventh missing."""

    name, title, trouble, unit, note = "steady", "Steady", "", "points", ""
    arms = ("bad", "good")

    def _round(self, t):
        delay = None if t % 7 == 0 else 5 if t % 3 == 0 else 0
        means = np.array([0.9, 0.1])
        return Round(means, means, delay)


def test_copies_hear_late_feedback_and_forget_what_never_comes():
    world = Steady(1, 100)
    player = Copies(bw.ThompsonSampling(), world, [1, 2])
    player.play([world.next() for _ in range(300)])
    for bandit in player._bandits:
        assert len(bandit.pending) <= 5
    assert all(score.best > 0.8 for score in player.scores)


def test_a_curve_is_thinned():
    world = Steady(1, 100)
    contest = Contest(world, {"UCB1": Copies(bw.UCB1(), world, [1])})
    for _ in range(3 * POINTS):
        contest.play(1)
        contest.note()
    found = contest.picture()
    assert POINTS / 4 < len(found.times) < POINTS
    assert len(found.curves["UCB1"]) == len(found.times)
    assert list(found.times) == sorted(found.times)
    assert found.times[-1] > 0.9 * world.t / world.rate


@pytest.fixture(scope="module")
def made():
    with demonstration(seed=3, rate=400, copies=2) as found:
        found.race.run(2.0, lambda: False, lambda: None)
        yield found


def get(url):
    with urllib.request.urlopen(url, timeout=HANG) as answer:
        return answer.headers, answer.read().decode()


def test_the_service_has_learned_what_was_played(made):
    _, text = get(f"{made.service}/v1/experiments")
    found = {each["name"]: each for each in json.loads(text)["experiments"]}
    assert set(found) == {kind.name for kind in WORLDS}
    for contest in made.race.contests:
        name = contest.world.name
        assert found[name]["round"] == contest.world.t > 0
        told = sum(arm["told"] for arm in found[name]["arms"])
        if name == "models":
            assert told < contest.world.t
        else:
            assert told == contest.world.t


def test_everybody_played_the_same_rounds(made):
    for n, each in enumerate(made.race.pictures()):
        # AllWorlds plays where the best option changes.
        players = 4 if WORLDS[n] is Moving else 3
        assert [s.player for s in each.standings] == list(COLOURS)[:players]
        assert [s.copies for s in each.standings] == [1, 2, 1, 2][:players]
        for s in each.standings:
            assert 0.0 < s.lost <= s.worst
            assert 0.0 <= s.best <= 1.0


def test_the_page_needs_no_script_and_nobody_else(made):
    headers, text = get(made.page)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "<script" not in text
    assert re.findall(r"https?://[^\"'<\s]+", text) == [made.service]
    for kind in WORLDS:
        assert kind.title in text
    assert text.count("<polyline") == 13
    headers, style = get(f"{made.page}/style.css")
    assert headers["Content-Type"].startswith("text/css")
    assert "url(" not in style
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{made.page}/nothing")


def test_the_page_shows_trouble_and_stops_reloading_at_the_end():
    world = Headlines(1, 1)
    contest = Contest(world, {"UCB1": Copies(bw.UCB1(), world, [1])})
    before = contest.picture()
    assert "Now:" not in document([before], "http://127.0.0.1:1")
    while not contest.picture().trouble:
        contest.play(1)
        contest.note()
    text = document([contest.picture()], "http://127.0.0.1:1")
    assert "Now: bots click on everything." in text
    assert 'class="wave"' in text
    assert "refresh" in text
    assert "refresh" not in document([before], "http://127.0.0.1:1", ended=True)


def test_a_table_fits_eighty_columns(made):
    screen = Console(width=80, file=io.StringIO())
    screen.print(table(made.race.pictures()))
    lines = screen.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("Tsallis-INF" in line for line in lines) == 4


def test_what_a_visitor_does_in_the_dashboard_is_survived():
    with demonstration(seed=3, rate=400, copies=2) as made:
        contest = made.race.contests[0]
        player = contest.players["Tsallis-INF"]
        assert isinstance(player, Served)
        for action in ("pause", "archive", "resume", "reset"):
            player._client.act("headlines", action)
            player.play([contest.world.next() for _ in range(5)])
        # An arm that the visitor has added, and of which the traffic knows nothing.
        player._decided = lambda count: [Decision("headlines", "new")] * count
        lost = player.scores[0].lost
        player.play([contest.world.next()])
        assert player.scores[0].lost == pytest.approx(lost + 0.12)


def test_a_race_that_is_told_to_stop_stops(made):
    played = made.race.contests[1].world.t
    made.race.run(None, lambda: True, lambda: None)
    assert made.race.contests[1].world.t == played


def test_a_page_is_gone_after_its_block():
    with served(list, "http://127.0.0.1:1") as url:
        assert get(url)[1].startswith("<!doctype html>")
    with pytest.raises(urllib.error.URLError):
        get(url)


@pytest.mark.processes
@pytest.mark.parametrize("early", [True, False], ids=["while it starts", "while it runs"])
def test_the_command_ends_well_at_ctrl_c(tmp_path, early):
    command = [sys.executable, "-m", "bothworlds", "demo", "--no-browser", "--seed", "2"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        said = [running.stdout.readline()]
        assert any(each.name.startswith("bothworlds-demo-") for each in tmp_path.iterdir())
        if not early:
            said += [running.stdout.readline() for _ in range(2)]
            page = re.search(r"http://\S+", said[1])[0]
            wait_until(lambda: json.loads(get(f"{page}/standing.json")[1])[0]["rounds"] > 100)
        running.send_signal(signal.SIGINT)
        out, error = running.communicate(timeout=HANG)
    finally:
        running.kill()
        running.wait(HANG)
    assert (running.returncode, error) == (0, "")
    assert list(tmp_path.iterdir()) == []
    lines = ("".join(said) + out).splitlines()
    assert max(map(len, lines)) <= 80
    assert ("Headlines, attacked by bots (clicks)" in out) != early
    assert lines[-1] == "Stopped; all data of the demo are deleted."


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf"])
def test_seconds_must_be_positive(given):
    result = CliRunner().invoke(app, ["demo", "--no-browser", "--seconds", given])
    assert result.exit_code == 2
    assert "must be a positive number" in result.stderr
