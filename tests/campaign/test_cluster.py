"""The same bits on real Dask clusters on this machine, whose processes are killed on the way."""

import contextlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.campaign import campaign as schedule
from bothworlds.campaign import dask as clusters
from bothworlds.campaign import identity as fingerprint
from bothworlds.campaign import shard as shards
from bothworlds.campaign import workers
from bothworlds.campaign.store import Store
from bothworlds.campaign.store_view import missing_spans
from bothworlds.cli import parse as cli_names
from bothworlds.cli.commands import app
from bothworlds.errors import ClusterError, InvalidParameter, MissingExtra
from helpers.waiting import HANG, wait_until

psutil = pytest.importorskip("psutil")
pytest.importorskip("distributed")
if not hasattr(signal, "SIGKILL"):
    pytest.skip("needs signals", allow_module_level=True)

WORLD = bw.environments.Stochastic.gap(4, 0.25)
POLICIES = {
    "rv": bw.TsallisINF(),
    "scalar": bw.LBINFV(horizon=1000),
    "ucb1": bw.UCB1(),
    "thompson": bw.ThompsonSampling(),
}
OWN = """
import os, multiprocessing
import numpy as np
from bothworlds.policies import custom

GAIN = 1.0

@custom
class Own:
    explore: float = 0.1
    def start(n_arms):
        return np.zeros(n_arms)
    def probabilities(state, parameters, n_arms, t, p):
        p[:] = parameters.explore / n_arms
        p[np.argmin(state)] += 1.0 - parameters.explore
    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += GAIN * loss

def deadly(n_arms):
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), 9)
    return np.zeros(1)

@custom
class Deadly:
    start = deadly
    def choose(state, parameters, n_arms, t, generator):
        return 0
    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[0] += loss
"""


def run(policies=POLICIES, world=WORLD, horizon=2000, repetitions=40, **options):
    options = {"seed": 5, "progress": False, **options}
    return bw.simulate(policies, world, horizon=horizon, repetitions=repetitions, **options)


def same(first, second):
    assert first.names == second.names
    for name in first.names:
        assert first.regret[name].tobytes() == second.regret[name].tobytes()
        assert np.array_equal(first.plays[name], second.plays[name])
        assert np.array_equal(first.repetitions[name], second.repetitions[name])


def shard_files(folder):
    return sorted(folder.glob("*.parquet"))


def all_sound(folder):
    """Whether every shard on disk can be read; return how many repetitions there are."""
    said = []
    store = Store(folder, said.append)
    rows = sum(o.count for shelf in store.shelves() for o in store.read(shelf)[1])
    assert not said
    return rows


@contextlib.contextmanager
def once_kept(folder, action):
    """Do something as soon as a shard is in the folder, while the block goes on."""
    failures, over = [], threading.Event()

    def act():
        try:
            wait_until(lambda: shard_files(folder) or over.is_set())
            assert not over.is_set(), "it ended before"
            action()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failures, failures


# --- a cluster made here ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_module(tmp_path_factory):
    """A user's module, which workers can import."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_policies.py").write_text(OWN)
    sys.path.insert(0, str(folder))
    yield folder / "own_policies.py"
    sys.path.remove(str(folder))
    sys.modules.pop("own_policies", None)


@pytest.fixture(scope="module")
def executor(own_module):
    with clusters.cluster("local:2") as made:
        pids = worker_pids(made)
        assert len(pids) == 2
        yield made
        children = workers_of(psutil.Process())
    _, left = psutil.wait_procs(children, timeout=HANG)
    assert not left


def workers_of(process):
    """Its descendants, but for the process that multiprocessing itself keeps."""
    found = process.children(recursive=True)
    return [each for each in found if "resource_tracker" not in " ".join(each.cmdline())]


def worker_pids(executor):
    return set(executor._client.run(os.getpid).values())


@pytest.mark.processes
def test_two_workers_give_the_same_bits(executor, tmp_path):
    direct = run()
    same(run(executor=executor), direct)
    same(run(executor=executor, store=tmp_path), direct)
    same(run(store=tmp_path), direct)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("policy", "world"),
    [
        (bw.UCB1(), bw.environments.Adaptive(4)),
        (bw.Sparring(), bw.environments.Utilities([0.9, 0.5, 0.4])),
        (bw.Exp3(), bw.environments.Adversarial(np.random.default_rng(0).random((2000, 3)))),
        (bw.Exp3(), bw.environments.Corrupted(WORLD, 50.0)),
    ],
    ids=["adaptive", "duels", "table", "corrupted"],
)
def test_every_kind_of_environment_travels(policy, world, executor):
    same(run({"P": policy}, world, executor=executor), run({"P": policy}, world))


@pytest.mark.processes
def test_going_on_from_saved_states(executor, tmp_path):
    run(executor=executor, horizon=500, store=tmp_path, continuable=True)
    same(run(executor=executor, store=tmp_path, continuable=True), run())


@pytest.mark.processes
def test_a_policy_of_the_users_own(executor):
    from own_policies import Own

    same(run({"own": Own()}, executor=executor), run({"own": Own()}))


@pytest.mark.processes
def test_another_version_of_the_users_module_is_refused(executor, monkeypatch):
    """Here the module has another constant than where the workers imported it."""
    import own_policies

    # As if the file had been edited and imported again in this process alone.
    changed = {"__name__": "own_policies"}
    exec(OWN.replace("GAIN = 1.0", "GAIN = 2.0"), changed)
    monkeypatch.setattr(own_policies, "Own", changed["Own"])
    with pytest.raises(ClusterError, match="must run own with the code of this process"):
        run({"own": changed["Own"]()}, executor=executor)


@pytest.mark.processes
def test_another_version_of_the_kernels_is_refused(executor, monkeypatch, tmp_path):
    monkeypatch.setattr(fingerprint, "_PACKAGE", b"another version")
    with pytest.raises(ClusterError) as error:
        run(executor=executor, store=tmp_path)
    assert str(error.value).startswith("The workers must run ")
    assert not shard_files(tmp_path)


BUSY = {"horizon": 200_000, "repetitions": 96}
LONGER = {**BUSY, "repetitions": 960}
"""So much that a run is not finished before it is disturbed."""


@pytest.mark.processes
def test_a_worker_killed_in_mid_shard(executor, tmp_path):
    client, victims = executor._client, []
    pids = client.run(os.getpid)

    def busy():
        known = client.cluster.scheduler.workers
        return [address for address, worker in list(known.items()) if worker.processing]

    def kill():
        found = []
        wait_until(lambda: found.extend(busy()) or found)
        victims.append(pids[found[0]])
        os.kill(victims[0], signal.SIGKILL)

    policies = {name: bw.UCB1() for name in "ABCDEFGHIJ"}
    with once_kept(tmp_path, kill):
        result = run(policies, executor=executor, store=tmp_path, **BUSY)
    same(result, run(policies, **BUSY))
    wait_until(lambda: len(worker_pids(executor)) == 2)
    assert not worker_pids(executor) & set(victims)


@pytest.mark.processes
def test_workers_that_die_again_and_again_end_the_run(executor, tmp_path, monkeypatch, capsys):
    """With a sentence, in bounded time; what was finished stays, and the cluster works on."""
    from own_policies import Deadly

    # Dask itself would try on four workers every time.
    scheduler = executor._client.cluster.scheduler
    monkeypatch.setattr(scheduler, "allowed_failures", 0)
    run({"good": bw.UCB1()}, executor=executor, store=tmp_path)
    with pytest.raises(ClusterError) as error:
        run({"good": bw.UCB1(), "bad": Deadly()}, executor=executor, store=tmp_path)
    assert str(error.value) == ("Every worker that ran bad died. Finished runs are kept.")
    said = capsys.readouterr().err.splitlines()
    assert said == ["Workers died while they ran bad; their work starts again."] * 2
    assert all_sound(tmp_path) == 40
    monkeypatch.undo()
    same(run(executor=executor), run())


@pytest.mark.processes
@pytest.mark.parametrize("count", [5, 1])
def test_any_number_of_workers_gives_the_same_bits(executor, count):
    """Workers come and go between runs; slots follow."""
    client = executor._client
    client.cluster.scale(count)
    wait_until(lambda: len(client.nthreads()) == count)
    assert schedule.workers_of(executor).slots() == count
    same(run(executor=executor), run())


# --- processes of the standard library --------------------------------------------------------


@pytest.mark.processes
def test_processes_and_one_that_is_killed(tmp_path):
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        same(run(executor=pool), run())

        def kill():
            os.kill(next(iter(pool._processes)), signal.SIGKILL)

        policies = {name: bw.UCB1() for name in "ABC"}
        gone = pytest.raises(ClusterError, match="The workers are gone")
        with once_kept(tmp_path, kill), gone as error:
            run(policies, executor=pool, store=tmp_path, **LONGER)
    assert str(error.value).endswith("(BrokenProcessPool). Finished runs are kept.")
    assert all_sound(tmp_path) > 0
    same(run(policies, store=tmp_path, **BUSY), run(policies, **BUSY))


# --- a cluster that is running somewhere ------------------------------------------------------


class Farm:
    """A scheduler and workers, in processes of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.address = None
        self.processes = []

    def ensure(self):
        """Start what is not running; return the address."""
        if self.address is None or any(each.poll() is not None for each in self.processes):
            self.end()
            told = self.folder / "scheduler.json"
            told.unlink(missing_ok=True)
            self._start(
                "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                "--scheduler-file", str(told),
            )  # fmt: skip
            wait_until(lambda: told.exists() and told.read_text().endswith("}"))
            self.address = json.loads(told.read_text())["address"]
            self.hire()
            self.hire()
        return self.address

    def hire(self):
        """Start one more worker."""
        self._start(
            "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
            "--local-directory", str(self.folder),
        )  # fmt: skip

    def _start(self, what, *arguments):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments]
        with open(self.folder / f"{what}.log", "a") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    @property
    def scheduler(self):
        return self.processes[0]

    def end(self):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.processes, self.address = [], None


@pytest.fixture(scope="module")
def fields(tmp_path_factory):
    made = Farm(tmp_path_factory.mktemp("farm"))
    yield made
    made.end()


@pytest.fixture
def farm(fields):
    fields.ensure()
    return fields


CLI = {"horizon": 200_000, "repetitions": 96}
"""What is run again of what the command was about to run."""
CHOSEN = cli_names.policies("ucb1,tsallis,exp3", CLI["horizon"])


def compare(output, *options):
    """Start the command in a group of its own, as a terminal does."""
    command = [
        sys.executable, "-m", "bothworlds", "compare", "--arms", "4", "--gap", "0.25",
        "--seed", "5", "--policies", "ucb1,tsallis,exp3", "--output", str(output),
        "--horizon", str(CLI["horizon"]), "--repetitions", "960", *options,
    ]  # fmt: skip
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def kept_something(client, folder):
    """Wait for the first shard of a command that is running."""
    wait_until(lambda: shard_files(folder) or client.poll() is not None)
    if client.poll() is not None:
        pytest.fail(f"ended early: {client.communicate()}")


def finish(folder, counted, in_one_go):
    """Run the rest in this process: only what the command has not kept, with the same bits."""
    missing = 0
    for shelf in Store(folder).shelves():
        missing += sum(high - low for low, high in missing_spans(shelf.spans, CLI["repetitions"]))
    counted.clear()
    world = cli_names.environment("stochastic", 4, 0.25)
    same(run(CHOSEN, world, store=folder, **CLI), in_one_go)
    assert sum(counted) == missing
    return 3 * CLI["repetitions"] - missing


@pytest.fixture
def counted(monkeypatch):
    tiles = []

    def counting(shard, *arguments):
        tiles.extend(job.count for job in shard)
        return shards.run_shard(shard, *arguments)

    monkeypatch.setattr(workers, "run_shard", counting)
    return tiles


@pytest.fixture(scope="module")
def in_one_go():
    return run(CHOSEN, cli_names.environment("stochastic", 4, 0.25), **CLI)


@pytest.mark.processes
def test_the_client_is_killed(farm, tmp_path, counted, in_one_go):
    """What it kept can be read, and only the rest is run."""
    client = compare(tmp_path, "--cluster", farm.address)
    kept_something(client, tmp_path / "store")
    client.kill()
    client.communicate()
    assert client.returncode == -signal.SIGKILL
    assert all_sound(tmp_path / "store") > 0
    assert finish(tmp_path / "store", counted, in_one_go) > 0


@pytest.mark.processes
def test_the_scheduler_is_killed(farm, tmp_path, counted, in_one_go):
    client = compare(tmp_path, "--cluster", farm.address)
    kept_something(client, tmp_path / "store")
    farm.scheduler.kill()
    output, errors = client.communicate(timeout=HANG)
    assert (client.returncode, output) == (1, "")
    sentence = r"The workers are gone \(\w+\)\. Finished runs are kept\.\n"
    assert re.fullmatch(sentence, errors), errors
    assert all_sound(tmp_path / "store") > 0
    finish(tmp_path / "store", counted, in_one_go)


@pytest.mark.processes
def test_a_scheduler_that_falls_silent(farm, tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "SILENCE", 5.0)

    def freeze():
        farm.scheduler.send_signal(signal.SIGSTOP)

    policies = {name: bw.UCB1() for name in "ABC"}
    gone = pytest.raises(ClusterError, match=r"The workers are gone \(TimeoutError\)")
    with clusters.cluster(farm.address) as executor:
        with once_kept(tmp_path, freeze), gone:
            run(policies, executor=executor, store=tmp_path, **LONGER)
        farm.scheduler.send_signal(signal.SIGCONT)
    assert all_sound(tmp_path) > 0


@pytest.mark.processes
def test_all_workers_are_killed_and_another_one_comes(farm, tmp_path, monkeypatch, capsys):
    """Not an error: on a cluster with a queue workers may be long in coming."""
    monkeypatch.setattr(schedule, "WORRY", 0.5)
    said = []

    def disaster():
        for worker in farm.processes[1:]:
            worker.kill()
        wait_until(lambda: said.append(capsys.readouterr().err) or "waiting" in "".join(said))
        farm.hire()

    policies = {name: bw.UCB1() for name in "ABCDEFGH"}
    with clusters.cluster(farm.address) as executor, once_kept(tmp_path, disaster):
        same(run(policies, executor=executor, store=tmp_path, **BUSY), run(policies, **BUSY))
    sentences = "".join(said).splitlines()
    assert set(sentences) == {"The cluster has no workers at the moment; waiting for some."}


@pytest.mark.processes
def test_ctrl_c_in_a_terminal(tmp_path, counted, in_one_go):
    """It goes to all processes of the command; none stays, and no error is printed."""
    client = compare(tmp_path, "--cluster", "local:2")
    kept_something(client, tmp_path / "store")
    children = workers_of(psutil.Process(client.pid))
    assert len(children) == 2
    os.killpg(client.pid, signal.SIGINT)
    output, errors = client.communicate(timeout=HANG)
    assert client.returncode == 130
    sentence = r"Stopped early: of 960 runs of every policy, these were finished and kept: .*\n"
    assert re.fullmatch(sentence, errors), errors
    assert "Written: " in output
    _, left = psutil.wait_procs(children, timeout=HANG)
    assert not left
    assert all_sound(tmp_path / "store") > 0
    finish(tmp_path / "store", counted, in_one_go)


# --- what cannot be used ----------------------------------------------------------------------


def command(*arguments):
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, ["compare", *arguments])
    assert result.stdout == ""
    (sentence,) = result.stderr.splitlines()
    return result.exit_code, sentence


@pytest.mark.parametrize("address", ["nonsense", "local:0", "local:x", "host:8786", "tcp://", ""])
def test_an_address_that_is_none(address, tmp_path):
    code, sentence = command("--cluster", address, "--output", str(tmp_path / "out"))
    expected = f"an address such as tcp://host:8786, or local, got {address!r}."
    assert (code, sentence) == (2, f"The cluster of bothworlds must be {expected}")


def test_threads_are_not_for_a_cluster(tmp_path):
    code, sentence = command(
        "--cluster", "local", "--threads", "2", "--output", str(tmp_path / "out")
    )
    assert code == 2
    assert sentence == "The option --threads is for this process, not for a --cluster."


@pytest.mark.processes
def test_nobody_there(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE", 0.5)
    address = "tcp://127.0.0.1:9"
    code, sentence = command("--cluster", address, "--output", str(tmp_path / "out"))
    assert code == 1
    assert sentence.startswith(f"The scheduler at {address} does not answer (")


@pytest.mark.processes
def test_a_protocol_that_is_unknown():
    with (
        pytest.raises(ClusterError, match="The scheduler at xyz://host does not answer"),
        clusters.cluster("xyz://host"),
    ):
        pass


@pytest.mark.processes
def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra) as error, clusters.cluster("local"):
        pass
    assert str(error.value) == (
        'The package distributed must be installed for this, run: pip install "bothworlds[cluster]"'
    )


def test_an_asynchronous_client_is_refused():
    class Client:
        asynchronous, scheduler = True, None

    class Executor:
        _client = Client()

    with pytest.raises(InvalidParameter, match="a client that is not asynchronous"):
        run(executor=Executor())


def test_a_pool_that_broke_without_a_word_is_noticed(tmp_path):
    """A future handed out while the pool breaks may never end."""

    class Silent(ThreadPoolExecutor):
        def submit(self, *arguments):
            self._broken = "a process died"
            return Future()

    with Silent(2) as pool, pytest.raises(ClusterError, match="The workers are gone"):
        run(executor=pool, store=tmp_path)
