"""Answers of `guarantee` for policies beyond the article: proved, argued, or an order only."""

import pytest

import bothworlds as bw


def answer(policy, **more):
    return bw.bounds.guarantee(policy, n_arms=4, horizon=100, **more)


def test_what_is_argued_is_said_to_be_argued():
    for policy in (bw.TsallisINFV(), bw.TsallisINFV(rate="residual")):
        found = answer(policy)
        assert (found.value, found.theorem) == (None, None)
        assert "argued and measured, not proved" in found.reason


def test_non_negative_losses_of_a_known_scale():
    found = answer(bw.HTINF(scale=3.0))
    assert found.value == pytest.approx(4 * 3 * 20 + 3)
    assert "not negative" in found.reason and "3^2" in found.reason
    assert "sum log T / gap" in answer(bw.HTINF(scale=3.0), gaps=[0, 1, 1, 1]).reason


def test_orders_have_a_theorem_and_no_value():
    for policy in (bw.HTINF(1.0, "both"), bw.HTINF(1.0, "both", 1.5), bw.AdaTINF(100)):
        found = answer(policy)
        assert found.value is None and found.theorem == "Huang, Dai and Huang 2022"
        assert "no constant" in found.reason
    assert "K^0.333 T^0.667" in answer(bw.HTINF(1.0, "both", 1.5)).reason
    assert "gap^-2 log T" in answer(bw.HTINF(1.0, "both", 1.5), gaps=[0, 1, 1, 1]).reason


def test_the_worlds_of_lbinfv():
    gaps = [0, 0.5, 0.5, 0.5]
    assert "variance_i / gap_i" in answer(bw.LBINFV(100), gaps=gaps).reason
    assert "corruption" in answer(bw.LBINFV(100), gaps=gaps, corruption=5.0).reason
    assert "min(L*, T - L*, Q)" in answer(bw.LBINFV(100)).reason
    assert "path length" in answer(bw.LBINFV(100, "gd")).reason
    assert answer(bw.LBINFV(100)).theorem == "Ito, Tsuchiya and Honda 2022"
    assert answer(bw.LBINFV(50)).theorem is None
