"""KAWV and PKAWV on streams: rows equal chunks, copies agree, predictions do not change the state, learners merge."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import ovk
from online.streams import BLOCKS, KERNELS, blocks_of, in_chunks, stream
from ovk import KAWV, PKAWV, OVKRidge
from ovk.features import ALD, KORS, Fourier, Given, Nystrom, OperatorFourier, Taylor, Uniform
from ovk.kernels import Gaussian
from ovk.operators import Dense, Identity, MixedEffect

N = 150  # several blocks of each size in BLOCKS

POINTS = stream(30, seed=5)[0]

FEATURES = {
    "given": Nystrom(Given(POINTS)),
    "first": Nystrom(Uniform(size=20)),
    "rate": Nystrom(Uniform(rate=0.2), budget=25),
    "exact": Nystrom(Uniform(rate=0.1), past="exact"),
    "kors": Nystrom(KORS(0.3), budget=30),
    "kors exact": Nystrom(KORS(1.0), past="exact", budget=20),
    "ald": Nystrom(ALD(0.3)),
    "taylor": Taylor(2),
    "fourier": Fourier(10),
    "operator": OperatorFourier(8),
}
SCALAR_ONLY = ("taylor", "fourier")

names = st.sampled_from


@settings(max_examples=14, deadline=None, derandomize=True)
@given(
    names(["separable", "commuting sum", "sum", "diagonal", "curl-free", "transformable"]),
    names(list(FEATURES)),
    names([{}, {"discount": 0.98}, {"window": 50}]),
    names(["awv", "ridge"]),
    names([0.0, 0.3]),
    st.lists(st.integers(1, N - 1), max_size=6),
    st.integers(0, 99),
    st.sampled_from((*BLOCKS, None)),
)
def test_chunks(kernel, features, forget, forecaster, missing, cuts, seed, size):
    X, Y = stream(N, seed=seed, missing=missing)
    K = KERNELS["separable"] if features in SCALAR_ONLY else KERNELS[kernel]
    if features == "operator" and kernel == "commuting sum":
        # Operator Fourier features are for stationary kernels: this one has a linear term.
        K = KERNELS["curl-free"]
    if "exact" in features and "window" in forget:
        forget = {}
    model = PKAWV(K, 0.3, FEATURES[features], forecaster=forecaster, random_state=1, **forget)
    whole, parts = clone(model), clone(model)
    with blocks_of(size):
        Z = whole.predict_then_learn(X, Y)
        assert np.isfinite(Z).all()
        assert_allclose(in_chunks(parts, X, Y, cuts), Z, rtol=0, atol=1e-8)
    assert_allclose(parts.predict(X[:9]), whole.predict(X[:9]), rtol=0, atol=1e-8)
    assert_allclose(parts.cumulative_loss_, whole.cumulative_loss_, rtol=1e-8)
    assert parts.t_ == whole.t_


@settings(max_examples=7, deadline=None, derandomize=True)
@given(
    names(list(KERNELS)),
    names(["awv", "ridge"]),
    names([0.0, 0.3]),
    st.lists(st.integers(1, 99), max_size=6),
    st.integers(0, 99),
    st.sampled_from(BLOCKS),
)
def test_chunks_of_the_exact_forecaster(kernel, forecaster, missing, cuts, seed, size):
    X, Y = stream(100, seed=seed, missing=missing)
    model = KAWV(KERNELS[kernel], 0.3, forecaster=forecaster)
    whole, parts = clone(model), clone(model)
    with blocks_of(size):
        Z = whole.predict_then_learn(X, Y)
        assert_allclose(in_chunks(parts, X, Y, cuts), Z, rtol=0, atol=1e-10)
    assert_allclose(parts.predict(X[:9]), whole.predict(X[:9]), rtol=0, atol=1e-10)


@pytest.mark.pairwise
@pytest.mark.parametrize("size", [1, 32, None])
@pytest.mark.parametrize("features", ["first", "kors", "exact", "taylor"])
def test_one_row_at_a_time(features, size):
    X, Y = stream(N, missing=0.1)
    model = PKAWV(KERNELS["separable"], 0.3, FEATURES[features], random_state=1)
    whole, rows = clone(model), clone(model)
    with blocks_of(size):
        Z = whole.predict_then_learn(X, Y)
        assert_allclose(in_chunks(rows, X, Y, range(1, N)), Z, rtol=0, atol=1e-8)
        assert_array_equal(clone(model).fit(X, Y).predict(X), whole.predict(X))


@pytest.mark.parametrize("params", [{}, {"discount": 0.98}, {"window": 100}], ids=str)
def test_block_sizes_make_no_difference(params):
    X, Y = stream(700, missing=0.02)
    model = PKAWV(KERNELS["separable"], 0.3, Nystrom(Given(POINTS)), **params)
    Z = clone(model).predict_then_learn(X, Y)
    for size in BLOCKS:
        with blocks_of(size):
            assert_allclose(clone(model).predict_then_learn(X, Y), Z, rtol=0, atol=1e-8)


def test_block_sizes_make_no_difference_to_the_exact_forecaster():
    X, Y = stream(300)
    model = KAWV(KERNELS["separable"], 0.3)
    Z = clone(model).predict_then_learn(X, Y)
    for size in BLOCKS:
        with blocks_of(size):
            assert_allclose(clone(model).predict_then_learn(X, Y), Z, rtol=0, atol=1e-10)


# Known answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["exact", "projected"])
@pytest.mark.parametrize("kernel", ["separable", "sum", "curl-free"])
def test_ridge_is_the_batch_solution_on_the_rows_before(kernel, learner):
    X, Y = stream(40, missing=0.2)
    Y[:2] = 0.5
    K = KERNELS[kernel]
    model = KAWV(K, 0.3, forecaster="ridge")
    if learner == "projected":
        model = PKAWV(K, 0.3, Nystrom(Given(X)), forecaster="ridge")
    Z = model.predict_then_learn(X, Y)
    for t in (2, 17, 39):
        batch = OVKRidge(K, 0.3, fit_intercept=False).fit(X[:t], Y[:t])
        assert_allclose(Z[t], batch.predict(X[t : t + 1])[0], rtol=0, atol=1e-7)
    batch = OVKRidge(K, 0.3, fit_intercept=False).fit(X, Y)
    new = stream(9, seed=1)[0]
    mean, cov = model.predict(new, return_cov=True)
    expected, expected_cov = batch.predict(new, return_cov=True, of="posterior")
    assert_allclose(mean, expected, rtol=0, atol=1e-6)
    assert_allclose(cov, expected_cov, rtol=0, atol=1e-6)
    assert_allclose(model.predict(new, return_std=True)[1] ** 2, np.einsum("nqq->nq", cov), rtol=0, atol=1e-9)
    if learner == "exact":
        assert_allclose(model.expansion_(new), expected, rtol=0, atol=1e-8)


def test_standard_deviation_beyond_the_dictionary_is_that_of_batch_landmarks():
    X, Y = stream(60)
    K = KERNELS["separable"]
    model = PKAWV(K, 0.3, Nystrom(Given(POINTS)), forecaster="ridge").fit(X, Y)
    batch = OVKRidge(K, 0.3, fit_intercept=False, landmarks=POINTS).fit(X, Y)
    for got, expected in zip(
        model.predict(X, return_std=True), batch.predict(X, return_std=True, of="posterior"), strict=True
    ):
        assert_allclose(got, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kernel", ["separable", "sum"])
def test_awv_shrinks_ridge_by_one_plus_leverage(kernel):
    X, Y = stream(50)
    K = KERNELS[kernel]
    awv, ridge = KAWV(K, 0.3), KAWV(K, 0.3, forecaster="ridge")
    for t in range(0, 50, 7):
        part = slice(t, t + 7)
        mean, cov = ridge.predict(X[part], return_cov=True) if t else (np.zeros((7, 3)), K.diagonal_blocks(X[part]))
        shrunk = np.linalg.solve(np.eye(3) + cov / 0.3, mean[:, :, None])[:, :, 0]
        if t:
            assert_allclose(awv.predict(X[part]), shrunk, rtol=0, atol=1e-10)
        awv.partial_fit(X[part], Y[part])
        ridge.partial_fit(X[part], Y[part])


@pytest.mark.parametrize("past", ["projected", "exact"])
@pytest.mark.parametrize("forecaster", ["awv", "ridge"])
def test_a_full_dictionary_is_the_exact_forecaster(forecaster, past):
    X, Y = stream(60, missing=0.1)
    K = Gaussian(0.5) * MixedEffect(0.5, 3)
    exact = KAWV(K, 0.3, forecaster=forecaster).predict_then_learn(X, Y)
    for plan in (Nystrom(Uniform(rate=1.0), past), Nystrom(Given(X))):
        assert_allclose(PKAWV(K, 0.3, plan, forecaster=forecaster).predict_then_learn(X, Y), exact, rtol=0, atol=1e-8)


def test_features_known_beforehand():
    X, Y = stream(200)
    K = KERNELS["separable"]
    known = Given.chosen(K, X, KORS(0.1), random_state=0)
    along = PKAWV(K, 0.3, Nystrom(KORS(0.1)), random_state=0).fit(X, Y)
    assert_array_equal(known.points, along.support_)
    before = PKAWV(K, 0.3, Nystrom(known)).fit(X, Y)
    assert before.cumulative_loss_ < 1.05 * along.cumulative_loss_


# Merging -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(
    "model",
    [
        PKAWV(KERNELS["separable"], 0.3, Nystrom(Given(POINTS))),
        PKAWV(KERNELS["curl-free"], 0.3, Nystrom(Given(POINTS))),
        PKAWV(Gaussian(1.0) * Identity(3), 0.3, Nystrom(Given(POINTS), past="exact")),
        PKAWV(KERNELS["separable"], 0.3, Fourier(10), random_state=3),
    ],
    ids=["separable", "curl-free", "diagonal", "fourier"],
)
def test_merging_two_halves_is_one_pass(model, missing):
    X, Y = stream(170, missing=missing)
    Y[:40] = stream(170)[1][:40]
    whole, one, two = (clone(model).fit(*rows) for rows in ((X, Y), (X[:40], Y[:40]), (X[40:], Y[40:])))
    before = two.predict(X)
    assert one.merge(two) is one
    assert_array_equal(two.predict(X), before)
    assert_allclose(one.predict(X), whole.predict(X), rtol=0, atol=1e-9)
    assert one.t_ == whole.t_
    more = stream(30, seed=8)
    assert_allclose(one.predict_then_learn(*more), whole.predict_then_learn(*more), rtol=0, atol=1e-9)


def test_what_cannot_be_merged():
    X, Y = stream(60)
    K = KERNELS["separable"]
    fixed = PKAWV(K, 0.3, Nystrom(Given(POINTS))).fit(X, Y)
    for other, message in [
        (PKAWV(K, 0.3, Nystrom(Given(X[:10]))), "same kernel and features"),
        (PKAWV(K, 0.4, Nystrom(Given(POINTS))), "same alpha"),
        (PKAWV(K, 0.3, Nystrom(Given(POINTS)), forecaster="ridge"), "same forecaster"),
        (PKAWV(KERNELS["curl-free"], 0.3, Nystrom(Given(POINTS))), "same kernel and features"),
    ]:
        with pytest.raises(ValueError, match=message):
            fixed.merge(other.fit(X, Y))
    forgetful = PKAWV(K, 0.3, Nystrom(Given(POINTS)), discount=0.9).fit(X, Y)
    with pytest.raises(ValueError, match="learners that forget"):
        forgetful.merge(forgetful)


# State ---------------------------------------------------------------------------------------------------------------


def saved(model, path):
    ovk.save(model, path / "model.ovk")
    return ovk.load(path / "model.ovk")


HOWS = {
    "save": saved,
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, path: copy.deepcopy(model),
}

LEARNERS = {
    "exact": KAWV(KERNELS["separable"], 0.3),
    "exact sum": KAWV(KERNELS["sum"], 0.3),
    "kors": PKAWV(KERNELS["separable"], 0.3, FEATURES["kors"], random_state=1),
    "ald": PKAWV(KERNELS["separable"], 0.3, FEATURES["ald"]),
    "rate": PKAWV(KERNELS["curl-free"], 0.3, FEATURES["rate"], random_state=1),
    "past": PKAWV(KERNELS["separable"], 0.3, FEATURES["exact"], random_state=1),
    "discount": PKAWV(KERNELS["separable"], 0.3, FEATURES["first"], discount=0.99),
    "window": PKAWV(KERNELS["separable"], 0.3, FEATURES["first"], window=40),
    "diagonal": PKAWV(Gaussian(1.0) * Dense(np.diag([1.0, 0.0, 2.0])), 0.3, FEATURES["first"]),
    "fourier": PKAWV(KERNELS["separable"], 0.3, FEATURES["fourier"], random_state=1),
    "operator": PKAWV(KERNELS["curl-free"], 0.3, FEATURES["operator"], random_state=1),
    "taylor": PKAWV(KERNELS["separable"], 0.3, FEATURES["taylor"]),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("size", [7, None])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_resume_after_a_copy(learner, how, size, tmp_path):
    X, Y = stream(2 * 130, missing=0.1)
    model = clone(LEARNERS[learner])
    with blocks_of(size):
        model.predict_then_learn(X[:130], Y[:130])
        other = HOWS[how](model, tmp_path)
        assert_array_equal(other.predict(X), model.predict(X))
        for rows in (slice(130, 160), slice(160, 260)):
            assert_array_equal(other.predict_then_learn(X[rows], Y[rows]), model.predict_then_learn(X[rows], Y[rows]))
    assert_array_equal(other.predict(X), model.predict(X))
    assert other.cumulative_loss_ == model.cumulative_loss_


def test_a_file_holds_what_is_in_use(tmp_path):
    X, Y = stream(300)
    few, many = (KAWV(KERNELS["separable"], 0.3).fit(X[:n], Y[:n]) for n in (3, 300))
    few_file, many_file = tmp_path / "few.ovk", tmp_path / "many.ovk"
    ovk.save(few, few_file)
    ovk.save(many, many_file)
    # For each of two eigenvalues, 300 rows are a full panel of 256 and 44 rows of the next.
    assert few_file.stat().st_size < 50_000
    assert many_file.stat().st_size < 8 * 2 * (256**2 + 44 * 300) + 100_000
    loaded = ovk.load(many_file)
    assert_array_equal(loaded.predict_then_learn(X, Y), many.predict_then_learn(X, Y))
    assert_array_equal(loaded.predict(X), many.predict(X))


def state(model):
    return pickle.dumps({name: value for name, value in vars(model).items() if name != "_memo"})


@pytest.mark.parametrize("learner", LEARNERS)
def test_predict_changes_nothing(learner):
    X, Y = stream(140)
    model = clone(LEARNERS[learner]).fit(X, Y)
    before = state(model)
    first = model.predict(X)
    model.predict(X, return_std=True)
    assert_array_equal(model.predict(X), first)
    assert_allclose(np.concatenate([model.predict(x[None]) for x in X[:10]]), first[:10], rtol=0, atol=1e-9)
    assert state(model) == before


@pytest.mark.parametrize("learner", LEARNERS)
def test_predictions_do_not_depend_on_the_output_of_the_row(learner):
    X, Y = stream(140)
    other = Y.copy()
    other[100:] = -7e10
    model = LEARNERS[learner]
    Z, W = clone(model).predict_then_learn(X, Y), clone(model).predict_then_learn(X, other)
    assert_array_equal(Z[:101], W[:101])
    assert not np.allclose(Z[101:], W[101:])
