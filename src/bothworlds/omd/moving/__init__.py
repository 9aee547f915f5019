"""Many arms that rise at speeds of their own: the OMD step at alpha = 1/2 without a look at each.

Where every near arm rises by its own baseline m_i in every round, the buckets of
`bothworlds.omd.many.buckets` need more than power sums.  Symbols, beyond those of that package:

=========== =======================================================================
``N``       rounds learned from; a near arm rises by g_i = m_i in each, others by g_i = 0
``x_b, N_b`` x and N when the sums of bucket b were computed, its origin
``V_i``     y_i at the origin of its bucket: y_i = V_i + g_i (N - N_b) - (x - x_b)
``v_b``     a common speed of a bucket; mu_i = g_i - v_b
``tau``     N - N_b
``T_jn``    sum over a bucket of (mu_i / s)^j (s / V_i)^n, j + 2 <= n <= 11
``q``       ((x - x_b) - v_b tau) / s
=========== =======================================================================

**Sums.**  First the members move by their speeds, then all by q:

    U_n = sum_j (n + j - 1 choose j) (-tau)^j T_jn',  n' = n + j,

are the power sums T_n of `buckets` at time N, to the same order.  A bucket is created again when
the sum of abs(q) s and the largest abs(mu) tau exceeds 1/32 of its least V.

**Families.**  A near arm has y <= limit.  Arms within `INNER` of the limit are in the band, where
each is examined in every round; every other arm has an alarm, in a heap of its family.  A far arm
comes near when x + limit exceeds its estimate.  A near arm approaches the limit by at most the
advance of N - x - limit, because no baseline exceeds 1; when its alarm rings the distance is
computed again.

Slots are as in `buckets`, but every key has its bucket, empty or not, so a bucket is found by its
key.
"""
