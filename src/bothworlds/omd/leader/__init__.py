"""The OMD step in leader mode: most rounds look at no arm but the leading one.

Once one arm b has nearly all the weight, it is nearly always the arm that is played.  Then all
other arms keep their distances from each other, and a Taylor series stands for them.

======== ==========================================================================
``c``    1 - alpha, and ``p`` is 1 / c
``v_i``  c eta (L_i - x), so that w_i = v_i^-p; ``z`` is v_b
``Y``    z^p = 1 / w_b
``W``    sum of w_i over the other arms, so that 1 / Y + W = 1
``o``    1 - W, the weight of the leader
``V_i``  v_i as it was when the lane was last rebuilt, up to a common shift
``q``    eta_0 / eta, with eta_0 the learning rate of that round
``s``    how far the other arms have moved since: v_i = (V_i + s) / q, with s = q z - ``base``
``c_n``  binom(-p, n) sum_i V_i^-(p+n), so that W = q^p sum_n c_n s^n
======== ==========================================================================

A round finds z from the series, without a division or a power: with e = 1 - o Y and
a = c z Y W'(z), Newton's step on z = o^-c multiplies z by 1 + h,

    h = e (c + c (c + 1) / 2 e) (1 + a + a^2),

repeated in the rare rounds in which it is not small enough.  The leader is first in the order of
the draw: it is played if u < o, and its loss moves ``base``.  Otherwise the lane draws one of its
other arms from a table; that arm moves its V and the c_n.

The series is used for |s| <= R min V, with R such that what it leaves out is
|binom(-p, 10)| R^10 = 1e-14 of W: a 25th at p = 1, a 32nd at p = 2.  Beyond, or where z does not
converge, the lane is rebuilt from all arms: another arm may then be the leader.  So the mode is
exact whichever arm leads, and only its speed depends on how rarely another arm is played.

**Reduced variance.**  Near arms, those with w_i >= eta^2 and so v_i <= eta^-2c, all rise by B = 1/2
in every round, and the leader is one of them as soon as eta^2 <= 1 / K.  Only differences matter:
seen from the near arms, these stand still and the far ones fall by B.  So there are two series,
near and far,

    v_i = (V_i + s) / q or (V_i + f) / q,     f = s + ``lead`` - c eta_0 B (t - t_0),

with t_0 the round of the last rebuild and ``lead`` a head start, so that f falls from one end of
its radius to the other.  W is the sum of both.  An arm is near while V_i + s or V_i + f is at most
``brink`` = q eta^-2c, which rises from round to round.  The highest near and the lowest far
arm tell when some arm crosses it; that arm then changes to the other series, before the draw.

Lanes enter and leave the mode one by one, by `membership`.  Lanes that are not in it are played by
the policy's own kernels, which see the lanes in it with estimates that no round reads.

Only tiles of repetitions have this mode.  `layout` has its rows, `series` the power sums,
`drawing` the table of the other arms, `rebuilding` what looks at all arms of a lane, and `rounds`
the round: templates, which `families` binds to p = 1 (`barrier`), p = 2 (`half`) and any p
(`powers`).  `exponential` is the second kind of weights.  An argument ``near_below`` is None for
importance weighting, else the largest L_i - x of a near arm.
"""
