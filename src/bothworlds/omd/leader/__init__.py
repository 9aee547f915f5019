"""The OMD step at alpha = 1/2 in leader mode: most rounds look at no arm but the leading one.

Once one arm b has nearly all the weight, it is nearly always the arm that is played.  Then all
other arms keep their distances from each other, and a Taylor series stands for them.

======== ==========================================================================
``v_i``  (eta / 2) (L_i - x), so that w_i = 1 / v_i^2; ``z`` is v_b
``W``    sum of w_i over the others, so that 1 / z^2 + W = 1
``o``    1 - W, the weight of the leader
``V_i``  v_i as it was when the lane was last rebuilt, up to a common shift
``q``    eta_0 / eta, with eta_0 the learning rate of that round
``s``    what the others have moved by since: v_i = (V_i + s) / q, with s = q z - ``base``
``c_n``  (-1)^n (n + 1) sum_i V_i^-(n+2), so that W = q^2 sum_n c_n s^n
======== ==========================================================================

A round finds z from the series, without a division: with e = 1 - o z^2 and a = z^3 W'(z) / 2,

    z += z e (1/2 + 3e/8) (1 + a + a^2),

a Newton step on z = o^(-1/2), repeated in the rare rounds in which it is not small enough.
The leader is first in the order of the draw: it is played if u < o, and its loss moves ``base``.
Otherwise the lane draws one of its other arms from a table; it moves its V and the c_n.

The series is used for |s| <= RADIUS min V, where what it leaves out is below
(ORDER + 2) RADIUS^(ORDER + 1) W = 1e-14 W.  Beyond, or where z does not converge, the lane is
rebuilt from all arms: another arm may then be the leader.  So the mode is exact whoever leads, and
only its speed depends on how rarely another arm is played.

**Reduced variance.**  Near arms, those with w_i >= eta^2 and so v_i <= 1 / eta, all rise by
B = 1/2 in every round, and the leader is one of them as soon as eta^2 <= 1 / K.  Only differences
matter: seen from the near arms, these stand still and the far ones fall by B.  So there are two
series, near and far,

    v_i = (V_i + s) / q or (V_i + f) / q,     f = s + ``lead`` - (eta_0 / 2) B (t - t_0),

with t_0 the round of the last rebuild and ``lead`` a head start, so that f falls from one end of
its radius to the other.  W is the sum of both.  An arm is near while V_i + s or V_i + f is at most
``brink`` = eta_0 / eta^2, which rises from round to round.  The highest near and the lowest far
arm tell when some arm crosses it; that arm then changes to the other series, before the draw.

Lanes enter and leave the mode one by one, by their own numbers and the round alone, so that a
repetition does not depend on its neighbours.  Lanes that are not in it are played by
`bothworlds.omd.half` or `bothworlds.omd.few`; these see the lanes in it with estimates of their
own, which nobody reads.  Among many arms `bothworlds.omd.many` plays them, one by one.

Only tiles of repetitions have this mode.  `layout` has its rows, `series` the power sums,
`drawing` the table of the other arms, `rebuilding` what looks at all arms of a lane, `rounds` the
round, and `changing` decides, by `costs`, who is in the mode.  An argument ``near_below`` is None
for importance weighting, else the largest L_i - x of a near arm.
"""
