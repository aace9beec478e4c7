"""Models of parts, merged: what all rows together would have taught, in an order that does not depend on the clock."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from ovk import IOKR, PKAWV, OVKRidge, PKAWVClassifier
from ovk.app.tables import chunks
from ovk.base import check_targets
from ovk.evaluation import Evaluator, LastValue, RunningMean
from ovk.evaluation.scaling_and_drift import RunningMoments, Scaling, Standardised
from ovk.features import Fourier, Given, MergeTree, Nystrom, merge_all
from ovk.features.sums import OutputSums
from ovk.kernels import Gaussian
from ovk.operators import Dense, MixedEffect
from ovk.structured import Jaccard

RNG = np.random.default_rng(5)
X = RNG.standard_normal((180, 2))
Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1]), X[:, 0] * X[:, 1]]) + 0.1 * RNG.standard_normal((180, 3))
HOLES = np.where(RNG.uniform(size=Y.shape) < 0.3, np.nan, Y)
WEIGHTS = RNG.uniform(0.5, 2.0, 180)
POINTS = X[::9]
SEPARABLE = Gaussian(1.0) * MixedEffect(0.5)


def merged(model, other):
    return model.merge(other)


def through_files(models, directory):
    for i, model in enumerate(models):
        ovk.save(model, directory / f"{i}.ovk")
    return [ovk.load(directory / f"{i}.ovk") for i in range(len(models))]


def levels(items):
    """The slow twin of the tree: neighbours in pairs, level by level, an odd one goes up as it is."""
    items = list(items)
    while len(items) > 1:
        items = [f"({items[i]} {items[i + 1]})" if i + 1 < len(items) else items[i] for i in range(0, len(items), 2)]
    return items[0]


@given(st.integers(1, 70))
@settings(max_examples=30, deadline=None)
def test_the_tree_is_the_one_of_pairs_of_neighbours(n):
    tree = MergeTree(lambda a, b: f"({a} {b})")
    for i in range(n):
        tree.add(str(i))
        assert len(tree._held) <= np.log2(i + 1) + 1
    assert tree.result() == levels(map(str, range(n)))
    with pytest.raises(ValueError, match="at least one item, got none"):
        tree.result()


@pytest.mark.pairwise
@pytest.mark.parametrize("outputs", [Y, HOLES], ids=["complete", "holes"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize(
    ("kernel", "alpha", "intercept"),
    [
        (Gaussian(1.0) * MixedEffect(0.5), 0.1, True),
        (Gaussian(1.0) * MixedEffect(0.5), np.array([0.1, 1.0, 0.3]), False),
        (Gaussian(1.0) * MixedEffect(0.5) + Gaussian(3.0) * Dense(np.diag([1.0, 2.0, 0.5])), 0.1, True),
    ],
    ids=["separable", "an alpha each", "pairs"],
)
@pytest.mark.parametrize("parts", [2, 7])
def test_ridges_of_parts_are_the_ridge_of_all(kernel, alpha, intercept, weights, outputs, parts, tmp_path):
    def fitted(rows):
        w = None if weights is None else weights[rows]
        return OVKRidge(kernel, alpha, fit_intercept=intercept, landmarks=POINTS).fit(X[rows], outputs[rows], w)

    pieces = through_files([fitted(slice(i, None, parts)) for i in range(parts)], tmp_path)
    before = pieces[1].predict(X)
    model, whole = merge_all(pieces, merged), fitted(slice(None))
    assert_allclose(model.predict(X), whole.predict(X), rtol=0, atol=1e-10)
    assert_allclose(model.predict(X[:5], return_std=True)[1], whole.predict(X[:5], return_std=True)[1], atol=1e-10)
    if parts == 7:
        # 1 was merged into 0, and stays as it was.
        assert_array_equal(pieces[1].predict(X), before)


def test_the_part_of_a_ridge_that_gave_its_holes_is_left_as_it_was():
    complete, holes = (OVKRidge(Gaussian(1.0), landmarks=POINTS).fit(X, outputs) for outputs in (Y, HOLES))
    before = holes.landmarks_.sums.own_S.copy()
    complete.merge(holes).landmarks_.add(X, check_targets(HOLES, len(X), None, None, X))
    assert_array_equal(np.tril(holes.landmarks_.sums.own_S), np.tril(before))


@pytest.mark.parametrize("outputs", [Y, HOLES], ids=["complete", "holes"])
@pytest.mark.parametrize("alpha", [0.3, np.array([0.1, 1.0, 0.3])], ids=["alpha", "alphas"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("coupled", [SEPARABLE, SEPARABLE + Gaussian(3.0) * Dense(np.diag([1.0, 2.0, 0.5]))])
def test_loo_residuals_are_those_of_fits_without_the_row(coupled, intercept, alpha, outputs):
    x, y, w = X[:40], outputs[:40], WEIGHTS[:40]
    model = OVKRidge(coupled, alpha, fit_intercept=intercept, landmarks=POINTS).fit(x, y, w)
    found = model.landmarks_.left_out(x, y - model.predict(x), w, model.alpha_, intercept=intercept)
    for i in (0, 7, 23):
        rest = np.arange(40) != i
        without = OVKRidge(coupled, alpha, fit_intercept=intercept, landmarks=POINTS).fit(x[rest], y[rest], w[rest])
        assert_allclose(found[i], y[i] - without.predict(x[i : i + 1])[0], rtol=0, atol=1e-8)


def test_ridges_that_cannot_be_merged():
    one = OVKRidge(Gaussian(1.0), landmarks=POINTS).fit(X, Y)
    before = one.predict(X)
    for other, message in [
        (OVKRidge(Gaussian(1.0)).fit(X[:50], Y[:50]), "fitted with landmarks"),
        (OVKRidge(Gaussian(2.0), landmarks=POINTS).fit(X, Y), "same kernel"),
        (OVKRidge(Gaussian(1.0), landmarks=POINTS[1:]).fit(X, Y), "same landmarks"),
        (OVKRidge(Gaussian(1.0) * MixedEffect(0.5), landmarks=POINTS).fit(X, Y), "same kernel"),
        (OVKRidge(Gaussian(1.0), landmarks=POINTS).fit(X, Y[:, :2]), "same number of outputs, got 3 and 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            one.merge(other)
    assert_array_equal(one.predict(X), before)


SETS = [{"a", "b"} if x > 0.3 else ({"b"} if x > -0.5 else {"c"}) for x in X[:, 0]]


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("kernel", [Jaccard(), None], ids=["sets", "vectors"])
def test_iokr_of_parts_is_iokr_of_all(how, kernel, tmp_path):
    y = SETS if kernel is not None else Y
    sketch = [{"a", "b"}, {"b"}, {"c"}] if kernel is not None else None

    def learned(rows):
        model = IOKR(Gaussian(1.0), kernel, 0.1, landmarks=POINTS, output_landmarks=sketch)
        some = [y[i] for i in rows] if isinstance(y, list) else y[rows]
        return getattr(model, how)(X[rows], some)

    parts = through_files([learned(np.arange(i, 180, 3)) for i in range(3)], tmp_path)
    model, whole = merge_all(parts, merged), learned(np.arange(180))
    assert_allclose(model.weights(X), whole.weights(X), rtol=0, atol=1e-9)
    assert_allclose(model.score(X, y), whole.score(X, y), atol=1e-9)


def test_iokr_that_cannot_be_merged():
    one = IOKR(Gaussian(1.0), Jaccard(), landmarks=POINTS).fit(X, SETS)
    with pytest.raises(ValueError, match="same output_landmarks"):
        one.merge(IOKR(Gaussian(1.0), Jaccard(), landmarks=POINTS).fit(X[:9], [{"a"}, {"b"}, {"d"}] * 3))
    exact = IOKR(Gaussian(1.0), Jaccard()).fit(X, SETS)
    with pytest.raises(ValueError, match="both have landmarks"):
        exact.merge(exact)


@pytest.mark.parametrize("outputs", [Y, HOLES], ids=["complete", "holes"])
@pytest.mark.parametrize("features", [Nystrom(Given(POINTS)), Fourier(20)], ids=["Nystrom", "Fourier"])
def test_forecasters_of_parts_are_the_forecaster_of_all(features, outputs, tmp_path):
    def learned(rows):
        return PKAWV(SEPARABLE, 0.3, features, random_state=2).fit(X[rows], outputs[rows])

    parts = through_files([learned(slice(i, None, 5)) for i in range(5)], tmp_path)
    model, whole = merge_all(parts, merged), learned(slice(None))
    assert_allclose(model.predict(X), whole.predict(X), rtol=0, atol=1e-9)
    assert model.t_ == whole.t_
    forgets = PKAWV(SEPARABLE, 0.3, features, discount=0.9, random_state=2).fit(X, Y)
    with pytest.raises(ValueError, match="forget"):
        forgets.merge(forgets)


def test_classifiers_of_parts_are_the_classifier_of_all(tmp_path):
    y = np.where(X[:, 0] > 0, "up", "down")

    def learned(rows):
        return PKAWVClassifier(Gaussian(1.0), 0.1, Nystrom(Given(POINTS))).fit(X[rows], y[rows])

    parts = through_files([learned(slice(0, 60)), learned(slice(60, 110)), learned(slice(110, None))], tmp_path)
    model, whole = merge_all(parts, merged), learned(slice(None))
    assert_allclose(model.decision_function(X), whole.decision_function(X), rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="same classes"):
        model.merge(PKAWVClassifier(Gaussian(1.0)).fit(X, np.where(X[:, 0] > 0, "a", "b")))


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_moments_of_parts_are_the_moments_of_all(sizes, seed):
    rng = np.random.default_rng(seed)
    A = 1e3 + rng.standard_normal((sum(sizes), 2))
    A[rng.uniform(size=A.shape) < 0.2] = np.nan
    parts = []
    for piece in np.split(A, np.cumsum(sizes)[:-1]):
        parts.append(RunningMoments(2))
        parts[-1].before_then_add(piece)
    whole = RunningMoments(2)
    whole.before_then_add(A)

    def both(one, two):
        one.merge(two)
        return one

    found = merge_all(parts, both)
    assert_array_equal(found.count, whole.count)
    assert_allclose(found.mean, whole.mean, rtol=1e-12)
    assert_allclose(found.squares, whole.squares, rtol=1e-9, atol=1e-9)


def evaluated(rows, scaling):
    model = PKAWV(Gaussian(1.0), 0.3, Fourier(10), random_state=3)
    evaluator = None
    for chunk in chunks(X[rows], Y[rows], chunk_size=20):
        evaluator = evaluator or Evaluator.start(model, [LastValue(), RunningMean()], scaling, chunk)
        evaluator.predict_then_learn(chunk, tested=True)
    return evaluator


@pytest.mark.parametrize("scaling", [Scaling, lambda: Standardised(running=True)], ids=["as they are", "running"])
def test_running_errors_of_two_streams_add_up(scaling, tmp_path):
    one, two = (evaluated(rows, scaling()) for rows in (slice(0, 80), slice(80, 180)))
    apart = [one.result(), two.result()]
    one, two = through_files([one, two], tmp_path)
    one.merge(two)
    found = one.result()
    assert found.n_rows == 180
    assert found.counts[-1].tolist() == [180, 180, 180]
    for pick in (lambda r: r.model, lambda r: r.baselines[0], lambda r: r.baselines[1]):
        expected = sum(pick(r).mse * r.n_rows for r in apart) / 180
        assert_allclose(pick(found).mse, expected, rtol=1e-12)
    assert one.model.t_ == 180
    # What comes then is counted from there.
    for chunk in chunks(X[:20], Y[:20]):
        one.predict_then_learn(chunk, tested=True)
    assert one.result().rows[-1] == 200


def test_streams_that_cannot_be_merged():
    one, two = (evaluated(rows, Standardised(running=False)) for rows in (slice(0, 80), slice(80, 180)))
    one.scaling.scale_warm_up(X[:5], Y[:5])
    two.scaling.scale_warm_up(X[5:9], Y[5:9])
    before = one.n_rows
    with pytest.raises(ValueError, match="scaled by different warm-ups"):
        one.merge(two)
    other = evaluated(slice(0, 80), Scaling())
    other.outputs = ("a", "b", "c")
    with pytest.raises(ValueError, match="different names of inputs and outputs"):
        one.merge(other)
    assert one.n_rows == before


def test_sums_of_pairs_share_nothing_with_their_parts():
    phi = RNG.standard_normal((4, 3))
    part = OutputSums.zeros(3, 2)
    part.add(phi, np.array([[1.0, np.nan]] * 4))
    total = part + OutputSums.zeros(3, 2)
    S, B = part.S().copy(), part.B().copy()
    total.add(phi, np.array([[np.nan, 2.0]] * 4))
    total.add(phi, np.array([[1.0, np.nan]] * 4))
    assert_array_equal(part.S(), S)
    assert_array_equal(part.B(), B)
    assert_allclose(total.B(), np.column_stack([2.0 * phi.sum(axis=0), 2.0 * phi.sum(axis=0)]))


MERGEABLE = {
    "forecaster": lambda rows: PKAWV(SEPARABLE, 0.3, Fourier(10), random_state=2).fit(X[rows], HOLES[rows]),
    "forecaster with landmarks": lambda rows: PKAWV(SEPARABLE, 0.3, Nystrom(Given(POINTS))).fit(X[rows], Y[rows]),
    "classifier": lambda rows: PKAWVClassifier(Gaussian(1.0), 0.1, Nystrom(Given(POINTS))).fit(X[rows], X[rows, 0] > 0),
    "ridge": lambda rows: OVKRidge(SEPARABLE, 0.1, landmarks=POINTS).fit(X[rows], HOLES[rows]),
    "structured outputs": lambda rows: IOKR(
        Gaussian(1.0), Jaccard(), 0.1, landmarks=POINTS, output_landmarks=[{"a", "b"}, {"b"}, {"c"}]
    ).partial_fit(X[rows], [SETS[i] for i in range(180)[rows]]),
}


@pytest.mark.parametrize("name", MERGEABLE)
def test_what_was_merged_stays_as_it_was(name, tmp_path):
    """Also when the whole learns on, takes in another part, or the part is taken in twice."""
    make = MERGEABLE[name]
    one, two, three = make(slice(0, 60)), make(slice(60, 120)), make(slice(120, 180))

    def written(model):
        ovk.save(model, tmp_path / "model.ovk")
        return (tmp_path / "model.ovk").read_bytes()

    states = [written(two), written(three)]
    one.merge(two)
    one.merge(three)
    if hasattr(one, "partial_fit"):
        y = {"classifier": X[:9, 0] > 0, "structured outputs": SETS[:9]}.get(name, Y[:9])
        one.partial_fit(X[:9], y)
    assert [written(two), written(three)] == states
    two.merge(three)
    assert written(three) == states[1]
