"""Storm over the decision service: replicas and their database killed while feedback is reported.

``python tools/storm.py --minutes 30 --replicas 4 --kills 200 --feedbacks 500000`` starts a
PostgreSQL and replicas of ``bothworlds serve`` on it.  Callers decide on one replica and tell
another one, some of it twice or with another loss at the same time, and again until it is
acknowledged.  Meanwhile replicas are killed and started again, stopped for a while, connections
are cut, and the database is killed or stopped.  At the end every acknowledged feedback must be
stored once with its loss, and the state must be the sum of the log, integer by integer.
"""

import argparse
import collections
import contextlib
import http.client
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bothworlds.serve.domain.tokens import Keyring
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.store.opening import opened
from serve.databases import Server, cut, query

BATCH = 100
SECONDS = 20.0
"""How long a caller waits for an answer."""
EVENTS = {
    "replica killed": 14,
    "replica stopped for a while": 2,
    "connections cut": 2,
    "database killed": 1,
    "database stopped for a while": 1,
}
"""What happens, and how often beside the rest."""


class Replica:
    """A replica that is started again whenever it was killed."""

    def __init__(self, store):
        self.store = store
        self.address = None
        self.process = None

    def start(self):
        """Start the replica."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bothworlds", "serve", "--port", "0", "--store", self.store,
             "--experiment", "storm", "--arms", "a,b,c,d,e,f,g,h", "--log-level", "error"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        found = re.match(r"Listening on (http://\S+) ", line)
        # Without a database it does not start; whoever watches starts it again.
        self.address = found and (urlsplit(found[1]).hostname, urlsplit(found[1]).port)
        if found is None:
            self.process.wait()

    def kill(self):
        """Kill it."""
        self.address = None
        self.process.kill()
        self.process.wait()


class Callers:
    """Threads that decide and tell, and remember what was acknowledged."""

    def __init__(self, replicas, target):
        self.replicas = replicas
        self.target = target
        self.acknowledged = {}
        self.counts = collections.Counter()
        self.ending = threading.Event()
        self._guard = threading.Lock()

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
            return None
        if response.status in (404, 429, 503):
            self.counts[f"answer {response.status}"] += 1
            time.sleep(0.05)
            return None
        assert response.status in (200, 201), (response.status, body)
        return json.loads(body)

    def insist(self, chance, path, document):
        """Ask one replica after the other until one answers."""
        while True:
            found = self.ask(chance.choice(self.replicas), path, document)
            if found is not None:
                return found

    def tell(self, chance, items):
        """Tell until everything is acknowledged, or refused because another loss was first."""
        while items:
            answer = self.insist(chance, "/v1/feedback:batch", {"items": items})
            left = []
            for item, result in zip(items, answer["results"], strict=True):
                status = result.get("code") or result["status"]
                self.counts[status] += 1
                if status in ("learned", "duplicate"):
                    with self._guard:
                        before = self.acknowledged.setdefault(item["decision_id"], item["loss"])
                    assert before == item["loss"], "two losses were acknowledged"
                elif status == "store_unavailable":
                    left.append(item)
                else:
                    assert status == "already_told", result
            items = left

    def run(self, seed):
        """Decide and tell until there is enough and the storm has ended."""
        chance = random.Random(seed)
        while not (self.ending.is_set() and len(self.acknowledged) >= self.target):
            if len(self.acknowledged) >= self.target:
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


def happen(what, chance, server, replicas):
    """Let one thing happen."""
    if what == "replica killed":
        chance.choice(replicas).kill()
    elif what == "replica stopped for a while":
        replica = chance.choice(replicas)
        replica.process.send_signal(signal.SIGSTOP)
        time.sleep(chance.uniform(0.2, 2.0))
        replica.process.send_signal(signal.SIGCONT)
    elif what == "connections cut":
        cut(replicas[0].store, chance.randrange(1, 12))
    elif what == "database killed":
        server.kill()
        time.sleep(chance.uniform(0.0, 1.0))
        server.start()
    else:
        with server.paused():
            time.sleep(chance.uniform(0.2, 2.0))


def check(store, acknowledged):
    """Return what is wrong with a store, given the losses that were acknowledged by token."""
    wrong = [f"{each.invariant}: {each.detail}" for each in verify(store) if not each.ok]
    wrong += [f"epoch {each.epoch} replayed differs" for each in replay(store) if not each.equal]
    with contextlib.closing(opened(store, serve=False)) as found:
        keys = found.configuration().token_keys
    keyring = Keyring({key.id: key.secret for key in keys}, keys[-1].id)
    stored = {bytes(id): loss for id, loss in query(store, "SELECT id, loss FROM feedback")}
    lost = changed = 0
    for token, loss in acknowledged.items():
        kept = stored.get(keyring.verify(token)[1].id)
        lost += kept is None
        changed += kept is not None and kept != loss
    if lost or changed:
        wrong.append(f"{lost} acknowledged feedbacks are lost, {changed} have another loss")
    return wrong, len(stored)


def storm(minutes, replicas, kills, feedbacks, callers=4, seed=1, say=print):
    """Raise a storm; return whether nothing is wrong after it."""
    chance = random.Random(seed)
    begun = time.monotonic()
    server = Server()
    running = []
    watching = []
    over = threading.Event()
    try:
        store = server.database()
        for _ in range(replicas):
            running.append(Replica(store))
            running[-1].start()

        def watch(replica):
            while not over.wait(0.05):
                if replica.process.poll() is not None:
                    replica.start()

        watching += [threading.Thread(target=watch, args=(each,), daemon=True) for each in running]
        calling = Callers(running, feedbacks)
        threads = [
            threading.Thread(target=calling.run, args=(f"{seed}/{n}",), daemon=True)
            for n in range(callers)
        ]
        for thread in (*watching, *threads):
            thread.start()
        happened = collections.Counter()
        start = time.monotonic()
        for number in range(kills):
            time.sleep(max(0.0, start + (number + 1) * 60 * minutes / kills - time.monotonic()))
            what = chance.choices(list(EVENTS), EVENTS.values())[0]
            happen(what, chance, server, running)
            happened[what] += 1
        calling.ending.set()
        for thread in threads:
            thread.join()
        over.set()
        for thread in watching:
            thread.join()
        # All at once: each must end with everything written.
        for each in running:
            each.process.send_signal(signal.SIGTERM)
        codes = [each.process.wait() for each in running]
        wrong, stored = check(store, calling.acknowledged)
        if any(codes):
            wrong.append(f"replicas ended with {codes}")
        shards = query(store, "SELECT COUNT(DISTINCT shard), COUNT(*) FROM run")[0]
    finally:
        over.set()
        for thread in watching:
            thread.join()
        for each in running:
            each.kill()
        server.stop()
    say(f"{(time.monotonic() - begun) / 60:.1f} minutes, {replicas} replicas, seed {seed}")
    say("happened: " + ", ".join(f"{what} {n}" for what, n in sorted(happened.items())))
    say("answered: " + ", ".join(f"{what} {n}" for what, n in sorted(calling.counts.items())))
    say(f"{len(calling.acknowledged)} feedbacks acknowledged, {stored} stored")
    say(f"{shards[1]} starts of replicas used {shards[0]} numbers")
    for each in wrong:
        say(f"WRONG: {each}")
    if not wrong:
        say("nothing lost, nothing doubled, the state is the sum of the log")
    return not wrong


def main():
    """Raise a storm as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--kills", type=int, default=200, help="how many things happen")
    parser.add_argument("--feedbacks", type=int, default=500_000, help="how many at least")
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    # Ending the storm early ends the processes it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(not storm(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
