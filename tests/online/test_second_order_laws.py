"""Regret bounds, extreme numbers and errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import reference
from online.streams import KERNELS, in_chunks, stream
from ovk import KAWV, PKAWV, OVKRidge, PKAWVClassifier, progressive
from ovk.features import ALD, KORS, Fourier, Given, Nystrom, Taylor, Uniform
from ovk.kernels import Gaussian, Matern
from ovk.operators import MixedEffect
from ovk.solvers.cholesky import solve_lower, whitened_rows
from reproduce.data import DatasetNotFound, load_parkinsons

# Regret --------------------------------------------------------------------------------------------------------------


def against(model, X, sequence, seed=0):
    """Labels in [-1, 1] and the predictions made before them."""
    rng = np.random.default_rng(seed)
    if sequence != "adversarial":
        y = np.sin(X[:, 0]) if sequence == "smooth" else rng.choice([-1.0, 1.0], len(X))
        return y, model.predict_then_learn(X, y)
    y, Z = np.empty(len(X)), np.empty(len(X))
    for t in range(len(X)):
        # A row without a label is predicted and has no other effect.
        Z[t] = model.predict_then_learn(X[t : t + 1], np.array([np.nan]))[0]
        y[t] = -1.0 if Z[t] > 0 else 1.0
        model.partial_fit(X[t : t + 1], y[t : t + 1])
    return y, Z


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("sequence", ["random", "smooth", "adversarial"])
def test_regret_of_the_exact_forecaster(sequence, alpha):
    # sum (y - z)^2 <= min_f sum (y - f)^2 + alpha |f|^2 + B^2 sum_k log(1 + lambda_k / alpha), B = max |y|.
    X = stream(80)[0]
    y, Z = against(KAWV(Gaussian(1.0), alpha), X, sequence)
    K = Gaussian(1.0)(X)
    best = alpha * y @ np.linalg.solve(K + alpha * np.eye(80), y)
    bound = np.log1p(np.maximum(np.linalg.eigvalsh(K), 0.0) / alpha).sum()
    assert ((y - Z) ** 2).sum() <= best + bound
    # Without the row's own input in the penalty there is no such bound: an adversary beats ridge regression.
    assert np.abs(Z).max() <= 3.0


@pytest.mark.parametrize("sequence", ["random", "smooth", "adversarial"])
def test_regret_of_the_projected_forecaster(sequence):
    # With features frozen at each row's own dictionary, G = <P_t k_t, P_s k_s>, the forecaster is the exact one for the
    # gram G: regret at most sum log(1 + lambda_k(G) / alpha) against functions of G. Against those of K,
    # alpha y'((G + alpha)^-1 - (K + alpha)^-1) y <= n |K - G| / alpha more.
    n, alpha, mu = 80, 0.5, 0.05
    X = stream(n)[0]
    draws = np.random.default_rng(1).random(n)
    K = Gaussian(2.0)(X)
    kept = reference.kors(K, mu, 1.0, 0.5, draws)
    model = PKAWV(Gaussian(2.0), alpha, Nystrom(KORS(mu)), random_state=1)
    if sequence == "adversarial":
        # Rows without a label also use random numbers, so the same points are given beforehand and added in order.
        model = PKAWV(Gaussian(2.0), alpha, Nystrom(Given(X[kept])))
        frozen = [kept] * n
    else:
        frozen = [[i for i in kept if i <= t] for t in range(n)]
    y, Z = against(model, X, sequence)
    assert_array_equal(model.support_, X[kept])
    values, vectors = np.linalg.eigh(K)
    psi = vectors * np.sqrt(np.maximum(values, 0.0))
    rows = []
    for t, members in enumerate(frozen):
        _, sizes, right = np.linalg.svd(psi[members], full_matrices=False)
        basis = right[sizes > 1e-7]
        rows.append(basis.T @ (basis @ psi[t]))
    G = np.array(rows) @ np.array(rows).T
    best = alpha * y @ np.linalg.solve(K + alpha * np.eye(n), y)
    bound = np.linalg.slogdet(np.eye(n) + G / alpha)[1] + n * np.linalg.norm(K - G, 2) / alpha
    assert ((y - Z) ** 2).sum() <= best + bound


def test_size_of_a_kors_dictionary():
    # E m = sum of p_t <= beta (1 + eps) sum of online leverage scores, which is at most log det(I + K / mu), itself at
    # most d_eff(mu) (1 + log(1 + |K| / mu)).
    X = stream(600)[0]
    K = Gaussian(2.0)(X)
    values = np.maximum(np.linalg.eigvalsh(K), 0.0)
    for mu in (1.0, 0.1):
        effective = (values / (values + mu)).sum()
        points = Given.chosen(Gaussian(2.0), X, KORS(mu), random_state=0).points
        assert len(points) <= 3 * 1.5 * effective * (1 + np.log1p(values[-1] / mu))
        # A dictionary of this size approximates the kernel well.
        left = K - (F := Gaussian(2.0)(X, points)) @ np.linalg.lstsq(Gaussian(2.0)(points), F.T, rcond=1e-10)[0]
        assert np.linalg.norm(left, 2) <= 3 * mu


# Extreme numbers -----------------------------------------------------------------------------------------------------

STRANGE = {
    "huge outputs": lambda X, Y: (X, np.where(np.arange(len(Y))[:, None] % 50 == 7, 1e150, Y)),
    "tiny outputs": lambda X, Y: (X, 1e-300 * Y),
    "constant inputs": lambda X, Y: (np.ones_like(X), Y),
    "duplicated rows": lambda X, Y: (np.repeat(X[:5], len(X) // 5, axis=0), np.repeat(Y[:5], len(X) // 5, axis=0)),
    "zeros": lambda X, Y: (0 * X, 0 * Y),
    "huge inputs": lambda X, Y: (1e150 * X, Y),
    "an output never seen": lambda X, Y: (X, np.where(np.arange(3) == 1, np.nan, Y)),
    "nothing seen": lambda X, Y: (X, np.full_like(Y, np.nan)),
    "one row": lambda X, Y: (X[:1], Y[:1]),
}

MODELS = {
    "exact": KAWV,
    "first": lambda K, alpha: PKAWV(K, alpha, Nystrom(Uniform(size=20))),
    "kors": lambda K, alpha: PKAWV(K, alpha, Nystrom(KORS(1e-3)), random_state=0),
    "past": lambda K, alpha: PKAWV(K, alpha, Nystrom(ALD(0.1), past="exact", budget=20)),
    "discount": lambda K, alpha: PKAWV(K, alpha, Nystrom(Uniform(size=20)), discount=0.95),
    "window": lambda K, alpha: PKAWV(K, alpha, Nystrom(Uniform(size=20)), window=30),
    "taylor": lambda K, alpha: PKAWV(K, alpha, Taylor(2)),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("alpha", [0.1, 1e-12])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", STRANGE)
def test_unusual_streams(case, model, alpha):
    X, Y = STRANGE[case](*stream(150))
    learner = MODELS[model](Gaussian(1.0) * MixedEffect(0.5), alpha)
    Z = learner.predict_then_learn(X, Y)
    assert np.isfinite(Z).all()
    assert all(np.isfinite(found).all() for found in learner.predict(X[:10], return_std=True))
    assert not np.isnan(learner.cumulative_loss_)
    assert learner.predict_then_learn(X[:0], Y[:0]).shape == (0, 3)


def test_a_tiny_ridge_interpolates_what_it_has_seen():
    X = np.linspace(0, 1, 8)[:, None]
    y = np.cos(3 * X[:, 0])
    for model in (KAWV(Gaussian(0.1), 1e-12, forecaster="ridge"), PKAWV(Gaussian(0.1), 1e-12, forecaster="ridge")):
        assert_allclose(model.fit(X, y).predict(X), y, rtol=0, atol=1e-5)


@pytest.mark.parametrize("alpha", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("m", [10, 24])
def test_a_tiny_ridge_loses_nothing_once_the_rows_determine_the_features(m, alpha):
    X, Y = stream(200)
    points = X[:m]
    model = PKAWV(Gaussian(2.0), alpha, Nystrom(Given(points)), forecaster="ridge")
    Z = model.predict_then_learn(X, Y)
    slow = reference.progressive_least_squares(model.features_.transform(X), Y, alpha)
    assert_allclose(Z, slow, rtol=1e-8, atol=1e-8)
    separate = in_chunks(clone(model), X, Y, [1, 5, 17, m, 90])
    assert_allclose(separate, Z, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", ["constant inputs", "duplicated rows", "an output never seen"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("alpha", [1e-16, 1e-30, 1e-100])
def test_a_ridge_below_rounding_stays_sensible(case, model, alpha):
    X, Y = STRANGE[case](*stream(150))
    learner = MODELS[model](Gaussian(1.0) * MixedEffect(0.5), alpha)
    Z = learner.predict_then_learn(X, Y)
    assert np.abs(Z).max() < 10 * np.nanmax(np.abs(Y))
    assert np.isfinite(learner.predict(X[:10], return_std=True)[1]).all()


def test_forgetting_does_not_drift():
    n, g = 3000, 0.99
    X, Y = stream(n)
    points = X[:8]
    model = PKAWV(Gaussian(1.0), 0.3, Nystrom(Given(points)), discount=g, forecaster="ridge").fit(X, Y)
    phi = whitened_rows(np.linalg.cholesky(Gaussian(1.0)(points)), Gaussian(1.0)(X, points))
    w = g ** np.arange(n, 0, -1)
    # The ridge also decays in each block of 68 rows, with its given value in the middle.
    ridge = 0.3 * g ** (n % 68 + 1 - (68 + 1) / 2)
    W = np.linalg.solve((phi.T * w) @ phi + ridge * np.eye(8), (phi.T * w) @ Y)
    assert_allclose(model.predict(X[:50]), phi[:50] @ W, rtol=0, atol=1e-10)


def test_memory_does_not_grow_with_a_projected_past():
    X, Y = stream(2000)
    model = PKAWV(KERNELS["separable"], 0.3, Nystrom(Uniform(size=10)))

    def size():
        # The last block may be incomplete: compare at the same position within a block.
        ridge = model.ridges_[0]
        return sum(part.S.nbytes + part.B.nbytes for part in (ridge.sums.old, ridge.sums.recent)) + sum(
            P.nbytes for P, _ in ridge.pending
        )

    model.partial_fit(X[:256], Y[:256])
    before = size()
    model.partial_fit(X[256:1792], Y[256:1792])
    assert size() == before
    assert model.past_ is None


def test_the_dictionary_stops_at_its_budget():
    X, Y = stream(300)
    for selection in (Uniform(rate=0.5), KORS(1e-3), ALD(1e-3)):
        model = PKAWV(Gaussian(0.5), 0.3, Nystrom(selection, budget=12), random_state=0).fit(X[:100], Y[:100])
        points = model.support_.copy()
        assert len(points) == 12
        model.partial_fit(X[100:], Y[100:])
        assert_array_equal(model.support_, points)


def test_support_points_are_those_that_give_features():
    X, Y = stream(60)
    twice = np.repeat(X, 2, axis=0)
    given = PKAWV(Gaussian(1.0), features=Nystrom(Given(twice[:10]))).fit(X, Y)
    assert_array_equal(given.support_, X[:5])
    kors = PKAWV(Gaussian(1.0), features=Nystrom(KORS(1e-3, beta=5.0)), random_state=0).fit(
        twice, np.repeat(Y, 2, axis=0)
    )
    assert len(kors.support_) == kors.n_features_ < len(kors.features_.points)
    fields = PKAWV(KERNELS["curl-free"], features=Nystrom(Given(twice[:10]))).fit(X, Y)
    assert_array_equal(fields.support_, X[:5])


def test_clip():
    X, Y = stream(60)
    for model in (KAWV, PKAWV):
        free = model(Gaussian(1.0), 0.1).predict_then_learn(X, Y)
        assert free.max() > 0.5
        clipped = model(Gaussian(1.0), 0.1, clip=0.5).predict_then_learn(X, Y)
        assert_array_equal(clipped, np.clip(free, -0.5, 0.5))
        pair = model(Gaussian(1.0), 0.1, clip=(0.0, 0.3)).fit(X, Y).predict(X)
        assert pair.min() == 0.0
        assert pair.max() == 0.3


def test_a_window_forgets_and_a_discount_fades():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1200, 1))
    y = np.where(np.arange(1200) < 600, 1.0, -1.0) * np.sin(2 * X[:, 0])
    errors = {}
    for name, params in {"all": {}, "window": {"window": 100}, "discount": {"discount": 0.98}}.items():
        model = PKAWV(Gaussian(0.7), 0.1, Nystrom(Uniform(size=15)), **params)
        errors[name] = np.mean((model.predict_then_learn(X, y)[-300:] - y[-300:]) ** 2)
    assert errors["window"] < 0.01 * errors["all"]
    assert errors["discount"] < 0.05 * errors["all"]


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KAWV(alpha=0.0), "alpha must be positive and finite"),
        (PKAWV(alpha=1e-200), "alpha must be at least 1e-100"),
        (KAWV(forecaster="best"), "forecaster must be 'awv' or 'ridge', got 'best'"),
        (KAWV(clip=(1.0, 0.0)), r"clip must be None, a positive number or a pair low < high"),
        (KAWV(max_rows=20), "max_rows is 20, but there would be 30 rows, which require .*: use PKAWV"),
        (KAWV(on_invalid="no"), "on_invalid must be 'raise' or 'skip'"),
        (PKAWV(features="nystrom"), "features must be Nystrom, Taylor, Fourier or OperatorFourier"),
        (PKAWV(features=Nystrom("kors")), "selection must be KORS, Uniform, ALD or Given"),
        (PKAWV(features=Nystrom(past="some")), "past must be 'projected' or 'exact'"),
        (PKAWV(features=Nystrom(budget=0)), "budget must be an integer >= 1"),
        (PKAWV(features=Nystrom(KORS(0.0))), "mu must be positive and finite"),
        (PKAWV(features=Nystrom(KORS(eps=1.0))), r"eps must be in \[0, 1\)"),
        (PKAWV(features=Nystrom(Uniform())), "Uniform requires either rate or size"),
        (PKAWV(features=Nystrom(Uniform(rate=2.0))), "rate must be in"),
        (PKAWV(features=Nystrom(ALD(1.0))), r"tol must be in \(0, 1\)"),
        (PKAWV(features=Nystrom(Given([[1.0]]))), r"points must be finite, of shape \(m, 3\)"),
        (PKAWV(features=Taylor(centre=[0.0])), r"centre must have shape \(3,\)"),
        (PKAWV(KERNELS["curl-free"], features=Fourier(5)), "Fourier features support scalar kernels and products"),
        (PKAWV(discount=0.0), r"discount must be in \(0, 1\]"),
        (PKAWV(discount=0.9, window=9), "window and discount cannot be combined"),
        (PKAWV(features=Nystrom(past="exact"), window=9), "window and past='exact' cannot be combined"),
    ],
    ids=str,
)
def test_refused_parameters(model, message):
    X, Y = stream(30)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "kernel_")


@pytest.mark.parametrize("model", [KAWV(Gaussian(1.0)), PKAWV(Gaussian(1.0))], ids=["exact", "projected"])
def test_bad_rows(model):
    X, Y = stream(40)
    bad = X.copy()
    bad[33, 1] = np.nan
    outliers = Y.copy()
    outliers[35, 0] = np.inf
    model.fit(X[:20], Y[:20])
    before = model.predict(X)
    for rows, message in (((bad, Y), "row 33 contains NaN or infinity"), ((X, outliers), "row 35 contains infinity")):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(*rows)
    with pytest.raises(ValueError, match="y has 2 outputs but the model has learned 3"):
        model.partial_fit(X, Y[:, :2])
    assert_array_equal(model.predict(X), before)
    skipping = model.replace(on_invalid="skip")
    Z = skipping.predict_then_learn(bad, outliers)
    assert np.isnan(Z[[33, 35]]).all()
    assert skipping.n_skipped_ == 2
    kept = np.delete(np.arange(40), [33, 35])
    assert_array_equal(Z[kept], model.replace().predict_then_learn(X[kept], Y[kept]))


def test_a_point_too_many_for_the_exact_forecaster_leaves_it_as_it_was():
    X, Y = stream(40)
    model = KAWV(Gaussian(1.0), max_rows=30).fit(X[:20], Y[:20])
    with pytest.raises(ValueError, match="max_rows is 30"):
        model.partial_fit(X[20:], Y[20:])
    assert model.t_ == 20
    model.partial_fit(X[20:30], Y[20:30])


# Classes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["simplex", "one-vs-rest"])
def test_classes(coding):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = np.array(["left", "right", "up"])[np.where(X[:, 1] > 0.8, 2, (X[:, 0] > 0).astype(int))]
    model = PKAWVClassifier(Gaussian(1.0), 0.1, Nystrom(Uniform(size=30)), coding=coding)
    guesses = model.predict_then_learn(X, y, classes=["left", "right", "up"])
    assert (guesses[150:] == y[150:]).mean() > 0.9
    assert model.decision_function(X).shape == (300, 3)
    assert model.learner_.n_outputs_ == (2 if coding == "simplex" else 3)
    assert len(model.support_) == 30
    with pytest.raises(ValueError, match="coding must be 'simplex' or 'one-vs-rest'"):
        PKAWVClassifier(coding="other").fit(X, y)


# Evaluation ----------------------------------------------------------------------------------------------------------


def test_progressive_evaluation_takes_them():
    X, Y = stream(150)
    for model in (
        KAWV(Gaussian(1.0)),
        PKAWV(Gaussian(1.0), features=Nystrom(Uniform(size=9))),
        PKAWV(features=Fourier(5)),
    ):
        result = progressive(model, X, Y, scale="running", progress=False)
        assert result.n_rows == 150
    assert result.support_sizes is None


def test_parkinsons_last_rows_are_predicted_as_well_as_by_the_batch():
    # A fast version of the benchmark: the first 1200 shuffled rows.
    try:
        X, Y = load_parkinsons(return_X_y=True)
    except DatasetNotFound as error:
        pytest.skip(str(error))
    some = np.random.default_rng(0).permutation(len(X))[:1200]
    X, Y = X[some], Y[some]
    X, Y = (X - X[:900].mean(axis=0)) / X[:900].std(axis=0), (Y - Y[:900].mean(axis=0)) / Y[:900].std(axis=0)
    K = Gaussian(3.0) * MixedEffect(0.5, 2)
    batch = OVKRidge(K, 0.1).fit(X[:900], Y[:900]).predict(X[900:])
    # With so few rows the shrinkage of the forecaster still increases the error.
    for forecaster, most in (("ridge", 1.0), ("awv", 1.06)):
        Z = KAWV(K, 0.1, forecaster=forecaster).predict_then_learn(X, Y)
        assert np.mean((Z[900:] - Y[900:]) ** 2) < most * np.mean((batch - Y[900:]) ** 2)


def test_triangular_systems_without_features():
    assert solve_lower(np.empty((0, 0)), np.empty((0, 2))).shape == (0, 2)
    assert whitened_rows(np.empty((0, 0)), np.empty((3, 0))).shape == (3, 0)


def test_parameters_from_theory():
    model = PKAWV.auto(Gaussian(1.0), n=2000, random_state=0)
    # The scale of the bound, n^-2, is below what features resolve.
    assert (model.alpha, model.features.selection.mu) == (1.0, 1e-6)
    X = stream(300)[0]
    y = np.sin(X[:, 0])
    assert np.mean((model.predict_then_learn(X, y)[-100:] - y[-100:]) ** 2) < 0.05
    rough = PKAWV.auto(Matern(1.5, 1.0), n=10_000, p=1, budget=20)
    assert rough.features.budget == 20
    assert rough.alpha == pytest.approx(10_000 * 20**-1.5)
    assert PKAWV.auto().features.selection.mu == 1e-6
    with pytest.raises(ValueError, match="p, the number of inputs, is required for Matern"):
        PKAWV.auto(Matern(1.5, 1.0))
