"""The OMD step at alpha = 1/2 for many arms: a round costs far less than a look at every arm.

Symbols, beyond those of `bothworlds.omd.half`:

=========== =======================================================================
``V_i``     what is stored of arm i's estimate: L_i, or L_i - O for near arms
``O``       sum of the baselines of the near arms since they became near
``X``       x in the frame of a bucket: y_i = V_i - X, X = x - O for near, else x
``b``       a bucket: arms of one family with floor(log2 y) equal, about
``x_b``     centre of a bucket, the X at which its sums were computed
``s``       2^floor(log2 y) of a bucket
``T_k``     sum over a bucket of (s / (V_i - x_b))^k, k = 2, ..., 11
``q``       (X - x_b) / s
``limit``   2 / eta^2: an arm is near, w_i >= eta^2, when y_i <= limit
=========== =======================================================================

**Sums.**  Only one arm's estimate changes in a round under IW, but every y does, because x moves.
So a bucket stands for its members by power sums, moved by the binomial series

    sum_i (V_i - X)^-k = s^-k sum_m (m + k - 1 choose m) T_(k + m) q^m.

While X is within min y / 32 of x_b the terms left out of S_2 are below 11 / 32^10 = 1e-14 of it;
when x has moved further, the bucket is created again.  That costs its size once for every y / 32 by
which x moves: per round a few times S_1 = sum_i 1 / y_i <= sqrt(K S_2), hence O(sqrt(K / t)).
Sums also change by single arms; T_2 is compensated, and a bucket is created again after as many
changes as it has members, so that errors stay near rounding.  `buckets` has all this.  Which arm
is in which bucket matters for speed alone: no formula uses bounds of y, only the least y seen.

**Root.**  S_2(x) = c as in `bothworlds.omd.half`, with its predictor, on the sums of 4 to 12
buckets.  A step may not take more than half of the least y, so no pole is passed.

**Draw.**  A bucket by its share of S_2, exactly; then members uniformly, accepted with
probability (least y / y)^2, which is above 1/5.

**Reduced variance.**  Every near arm rises by B = 1/2 in every round: that is O += B.  Arms change
family when y crosses the limit, and before t = 16 K or so many of them do so again and again: a
near arm rises faster than the limit, a far one falls.  Those within a few units of the limit form
the band, a bucket whose arms are examined one by one each round.  `families` has all this;
`heaps` tell when an arm comes close to the limit.  A round costs O(log K) and the size of the
band, which is at most K, then as fast as the O(K) pass.

The state is one array of doubles (`layout`): 32 bytes per arm for IW, 48 for RV.  It begins with
the estimates by arm and no buckets; the first `rounds.choose` makes them, and `rounds.close`
writes the estimates back when arms come, go, or are changed otherwise.
"""
