"""Kernels that `bothworlds warm-up` needs, compiled or loaded: ``python tests/helpers/kernels.py``.

It prints the rows of ``src/bothworlds/cli/kernel_counts.py``, or those of the policies named. Every
policy has a process of its own, because a process loads a kernel that policies share once.
"""

import itertools
import subprocess
import sys

from numba.core.event import install_listener

from bothworlds.cli import parse, warm_up
from bothworlds.cli.kernel_counts import USES
from bothworlds.errors import InvalidParameter
from bothworlds.lanes.code_cache import PART, KernelCache
from bothworlds.lanes.compile_events import KIND, CompileClock
from bothworlds.lanes.jit import NOTICE
from bothworlds.registry import words


class _Needed(CompileClock):
    """Collects the kernels that are compiled, and those that are found in the cache."""

    def __init__(self):
        super().__init__()
        self.found = set()
        self._load = KernelCache.load_overload

    def loaded(self, cache, signature, context):
        code = self._load(cache, signature, context)
        # What compiled code calls is part of a kernel. Shuffling is compiled for many runs only,
        # and loaded for few ones if it is there.
        own = "fill_orders" not in cache._impl.filename_base
        if self._depth == 0 and cache._flavour != PART and own:
            self.found.add((cache._impl.filename_base, cache._flavour, str(signature)))
        return code


def counted(word):
    """Return a policy's label, and how many kernels each use adds to those before it."""
    ((label, policy),) = parse.policies(word, warm_up.HORIZON).items()
    needed = _Needed()
    KernelCache.load_overload = lambda *given: needed.loaded(*given)
    NOTICE.silence()
    totals = [0]
    with install_listener(KIND, needed):
        for step in (warm_up.play, warm_up.duel, warm_up.run, warm_up.decide_once):
            try:
                chosen = warm_up.servable({label: policy}) if step is warm_up.decide_once else [1]
            except InvalidParameter:
                chosen = []
            for K in warm_up.ARMS if chosen else ():
                step(policy, K)
            totals.append(len(needed.found))
    return label, tuple(after - before for before, after in itertools.pairwise(totals))


def main(chosen):
    """Print a row for every policy."""
    if len(chosen) == 1:
        label, numbers = counted(chosen[0])
        assert len(numbers) == len(USES)
        print(f'    "{label}": {numbers},', flush=True)
        return
    for word in chosen or words():
        subprocess.run([sys.executable, __file__, word], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
