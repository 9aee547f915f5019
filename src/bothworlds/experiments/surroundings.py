"""Date, processor and versions with which something was made, without names of hosts or people."""

from __future__ import annotations

import datetime
import os
import platform
import re
from pathlib import Path

from bothworlds.campaign.shard_file import versions


def surroundings() -> dict[str, str]:
    """Return the date, the processor, its cores and the versions of the software.

    Examples
    --------
    >>> list(surroundings())
    ['date', 'processor', 'cores', 'versions']
    """
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": str(os.cpu_count() or 1),
        "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
    }


def processor() -> str:
    """Return the model of the processor, or the kind of machine where it is not told."""
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        about = ""
    named = re.search(r"^model name\s*:\s*(.+)$", about, re.MULTILINE)
    return " ".join(named[1].split()) if named else platform.machine() or "unknown"
