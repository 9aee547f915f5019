"""Made-up regrets, for tests of what claims say about them."""

import numpy as np

from bothworlds.simulation.result import Result


def made_up(cell, regret):
    """Return a result whose mean regret is ``regret(cell, name, t)``, with a spread of 0.2 %."""
    t = np.array(cell.checkpoints)
    spread = np.repeat([0.998, 1.0, 1.0, 1.002], 4)[:, None]
    return Result(
        checkpoints=t,
        regret={name: spread * regret(cell, name, t) for name in cell.policies},
        plays={name: np.ones((16, cell.n_arms), dtype=np.int64) for name in cell.policies},
        repetitions={name: np.arange(16) for name in cell.policies},
        wall=dict.fromkeys(cell.policies, 1.0),
        cpu=dict.fromkeys(cell.policies, 1.0),
        policies={name: repr(policy) for name, policy in cell.policies.items()},
        environment=repr(cell.environment),
        seed=0,
    )
