"""Public name of `bothworlds.logs`: reading and writing logged decisions, in four formats."""

from bothworlds.logs import (
    LoggedDecision,
    read_jsonl,
    read_open_bandit,
    read_parquet,
    read_vw,
    write_jsonl,
    write_open_bandit,
    write_parquet,
    write_vw,
)

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
