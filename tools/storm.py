"""Storm over the decision service: replicas, databases and files fail while feedback is reported.

``python tools/storm.py --minutes 30 --replicas 4 --events 200 --feedbacks 500000`` starts a
PostgreSQL with replicas of ``bothworlds serve``, and one service on a SQLite file.  Callers decide
on one replica and report to another one, some of it twice or with another loss at the same time,
and again until it is acknowledged.  Meanwhile replicas are killed and stopped for a while,
connections are cut, and the database is killed and stopped.  The database also goes back in time,
by a restore or by a failover that loses transactions; the file is replaced under the process; the
clocks of replicas differ; and retention deletes feedback that is five minutes old.

At the end every acknowledged feedback must be stored once with its loss, or counted among what
retention has deleted, unless its transaction was lost.  No id from a lost period may be learned
after it was refused, and the state must be the sum of the log, integer by integer.  With
``--policy allworlds`` feedback is learned in order: the state must be the fold of the log.
"""

import argparse
import asyncio
import base64
import collections
import contextlib
import http.client
import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bothworlds.serve.domain.records import decode
from bothworlds.serve.domain.service import Arm, NewExperiment, Service
from bothworlds.serve.ops.admin import begin_incarnation
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.store.opening import using
from serve.databases import Server, cut, query

BATCH = 100
SECONDS = 20.0
"""How long a caller waits for an answer."""
WINDOW = 300.0
"""Feedback window; retention deletes feedback a second later."""
SKEWS = (0.0, 0.0, -2.0, 2.0, -600.0, 600.0)
"""Seconds by which the clock of a replica may be wrong when it starts."""
EVENTS = {
    "replica killed": 14,
    "replica stopped for a while": 2,
    "connections cut": 2,
    "database killed": 1,
    "database stopped for a while": 1,
    "database restored": 1,
    "failover that lost transactions": 1,
    "file replaced": 2,
}
"""What happens, and how often compared with the rest."""
LOST = ("bad_signature", "expired", "epoch_over")
"""Answers to ids from a lost period."""
SERVE = """
import sys, time
from bothworlds.serve.ops import upkeep
clock, skew = time.time, float(sys.argv.pop(1))
time.time = lambda: clock() + skew
upkeep.DAY = 1.0
from bothworlds.__main__ import main
main()
"""
"""A service whose clock is wrong, and which may delete feedback a second after its window."""


def identity(token):
    """Return the id of a decision."""
    return decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))[:-16]).id


class Replica:
    """A service that is started again whenever it was killed, unless it is ``held``."""

    def __init__(self, store, chance):
        self.store = store
        self.chance = chance
        self.address = None
        self.process = None
        self.held = threading.Lock()

    def start(self):
        """Start the service, with some clock."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(self.chance.choice(SKEWS)), "serve", "--port", "0",
             "--store", self.store, "--log-level", "error", "--retention-days", "0.00001"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        found = re.match(r"Listening on (http://\S+) ", line)
        # Without a database it does not start; the thread that watches starts it again.
        self.address = found and (urlsplit(found[1]).hostname, urlsplit(found[1]).port)
        if found is None:
            self.process.wait()

    def watch(self, over):
        """Start the service again whenever it has ended."""
        while not over.wait(0.05):
            with self.held:
                if self.process.poll() is not None:
                    self.start()

    def kill(self):
        """Kill it."""
        self.address = None
        self.process.kill()
        self.process.wait()


class Callers:
    """Threads that decide and report, and remember what was acknowledged.

    ``generation`` counts how often the store went back: an answer to a request from before is not
    counted, and the request is sent again.
    """

    def __init__(self, replicas, target):
        self.replicas = replicas
        self.target = target
        self.acknowledged = {}
        self.at = {}
        self.refused = set()
        self.unknown = set()
        self.kept = set()
        self.lost = collections.deque()
        self.lost_acknowledged = 0
        self.generation = 0
        self.wrong = []
        self.counts = collections.Counter()
        self.ending = threading.Event()
        self.guard = threading.Lock()

    def ask(self, replica, path, document):
        """Return the answer of a replica, None if there was none or it was refused for now."""
        address = replica.address
        if address is None:
            time.sleep(0.02)
            return None
        try:
            with contextlib.closing(http.client.HTTPConnection(*address, timeout=SECONDS)) as line:
                line.request("POST", path, json.dumps(document).encode(),
                             {"Content-Type": "application/json"})  # fmt: skip
                response = line.getresponse()
                body = response.read()
        except (OSError, http.client.HTTPException):
            self.counts["no answer"] += 1
            time.sleep(0.05)
            return None
        if response.status in (404, 429, 503):
            self.counts[f"answer {response.status}"] += 1
            time.sleep(0.05)
            return None
        if response.status not in (200, 201):
            self.wrong.append(f"answered {response.status} {body!r}")
            return None
        return json.loads(body)

    def insist(self, chance, path, document):
        """Ask one replica after the other until one answers."""
        while True:
            found = self.ask(chance.choice(self.replicas), path, document)
            if found is not None:
                return found

    def tell(self, chance, items):
        """Report until everything is acknowledged or refused for good."""
        while items:
            asked = self.generation
            answer = self.insist(chance, "/v1/feedback:batch", {"items": items})
            left = []
            with self.guard:
                for item, result in zip(items, answer["results"], strict=True):
                    token = item["decision_id"]
                    status = result.get("code") or result["status"]
                    self.counts[status] += 1
                    if status == "store_unavailable" or asked != self.generation:
                        left.append(item)
                    elif status in ("learned", "duplicate"):
                        if self.acknowledged.setdefault(token, item["loss"]) != item["loss"]:
                            self.wrong.append("two losses were acknowledged")
                        if token in self.refused:
                            self.wrong.append("an id was learned after it was refused")
                        self.at[token] = time.monotonic()
                    elif status in LOST:
                        (self.unknown if status == "expired" else self.refused).add(token)
                    elif status != "already_told":
                        self.wrong.append(f"answered {result}")
            items = left

    def run(self, seed):
        """Decide and report until there is enough and the storm has ended."""
        chance = random.Random(seed)
        while not (self.ending.is_set() and len(self.at) >= self.target):
            if len(self.at) >= self.target:
                # Enough; the rest of the storm goes over a service that is used a little.
                time.sleep(0.2)
            decided = self.insist(chance, "/v1/experiments/storm/decisions:batch", {"count": BATCH})
            items = [
                {"decision_id": each["decision_id"], "loss": chance.choice((0.0, 0.25, 0.5, 1.0))}
                for each in decided["decisions"]
            ]
            again = chance.sample(items, BATCH // 10)
            for item in again[: BATCH // 20]:
                again.append({**item, "loss": 0.75})
            both = threading.Thread(target=self.tell, args=(random.Random(chance.random()), again))
            both.start()
            self.tell(chance, items)
            both.join()
            # What was acknowledged and then lost is reported again, as a careful caller does.
            with contextlib.suppress(IndexError):
                self.tell(chance, [self.lost.popleft() for _ in range(BATCH)])

    def went_back(self, begun, stored, forgotten):
        """Forget what the store has lost: ``stored`` are the ids it had at a backup."""
        with self.guard:
            self.generation += 1
            self.kept |= stored
            for token in list(self.acknowledged):
                id = identity(token)
                if id in stored or id <= forgotten:
                    continue
                if self.at[token] < begun:
                    self.wrong.append("a backup lacks what was acknowledged before it")
                loss = self.acknowledged.pop(token)
                self.lost_acknowledged += 1
                self.lost.append({"decision_id": token, "loss": loss})

    def check(self, store):
        """Return what is wrong with a store, and how many feedbacks it has and had."""
        wrong = list(dict.fromkeys(self.wrong))
        wrong += [f"{each.invariant}: {each.detail}" for each in verify(store) if not each.ok]
        wrong += [
            f"epoch {each.epoch} replayed differs" for each in replay(store) if not each.equal
        ]
        stored, forgotten, deleted = content(store)
        lost = changed = 0
        for token, loss in self.acknowledged.items():
            id = identity(token)
            lost += id not in stored and id > forgotten
            changed += stored.get(id, loss) != loss
        if lost or changed:
            wrong.append(f"{lost} acknowledged feedbacks are lost, {changed} have another loss")
        # An id whose feedback a backup had may be refused, though its feedback counts.
        refused = {identity(token) for token in self.refused - set(self.acknowledged)}
        if refused & set(stored) - self.kept:
            wrong.append("an id that was refused was learned")
        unsure = len(refused & self.kept) + len(self.unknown - set(self.acknowledged))
        extra = len(stored) + deleted - len(self.acknowledged)
        if not 0 <= extra <= unsure:
            wrong.append(f"{extra} feedbacks more than were acknowledged, {unsure} may be")
        return wrong, len(stored), deleted


def content(store):
    """Return the losses that a store has by id, the last deleted id, and how many were deleted."""
    with using(store) as found:
        stored = {row.id: row.loss for rows in found.reader.feedback() for row in rows}
        forgotten = max(found.reader.forgotten().values(), default=b"")
        deleted = sum(each.learned for each in found.reader.compacted().values())
    return stored, forgotten, deleted


async def create(store, policy):
    """Create the experiment of the storm."""
    service = await Service.open(store)
    spec = NewExperiment(
        "storm", [Arm(name) for name in "abcdefgh"], feedback_window=WINDOW, policy=policy
    )
    await service.create(Service.LOCAL, spec)
    await service.close()


class Storm:
    """A database with replicas, a file with its service, and those who call them."""

    def __init__(self, replicas, feedbacks, seed, policy):
        self.chance = random.Random(seed)
        self.folder = tempfile.TemporaryDirectory(prefix="bothworlds-storm-")
        self.server = Server()
        self.store = self.server.database()
        self.admin = self.server.database()
        self.file = str(Path(self.folder.name) / "storm.db")
        for each in (self.store, self.file):
            asyncio.run(create(each, policy))
        chances = [random.Random(f"{seed}/{n}") for n in range(replicas + 1)]
        self.replicas = [Replica(self.store, chances[n]) for n in range(replicas)]
        self.single = Replica(self.file, chances[-1])
        self.calling = Callers(self.replicas, feedbacks)
        self.calling_single = Callers([self.single], 0)
        self.happened = collections.Counter()

    def happen(self, what):
        """Let one thing happen."""
        chance = self.chance
        if what == "replica killed":
            chance.choice([*self.replicas, self.single]).kill()
        elif what == "replica stopped for a while":
            replica = chance.choice(self.replicas)
            replica.process.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.2, 2.0))
            replica.process.send_signal(signal.SIGCONT)
        elif what == "connections cut":
            cut(self.store, chance.randrange(1, 12))
        elif what == "database killed":
            self.server.kill()
            time.sleep(chance.uniform(0.0, 1.0))
            self.server.start()
        elif what == "database stopped for a while":
            with self.server.paused():
                time.sleep(chance.uniform(0.2, 2.0))
        elif what == "file replaced":
            self.replace_file()
        else:
            self.go_back(restored=what == "database restored")
        self.happened[what] += 1

    def _end_sessions(self, name):
        query(self.admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
              "WHERE datname = %s", (name,))  # fmt: skip

    def go_back(self, *, restored):
        """Let the database lose its last seconds, by a restore or by a failover."""
        name = self.store.split("?")[0].rsplit("/", 1)[1]
        begun = time.monotonic()
        query(self.admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        self._end_sessions(name)
        query(self.admin, f"CREATE DATABASE earlier TEMPLATE {name}")
        query(self.admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        time.sleep(self.chance.uniform(2.0, 8.0))
        held = [each for each in self.replicas if restored]
        for each in held:
            each.held.acquire()
            each.kill()
        query(self.admin, f"DROP DATABASE {name} WITH (FORCE)")
        stored, forgotten, _ = content(self.store.replace(f"/{name}?", "/earlier?"))
        if not restored:
            query(self.store.replace(f"/{name}?", "/earlier?"),
                  "UPDATE incarnation SET timeline = 'a standby' WHERE ended IS NULL")  # fmt: skip
        self.calling.went_back(begun, set(stored), forgotten)
        query(self.admin, f"ALTER DATABASE earlier RENAME TO {name}")
        if restored:
            begin_incarnation(self.store)
        for each in held:
            each.held.release()

    def replace_file(self):
        """Put a backup in the place of the file that is served, and follow the manual."""
        single, calling = self.single, self.calling_single
        begun = time.monotonic()
        copy = f"{self.file}.copy"
        with (
            contextlib.closing(sqlite3.connect(self.file)) as reading,
            contextlib.closing(sqlite3.connect(copy)) as writing,
        ):
            reading.backup(writing)
        stored, forgotten, _ = content(copy)
        time.sleep(self.chance.uniform(0.5, 2.0))
        with single.held:
            Path(copy).replace(self.file)
            # From now on nothing may be acknowledged until the service has been restarted.
            calling.went_back(begun, set(stored), forgotten)
            time.sleep(self.chance.uniform(0.0, 2.0))
            single.process.terminate()
            single.process.wait()
            if self.chance.random() < 0.5:
                # The service has emptied them, so that to forget this does no harm.
                for end in ("-wal", "-shm"):
                    Path(self.file + end).unlink(missing_ok=True)
            begin_incarnation(self.file)

    def rage(self, minutes, events, callers, seed):
        """Let things happen while callers call; return what is wrong afterwards, and figures."""
        over = threading.Event()
        services = [*self.replicas, self.single]
        for each in services:
            each.start()
        watching = [threading.Thread(target=each.watch, args=(over,)) for each in services]
        threads = [
            threading.Thread(target=self.calling.run, args=(f"{seed}/{n}",), daemon=True)
            for n in range(callers)
        ]
        threads.append(
            threading.Thread(target=self.calling_single.run, args=(f"{seed}/file",), daemon=True)
        )
        try:
            for thread in (*watching, *threads):
                thread.start()
            start = time.monotonic()
            for number in range(events):
                due = start + (number + 1) * 60 * minutes / events
                time.sleep(max(0.0, due - time.monotonic()))
                self.happen(self.chance.choices(list(EVENTS), EVENTS.values())[0])
            for each in (self.calling, self.calling_single):
                each.ending.set()
            for thread in threads:
                thread.join()
            over.set()
            for thread in watching:
                thread.join()
            # All at once: each must end with everything written.
            for each in services:
                each.process.send_signal(signal.SIGTERM)
            codes = [each.process.wait() for each in services]
            wrong, stored, deleted = self.calling.check(self.store)
            also, *more = self.calling_single.check(self.file)
            if any(codes):
                wrong.append(f"services ended with {codes}")
            return wrong + also, stored + more[0], deleted + more[1]
        finally:
            over.set()
            for thread in watching:
                thread.join()
            for each in services:
                each.kill()

    def end(self):
        """Stop the database and delete what there is."""
        self.server.stop()
        self.folder.cleanup()


def storm(minutes, replicas, events, feedbacks, callers=4, seed=1, policy="tsallis", say=print):
    """Raise a storm; return whether nothing is wrong after it."""
    begun = time.monotonic()
    made = Storm(replicas, feedbacks, seed, policy)
    try:
        wrong, stored, deleted = made.rage(minutes, events, callers, seed)
    finally:
        made.end()
    both = (made.calling, made.calling_single)
    counts = sum((each.counts for each in both), collections.Counter())
    lost = sum(each.lost_acknowledged for each in both)
    say(
        f"{(time.monotonic() - begun) / 60:.1f} minutes, {replicas} replicas and a file, "
        f"{policy}, seed {seed}"
    )
    say("happened: " + ", ".join(f"{what} {n}" for what, n in sorted(made.happened.items())))
    say("answered: " + ", ".join(f"{what} {n}" for what, n in sorted(counts.items())))
    say(f"{sum(len(each.acknowledged) for each in both)} feedbacks acknowledged and not lost, "
        f"{stored} stored, {deleted} deleted by retention")  # fmt: skip
    say(f"{lost} acknowledged feedbacks lost with their transactions, and reported again")
    for each in wrong:
        say(f"WRONG: {each}")
    if not wrong:
        say("nothing else lost, nothing doubled, the state is that of the log")
    return not wrong


def main():
    """Raise a storm as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--events", type=int, default=200, help="how many things happen")
    parser.add_argument("--feedbacks", type=int, default=500_000, help="how many at least")
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", default="tsallis", help="in a shell's words, such as allworlds")
    # Ending the storm early ends the processes it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(not storm(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
