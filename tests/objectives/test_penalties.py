"""Proximal steps minimise their objective, and are projections for constraints."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ovk.objectives import L1, L1L2, Frobenius, PSDCone, Trace

numbers = st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3))
matrices = arrays(np.float64, (4, 3), elements=numbers)
squares = arrays(np.float64, (3, 3), elements=numbers).map(lambda A: A + A.T)
steps = st.floats(0.01, 3.0)


def points_towards(P, Q):
    """Q, and points between P and Q that are close to P."""
    return [P + t * (Q - P) for t in (1.0, 0.1, 0.01)]


def objective(penalty, P, C, step):
    return 0.5 * ((P - C) ** 2).sum() + step * penalty.value(P)


@given(C=matrices, step=steps, weight=st.floats(0.0, 3.0))
def test_l1_step_fulfils_the_subgradient_condition(C, step, weight):
    P = L1(weight).prox(C, step)
    slope = C - P
    np.testing.assert_allclose(slope[P != 0], step * weight * np.sign(P[P != 0]), atol=1e-12)
    assert (np.abs(slope[P == 0]) <= step * weight + 1e-12).all()


@given(C=matrices, step=steps, weight=st.floats(0.0, 3.0))
def test_l1l2_step_fulfils_the_subgradient_condition(C, step, weight):
    P = L1L2(weight).prox(C, step)
    for p, slope in zip(P, C - P, strict=True):
        if p.any():
            np.testing.assert_allclose(slope, step * weight * p / np.linalg.norm(p), atol=1e-9)
        else:
            assert np.linalg.norm(slope) <= step * weight + 1e-9


@given(A=squares, Q=arrays(np.float64, (3, 3), elements=numbers))
def test_the_projection_on_the_cone_makes_an_obtuse_angle_with_it(A, Q):
    P = PSDCone().prox(A, 1.0)
    assert PSDCone().value(P) == 0.0
    assert np.vdot(A - P, Q @ Q.T - P) <= 1e-8


@pytest.mark.parametrize("penalty", [L1(0.7), L1L2(0.7)])
@given(C=matrices, D=matrices, step=steps)
@settings(max_examples=25)
def test_proximal_steps_do_not_spread_points(penalty, C, D, step):
    moved = np.linalg.norm(penalty.prox(C, step) - penalty.prox(D, step))
    assert moved <= np.linalg.norm(C - D) + 1e-12


@pytest.mark.parametrize("penalty", [L1(0.7), L1L2(0.7), PSDCone(), Trace(0.7), Frobenius(0.7)])
def test_a_step_leaves_its_argument_alone(penalty):
    C = np.array([[1.0, 0.2], [0.2, -3.0]])
    before = C.copy()
    penalty.prox(C, 0.5)
    np.testing.assert_array_equal(C, before)


def test_a_matrix_that_is_not_symmetric_lies_outside_the_cone():
    assert PSDCone().value(np.array([[1.0, 0.5], [0.0, 1.0]])) == np.inf


@pytest.mark.parametrize("penalty", [L1, L1L2])
@pytest.mark.parametrize("weight", [-1.0, np.nan, "much"])
def test_a_weight_must_be_a_number_from_zero(penalty, weight):
    with pytest.raises(ValueError, match="weight must be non-negative and finite"):
        penalty(weight).value(np.eye(2))


# --------------------------------------------------------------------------------------------------------- eigenvalues


@pytest.mark.parametrize("penalty", [Trace(0.7), Frobenius(0.7)])
@given(A=squares, Q=arrays(np.float64, (3, 3), elements=numbers), step=steps)
@settings(max_examples=50)
def test_spectral_steps_beat_every_other_point_of_the_cone(penalty, A, Q, step):
    P = penalty.prox(A, step)
    assert PSDCone().value(P) == 0.0
    # Far away nearly every point is worse than any other; near the minimum only the minimum is best.
    for other in (*points_towards(P, Q @ Q.T), 0.99 * P, 1.01 * P):
        assert objective(penalty, P, A, step) <= objective(penalty, other, A, step) + 1e-8


@pytest.mark.parametrize("penalty", [Trace(0.7), Frobenius(0.7)])
@given(R=arrays(np.float64, (3, 3), elements=numbers), Q=arrays(np.float64, (3, 3), elements=numbers))
@settings(max_examples=50)
def test_the_balance_beats_every_other_point_of_the_cone(penalty, R, Q):
    S, other = R @ R.T + 0.1 * np.eye(3), Q @ Q.T + 0.1 * np.eye(3)

    def price(T):
        return np.trace(np.linalg.solve(T, S)) + penalty.value(T)

    T = penalty.balance(S)
    for point in (*points_towards(T, other), 0.99 * T, 1.01 * T):
        assert price(T) <= price(point) * (1 + 1e-9)


@pytest.mark.parametrize("penalty", [Trace(0.7), Frobenius(0.7)])
def test_spectral_gradients_and_domain(penalty):
    T = np.array([[2.0, 0.5], [0.5, 1.0]])
    D = np.array([[0.3, -0.2], [-0.2, 0.1]])
    slope = (penalty.value(T + 1e-6 * D) - penalty.value(T - 1e-6 * D)) / 2e-6
    np.testing.assert_allclose(np.vdot(penalty.gradient(T), D), slope, rtol=1e-8)
    assert penalty.value(np.diag([1.0, -1.0])) == np.inf
    with pytest.raises(ValueError, match="weight must be positive and finite"):
        type(penalty)(0.0).value(T)
