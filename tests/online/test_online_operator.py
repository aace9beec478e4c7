"""Online operator learning: coordinates, chunks, learners, missing values, other grids and errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.utils.estimator_checks import parametrize_with_checks

import ovk
from ovk import OLOK, PKAWV, OnlineMovKL, OnlineOperator
from ovk.curves import Components, Grid, PrincipalComponents, ProductGrid
from ovk.features import Fourier
from ovk.kernels import Gaussian, Linear
from ovk.online.online_operator import coordinates_with_gaps

RNG = np.random.default_rng(0)
UNEVEN = Grid(np.linspace(0, 1, 21) ** 2)
LEARNERS = {
    "olok": lambda: OLOK(Linear() + Gaussian(1.0), alpha=0.0, schedule=0.5),
    "pkawv": lambda: PKAWV(Gaussian(1.5), 1e-2, Fourier(40), random_state=0),
    "movkl": lambda: OnlineMovKL([Linear(), Gaussian(1.0)]),
    "default": lambda: None,
}


def smooth(n, t, seed=0):
    """Sums of four waves, and their images under a nonlinear operator."""
    a = np.random.default_rng(seed).standard_normal((n, 4)) / np.arange(1, 5)
    waves = np.stack([np.cos(np.pi * k * t) for k in range(1, 5)])
    return a @ waves, (a * np.exp(-0.3 * np.arange(1, 5))) @ waves + 0.3 * (a[:, :1] ** 2 - 1) * np.sin(np.pi * t)


X, Y = smooth(260, UNEVEN.checked())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([OnlineOperator(OLOK(Gaussian(1.0), alpha=1e-3, schedule=0.5), warm_up=10)])
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", LEARNERS)
def test_errors_fall_and_rows_equal_chunks(name):
    whole, parts = (OnlineOperator(LEARNERS[name](), input_grid=UNEVEN, output_grid=UNEVEN) for _ in range(2))
    found = whole.predict_then_learn(X, Y)
    pieces = [parts.predict_then_learn(X[a : a + 37], Y[a : a + 37]) for a in range(0, len(X), 37)]
    assert_allclose(np.concatenate(pieces), found, atol=1e-9)
    errors = np.sum(UNEVEN.weights() * (found - Y) ** 2, axis=1)
    assert errors[200:].mean() < 0.2 * errors[:20].mean()
    assert_allclose(parts.predict(X[:5]), whole.predict(X[:5]), atol=1e-9)


def test_coordinates_written_out():
    """After the warm-up the learner receives the coordinates computed here."""
    model = OnlineOperator(LEARNERS["olok"](), input_grid=UNEVEN, output_grid=UNEVEN, warm_up=50)
    found = model.predict_then_learn(X, Y)
    roots = np.sqrt(UNEVEN.weights())
    sides = []
    for A in (X, Y):
        centred = (A - A[:50].mean(axis=0)) * roots
        _, s, V = np.linalg.svd(centred[:50], full_matrices=False)
        rank = int((s > 1e-6 * s[0]).sum())
        size = s[:rank] / np.sqrt(50)
        sides.append((centred @ V[:rank].T / np.linalg.norm(size), V[:rank], np.linalg.norm(size)))
    (Z, _, _), (T, V, size) = sides
    by_hand = LEARNERS["olok"]().predict_then_learn(Z, T) * size @ V / roots + Y[:50].mean(axis=0)
    assert_allclose(found[50:], by_hand[50:], atol=1e-9)


def test_loss_is_the_integral_whatever_the_grid():
    """The same functions on a finer grid give the same operator."""
    fine = Grid(np.linspace(0, 1, 401))
    A, B = smooth(260, fine.checked())
    coarse = Grid(np.linspace(0, 1, 101))
    models = [OnlineOperator(LEARNERS["olok"](), input_grid=g, output_grid=g, decay=0.5) for g in (fine, coarse)]
    models[0].fit(A, B)
    models[1].fit(A[:, ::4], B[:, ::4])
    new, _ = smooth(10, fine.checked(), seed=1)
    there = models[1].predict(new[:, ::4], grid=fine)
    assert np.abs(there - models[0].predict(new)).max() < 1e-3 * np.abs(B).max()


def test_fields_of_two_components_to_a_curve():
    plane = ProductGrid([Components(2), Grid.regular(6), Grid.regular(5)])
    a = RNG.standard_normal((300, 3))
    patterns = RNG.standard_normal((3, len(plane)))
    t = np.linspace(0, 1, 15)
    target = np.sin(a[:, :1] + 3 * t) + a[:, 1:2] * t
    model = OnlineOperator(input_grid=plane, output_grid=Grid(t)).partial_fit(a[:280] @ patterns, target[:280])
    assert np.abs(model.predict(a[280:] @ patterns) - target[280:]).mean() < 0.1
    assert model.inputs_.vectors.shape == (60, 3)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.7))
def test_gaps_of_functions_inside_the_basis_are_filled(seed, share):
    rng = np.random.default_rng(seed)
    basis = PrincipalComponents.of(Y, UNEVEN)
    some = Y[rng.choice(len(Y), 8)]
    holes = np.where(rng.random(some.shape) < share, np.nan, some)
    # As many points as coordinates determine a function.
    known = (~np.isnan(holes)).sum(axis=1) >= 2 * len(basis.scales)
    found = coordinates_with_gaps(basis, holes)
    assert np.abs((found - basis.coordinates(some))[known]).max(initial=0.0) < 1e-2
    nothing = coordinates_with_gaps(basis, np.full((1, len(UNEVEN)), np.nan))
    assert np.isnan(nothing).all()


def test_a_stream_with_gaps_learns_nearly_as_much():
    holes = np.where(RNG.random(Y.shape) < 0.3, np.nan, Y)
    models = [OnlineOperator(LEARNERS["default"](), output_grid=UNEVEN).fit(X[:240], A[:240]) for A in (Y, holes)]
    full, gaps = (np.mean((model.predict(X[240:]) - Y[240:]) ** 2) for model in models)
    assert gaps < 4 * full + 1e-4 * np.mean(Y**2)


def test_saved_in_the_middle_of_the_warm_up_and_after(tmp_path):
    for stop in (30, 230):
        model = OnlineOperator(LEARNERS["olok"](), input_grid=UNEVEN).partial_fit(X[:stop], Y[:stop])
        ovk.save(model, tmp_path / "model.ovk")
        loaded = ovk.load(tmp_path / "model.ovk")
        assert_allclose(loaded.predict_then_learn(X[stop:], Y[stop:]), model.predict_then_learn(X[stop:], Y[stop:]))


def test_skipped_rows_are_counted_and_leave_no_trace():
    bad = X.copy()
    bad[[3, 250]] = np.inf
    model = OnlineOperator(LEARNERS["olok"](), on_invalid="skip")
    found = model.predict_then_learn(bad, Y)
    assert model.n_skipped_ == 2
    assert np.isnan(found[[3, 250]]).all()
    kept = np.isfinite(bad).all(axis=1)
    assert_allclose(found[kept], OnlineOperator(LEARNERS["olok"]()).predict_then_learn(X[kept], Y[kept]), atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learner": Gaussian()}, "learner must be an online learner of ovk"),
        ({"warm_up": 0}, "warm_up must be at least 1"),
        ({"decay": -1.0}, "decay"),
        ({"tol": 2.0}, "tol"),
        ({"max_components": 0}, "max_components"),
        ({"on_invalid": "drop"}, "on_invalid must be 'raise' or 'skip'"),
        ({"input_grid": [0.0, 1.0]}, "input_grid must have one point for each of the 21 columns of X, got 2"),
        ({"output_grid": [0.0, 1.0]}, "output_grid must have one point for each of the 21 columns of y, got 2"),
    ],
)
def test_refusals_leave_the_model_new(options, message):
    model = OnlineOperator(**options)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, Y)
    assert not hasattr(model, "learner_")
