"""The round of a bandit with advice: weights over experts, a mixture over arms, and its estimates.

=========== =======================================================================
N, K        experts and arms
``xi_j``    advice of expert j: a distribution over the arms
``q``       weights of the experts, the OMD step on L at eta
``p``       sum_j q_j xi_j; ``p'`` = (1 - e) p + e / K, from which the arm I is drawn
``B_a``     baseline of arm a, known before the draw; see `baseline_of`
``r_j``     xi_j(I) / p'_I
``s_j``     sum_a xi_j(a) B_a
=========== =======================================================================

The estimate of every expert, whether it was followed or not, is s_j + (l - B_I) r_j.  It is
unbiased: sum_I p'_I (s_j + (l_I - B_I) xi_j(I) / p'_I) = sum_a xi_j(a) l_a.

An expert that is asleep has no weight in the round and receives the weighted mean of the other
estimates, so that it neither gains nor loses.

With the K constant arms as experts, xi is the identity, q = p, and every line is that of
Tsallis-INF (Zimmert and Seldin, 2021).  The estimator is that of EXP4 (Auer, Cesa-Bianchi, Freund
and Schapire, 2002).

Matched rate: eta = 2 sqrt(2) / beta, beta_1 = 1 / sqrt(2), and beta grows by z / (beta h) with
z = min(d^2 sum_j q_j^(3/2) (r_j - 1)^2, beta |d| sum_j q_j |r_j - 1| / 2), d = l - B_I and
h = sum_j sqrt(q_j) - 1; argued and measured, not proved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import uniform
from bothworlds.omd.exponential import anytime_rate
from bothworlds.omd.learning_rates import encode, rate
from bothworlds.omd.step import solve
from bothworlds.policies import alarm
from bothworlds.policies.alarmed import Alarmed
from bothworlds.policies.base import Array
from bothworlds.policies.discounted import Discounted
from bothworlds.policies.exp3 import Exp3
from bothworlds.policies.floor import Floor
from bothworlds.policies.restarted import Restarted
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.policies.tsallis_inf_v import TsallisINFV

# Places in the state: sizes and the round, then the setting, then what learning moves.
EXPERTS, ARMS, ROUND = 0, 1, 2
KIND, CODE, PARAMETER, ALPHA, ESTIMATOR = 3, 4, 5, 6, 7
SCALE, POWER, PHASED, WINDOW, EVERY, LOG_FACTOR, RESTART, PRIOR = range(8, 16)
BETA, ORIGIN, ALARMS, OUTSTANDING, ANSWERED, LONGEST, HEAD = range(16, 23)

TSALLIS, EXPONENTIAL, MATCHED = 0.0, 1.0, 2.0
IW, RV, SOFT, MEANS = 0.0, 1.0, 2.0, 3.0
BETA_1 = math.sqrt(0.5)

# Places in the numbers of a decision, which are kept until its feedback arrives.
ARM, P, BASE, FOLLOWED, Z, CAP, H, DECIDED, OWN_R, OWN_S, PER_EXPERT = range(11)


@dataclass(frozen=True)
class Setting:
    """A policy as numbers: the learning rate, the estimator and its wrappers."""

    kind: float
    code: float = 0.0
    parameter: float = 0.0
    alpha: float = 0.5
    estimator: float = IW
    scale: float = 0.0
    power: float = 0.0
    phased: float = 0.0
    window: float = 0.0
    every: float = 0.0
    confidence: float = 0.0
    restart: float = 0.0
    prior: float = 1.0


def setting_of(policy: object, owner: str) -> Setting:
    """Return the numbers of a policy that can weigh experts, or refuse it.

    Examples
    --------
    >>> import bothworlds as bw
    >>> setting_of(bw.Floor(bw.TsallisINF(), 0.5), "AdvisedBandit").scale
    0.5
    >>> setting_of(bw.UCB1(), "AdvisedBandit")
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The policy of AdvisedBandit must be TsallisINF without ...
    """
    around: dict[str, float] = {}
    inner = policy
    while isinstance(inner, Floor | Discounted | Restarted | Alarmed):
        if isinstance(inner, Floor):
            if inner.limited:
                raise invalid("policy", owner, "one without shares", policy)
            added = {"scale": inner.scale, "power": inner.power, "phased": float(bool(around))}
        elif isinstance(inner, Discounted):
            added = {"window": float(inner.window)}
        elif isinstance(inner, Restarted):
            added = {"every": float(inner.every)}
        else:
            added = {"confidence": inner.confidence, "restart": float(inner.restart)}
            added |= {"scale": inner.floor, "power": 0.0} if inner.floor > 0.0 else {}
        if added.keys() & around.keys():
            raise invalid("policy", owner, "wrapped once by each wrapper", policy)
        around |= added
        inner = inner.policy
    if isinstance(inner, TsallisINF) and inner.gaps is None and _has_baseline(inner):
        words = {"iw": IW, "rv": RV, "soft": SOFT}
        code, parameter = encode(
            inner.learning_rate, alpha=inner.alpha, reduced_variance=inner.estimator != "iw",
            asymmetric=False, owner=owner,
        )  # fmt: skip
        return Setting(
            TSALLIS, float(code), parameter, inner.alpha, words[inner.estimator], **around
        )
    if isinstance(inner, TsallisINFV) and inner.rate == "matched":
        return Setting(MATCHED, estimator=MEANS, prior=inner.prior, **around)
    if isinstance(inner, Exp3):
        return Setting(EXPONENTIAL, alpha=1.0, **around)
    expected = (
        "TsallisINF without gaps, soft baselines at alpha = 1/2 only, TsallisINFV with the matched "
        "rate, or Exp3, also within Floor, Discounted, Restarted or Alarmed"
    )
    raise invalid("policy", owner, expected, policy)


def _has_baseline(policy: TsallisINF) -> bool:
    """Tell whether `baseline_of` knows the baselines of a policy."""
    return policy.estimator != "soft" or policy.alpha == 0.5


def first_state(setting: Setting, n_experts: int, n_arms: int) -> Array:
    """Return the state before the first round."""
    F = np.zeros(size(n_experts, n_arms, setting.confidence > 0.0))
    F[EXPERTS], F[ARMS] = n_experts, n_arms
    F[KIND : PRIOR + 1] = [
        setting.kind, setting.code, setting.parameter, setting.alpha, setting.estimator,
        setting.scale, setting.power, setting.phased, setting.window, setting.every,
        math.log(2.0 * n_experts / (1.0 - setting.confidence)) if setting.confidence else 0.0,
        setting.restart, setting.prior,
    ]  # fmt: skip
    F[BETA] = BETA_1
    return F


def size(n_experts: int, n_arms: int, alarmed: bool) -> int:
    """Return how many numbers a state has: L, two sums by arm, and the rings of an alarm."""
    return HEAD + n_experts + 2 * n_arms + (alarm.FIELDS * n_experts if alarmed else 0)


def width(n_experts: int, n_arms: int) -> int:
    """Return how many numbers a decision has: r, s and the second moment of r by expert, and p'."""
    return PER_EXPERT + 3 * n_experts + n_arms


@jit
def inner_round(F: Any) -> Any:
    """Return the round that the learning rate goes by."""
    t = F[ROUND] - F[ORIGIN]
    if F[EVERY] > 0.0:
        t = F[ROUND] - math.floor((F[ROUND] - 1.0) / F[EVERY]) * F[EVERY]
    return min(t, F[WINDOW]) if F[WINDOW] > 0.0 else t


@jit
def floor_of(F: Any, t: float) -> Any:
    """Return e, the share of the uniform distribution in round t."""
    return min(1.0, F[SCALE] * math.exp(-F[POWER] * math.log(t))) if F[SCALE] > 0.0 else 0.0


@jit
def rate_now(F: Any, N: int) -> Any:
    """Return eta."""
    if F[KIND] == MATCHED:
        # Decisions on their way count as the mean of those answered, up to the longest delay seen.
        on_their_way = min(F[OUTSTANDING], F[LONGEST])
        return (
            2.0 * math.sqrt(2.0) / (F[BETA] * math.sqrt(1.0 + on_their_way / (1.0 + F[ANSWERED])))
        )
    t = max(inner_round(F), 1.0)
    if F[KIND] == EXPONENTIAL:
        return anytime_rate(N, t)
    return rate(int(F[CODE]), F[PARAMETER], F[ALPHA], N, t)


@jit
def baseline_of(F: Any, a: int, p: float, eta: float) -> Any:
    """Return B_a: 0 (IW), 1/2 (RV) or the arm's running mean (V) if p >= eta^2, or the soft one."""
    estimator = F[ESTIMATOR]
    if estimator == IW:
        return 0.0
    if estimator == SOFT:
        return min(0.5, 0.5 * math.sqrt(p) / eta)
    if p < eta * eta:
        return 0.0
    if estimator == RV:
        return 0.5
    first = HEAD + int(F[EXPERTS])
    return (0.5 * F[PRIOR] + F[first + a]) / (F[PRIOR] + F[first + int(F[ARMS]) + a])


@jit
def draw(F: Any, G: Any, A: Any, awake: Any, here: Any, q: Any, D: Any) -> Any:
    """Draw an arm by the generator ``G``, as `draw_by` does; note which expert it followed."""
    arm = draw_by(F, uniform(G, 0.0), A, awake, here, q, D)
    if F[LOG_FACTOR] > 0.0:
        # Given the arm, expert j was followed with probability (1 - e) q_j xi_j(arm) / p'_I: its
        # losses are then those of its own advice, regardless of the weights of other experts.
        e = floor_of(F, inner_round(F) if F[PHASED] > 0.0 else F[ROUND])
        v = uniform(G, 0.0) * D[P]
        for j in range(int(F[EXPERTS])):
            v -= (1.0 - e) * q[j] * A[j, arm]
            if v < 0.0:
                D[FOLLOWED] = j
                break
    return arm


@jit
def draw_by(F: Any, u: float, A: Any, awake: Any, here: Any, q: Any, D: Any) -> Any:
    """Draw an arm by the uniform number ``u`` in [0, 1), and return it.

    Writes the weights ``q`` and the numbers ``D`` of the decision. ``A`` has the advice, a row per
    expert; ``awake`` and ``here`` mark the experts and the arms that take part.
    """
    N, K = int(F[EXPERTS]), int(F[ARMS])
    begin_round(F)
    eta = rate_now(F, N)
    weigh(F, N, awake, eta, q)
    p, mixed = np.zeros(K), D[PER_EXPERT + 3 * N :]
    for j in range(N):
        if q[j] > 0.0:
            for a in range(K):
                p[a] += q[j] * A[j, a]
    present = 0.0
    for a in range(K):
        present += here[a]
    # A floor within a wrapper goes by the rounds of that.
    e = floor_of(F, inner_round(F) if F[PHASED] > 0.0 else F[ROUND])
    for a in range(K):
        mixed[a] = (1.0 - e) * p[a] + e * here[a] / present
    # One uniform number serves both, as in `bothworlds.policies.floor`: below e it picks an arm
    # evenly, above it is stretched.
    if u < e:
        arm = picked(K, here, min(u / e, 1.0 - 2.0**-52) * present)
    else:
        u = min((u - e) / (1.0 - e), 1.0 - 2.0**-52)
        arm = 0
        total = p[0]
        while total <= u and arm < K - 1:
            arm += 1
            total += p[arm]
        while p[arm] <= 0.0 and arm > 0:
            arm -= 1
    D[ARM], D[P], D[DECIDED] = arm, mixed[arm], F[ROUND]
    D[BASE] = baseline_of(F, arm, p[arm], eta)
    describe(F, N, K, A, awake, q, p, eta, D)
    D[FOLLOWED] = -1.0
    F[OUTSTANDING] += 1.0
    return arm


@jit
def begin_round(F: Any) -> None:
    """Count a round; forget everything if restarts are due before it."""
    F[ROUND] += 1.0
    if F[EVERY] > 0.0 and F[ROUND] > 1.0 and (F[ROUND] - 1.0) % F[EVERY] == 0.0:
        begin_phase(F, F[ROUND] - 1.0)


@jit
def picked(K: int, here: Any, place: float) -> Any:
    """Return the arm at a place in [0, number of arms present) among those present."""
    arm = -1
    left = int(place) + 1
    while left > 0 and arm < K - 1:
        arm += 1
        left -= int(here[arm])
    return arm


@jit
def weigh(F: Any, N: int, awake: Any, eta: float, q: Any) -> None:
    """Write the weights of the experts: the OMD step over those that are awake."""
    L = F[HEAD : HEAD + N]
    count = 0
    for j in range(N):
        count += int(awake[j])
    if count == N:
        solve(L, L[:0], eta, F[ALPHA], -1.0, q)
        return
    own, w = np.empty(count), np.empty(count)
    at = 0
    for j in range(N):
        if awake[j]:
            own[at] = L[j]
            at += 1
    solve(own, own[:0], eta, F[ALPHA], -1.0, w)
    at = 0
    for j in range(N):
        q[j] = 0.0
        if awake[j]:
            q[j] = w[at]
            at += 1


@jit
def describe(
    F: Any, N: int, K: int, A: Any, awake: Any, q: Any, p: Any, eta: float, D: Any
) -> None:
    """Write inputs of learning: r, s and E r^2 of every expert, and terms of the matched rate."""
    arm = int(D[ARM])
    mixed = D[PER_EXPERT + 3 * N :]
    own_r, own_s = 0.0, 0.0
    z, cap, h = 0.0, 0.0, -1.0
    for j in range(N):
        if not awake[j]:
            continue
        s, v = 0.0, 0.0
        for a in range(K):
            if A[j, a] > 0.0:
                s += A[j, a] * baseline_of(F, a, p[a], eta)
                v += A[j, a] * A[j, a] / mixed[a]
        r = A[j, arm] / mixed[arm]
        D[PER_EXPERT + j], D[PER_EXPERT + N + j], D[PER_EXPERT + 2 * N + j] = r, s, v
        own_r += q[j] * r
        own_s += q[j] * s
        root = math.sqrt(q[j])
        z += q[j] * root * (r - 1.0) * (r - 1.0)
        cap += q[j] * abs(r - 1.0)
        h += root
    for j in range(N):
        if not awake[j]:
            D[PER_EXPERT + j], D[PER_EXPERT + N + j] = own_r, own_s
            D[PER_EXPERT + 2 * N + j] = 0.0
    D[Z], D[CAP], D[H], D[OWN_R], D[OWN_S] = z, cap, h, own_r, own_s


@jit
def learn(F: Any, D: Any, loss: float) -> Any:
    """Learn from the loss of a decision; return the expert whose losses changed, or -1."""
    N, K = int(F[EXPERTS]), int(F[ARMS])
    if D[DECIDED] <= F[ORIGIN]:
        return -1
    d = loss - D[BASE]
    if F[WINDOW] > 0.0:
        low = F[HEAD]
        for j in range(1, N):
            low = min(low, F[HEAD + j])
        for j in range(N):
            F[HEAD + j] = (1.0 - 1.0 / F[WINDOW]) * (F[HEAD + j] - low)
    for j in range(N):
        F[HEAD + j] += D[PER_EXPERT + N + j] + d * D[PER_EXPERT + j]
    F[OUTSTANDING] -= 1.0
    F[ANSWERED] += 1.0
    F[LONGEST] = max(F[LONGEST], F[ROUND] - D[DECIDED])
    if F[KIND] == MATCHED:
        z = min(d * d * D[Z], 0.5 * F[BETA] * abs(d) * D[CAP])
        if D[H] > 1e-12:
            F[BETA] += z / (F[BETA] * D[H])
        first = HEAD + N + int(D[ARM])
        F[first] += loss
        F[first + K] += 1.0
    recentre(F, N)
    if F[LOG_FACTOR] > 0.0 and D[FOLLOWED] >= 0.0:
        return listen(F, N, K, int(D[FOLLOWED]), loss)
    return -1


@jit
def drop(F: Any, D: Any) -> None:
    """Stop counting a decision whose feedback will never arrive as one on its way."""
    if D[DECIDED] > F[ORIGIN]:
        F[OUTSTANDING] -= 1.0


@jit
def recentre(F: Any, N: int) -> None:
    """Subtract the least estimate once it is large; only differences matter."""
    low = F[HEAD]
    for j in range(1, N):
        low = min(low, F[HEAD + j])
    if low > 1024.0:
        for j in range(N):
            F[HEAD + j] -= low


@jit
def listen(F: Any, N: int, K: int, j: int, loss: float) -> Any:
    """Test the losses of the followed expert for a change, and restart if there is one."""
    first = HEAD + N + 2 * K
    alarm.observe(F, first + j, N, loss)
    found, _ = alarm.change(F, first + j, N, F[LOG_FACTOR])
    if found <= 0.0:
        return -1
    F[ALARMS] += 1.0
    if F[RESTART] == 0.0:
        alarm.silence(F, first + j, N)
        return j
    begin_phase(F, F[ROUND])
    return j


@jit
def begin_phase(F: Any, origin: float) -> None:
    """Forget everything learned; decisions up to the round ``origin`` teach nothing any more."""
    F[HEAD:] = 0.0
    F[BETA], F[ORIGIN] = BETA_1, origin
    F[OUTSTANDING], F[ANSWERED] = 0.0, 0.0


def resized(D: Array, n_experts: int, n_arms: int, kept: list[int], added: bool) -> Array:
    """Return the numbers of a decision for other experts: those kept, and perhaps a new one.

    The new one was asleep then.
    """
    parts = [D[:PER_EXPERT]]
    for part, own in enumerate((D[OWN_R], D[OWN_S], 0.0)):
        at = PER_EXPERT + part * n_experts
        parts += [D[at : at + n_experts][kept], np.full(int(added), own)]
    return np.concatenate([*parts, D[PER_EXPERT + 3 * n_experts :]])


def resized_state(
    before: Array, setting: Setting, kept: list[int], estimate: float | None
) -> Array:
    """Return a state for other experts: those kept, and perhaps a new one with an estimate."""
    N, K, many = int(before[EXPERTS]), int(before[ARMS]), len(kept) + (estimate is not None)
    F = first_state(setting, many, K)
    own = F[[EXPERTS, LOG_FACTOR]]
    F[:HEAD] = before[:HEAD]
    F[[EXPERTS, LOG_FACTOR]] = own
    at = HEAD + len(kept)
    F[HEAD:at] = before[HEAD : HEAD + N][kept]
    if estimate is not None:
        F[at] = estimate
    first, behind = HEAD + many, HEAD + N
    F[first : first + 2 * K] = before[behind : behind + 2 * K]
    rings = before[behind + 2 * K :].reshape(-1, N)[:, kept]
    F[first + 2 * K :].reshape(-1, many)[:, : len(kept)] = rings
    return F
