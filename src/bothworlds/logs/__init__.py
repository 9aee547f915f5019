"""Reading and writing logged decisions, in four formats, all through `LoggedDecision`.

======================== ========================== ============================================
format                   functions                  keeps
======================== ========================== ============================================
JSON lines               `read_jsonl`               everything
Parquet                  `read_parquet`             everything; needs the extra ``lab``
Vowpal Wabbit, ``--cb``  `read_vw`                  arm, cost, probability, round, features
Open Bandit Dataset      `read_open_bandit`         arm, click, propensity, round, columns
======================== ========================== ============================================

Each has its `write_...`. Readers give one decision after the other, so a log may be larger than
memory, and stop at the first malformed line with a sentence that names it.

Examples
--------
>>> import pathlib, tempfile
>>> import bothworlds as bw
>>> from bothworlds.interop import logs
>>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
>>> history = []
>>> for _ in range(100):
...     decision = bandit.ask()
...     reward = 1.0 if decision.arm == "green" else 0.0
...     bandit.tell(decision, reward=reward)
...     history.append(logs.LoggedDecision.of(decision, reward=reward))
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "log.jsonl")
...     _ = logs.write_jsonl(path, history)
...     list(logs.read_jsonl(path)) == history
True
"""

from bothworlds.logs.jsonl import read_jsonl, write_jsonl
from bothworlds.logs.open_bandit import read_open_bandit, write_open_bandit
from bothworlds.logs.parquet import read_parquet, write_parquet
from bothworlds.logs.record import LoggedDecision
from bothworlds.logs.vowpal_wabbit import read_vw, write_vw

__all__ = [
    "LoggedDecision",
    "read_jsonl",
    "read_open_bandit",
    "read_parquet",
    "read_vw",
    "write_jsonl",
    "write_open_bandit",
    "write_parquet",
    "write_vw",
]
