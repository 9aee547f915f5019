"""Settings every test shares: repeatable examples, no windows."""

import os

from hypothesis import settings

# Set before anything imports matplotlib, and inherited by the processes that tests start.
os.environ["MPLBACKEND"] = "Agg"

# Compiling on first use would break any deadline; derandomized, a failure is everyone's failure.
settings.register_profile("bothworlds", deadline=None, derandomize=True)
settings.load_profile("bothworlds")
