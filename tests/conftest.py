"""Settings every test shares: repeatable examples, no windows, a Ctrl-C that is heard."""

import logging
import os
import signal

import pytest
from hypothesis import settings

# Set before anything imports matplotlib, and inherited by the processes that tests start.
os.environ["MPLBACKEND"] = "Agg"
# LiteLLM would fetch its table of prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

# Compiling on first use would break any deadline; derandomized, a failure is everyone's failure.
settings.register_profile("bothworlds", deadline=None, derandomize=True)
settings.load_profile("bothworlds")

# A shell's background job is deaf to Ctrl-C, and so would be the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def loggers_as_before():
    """Take back how a command that ran in this process has set up the log."""
    loggers = [logging.getLogger(name) for name in ("bothworlds", "uvicorn.error")]
    before = [(each.handlers, each.propagate, each.level) for each in loggers]
    yield
    for each, (handlers, propagate, level) in zip(loggers, before, strict=True):
        each.handlers, each.propagate = handlers, propagate
        each.setLevel(level)
