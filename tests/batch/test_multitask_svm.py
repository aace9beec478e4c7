"""Multi-task support vector machines against scikit-learn's on the expanded problem."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

import ovk
from batch.reference import long_form
from ovk import MultiTaskSVC, MultiTaskSVR
from ovk.batch.multitask_svm import check_labels, leave_one_out_values
from ovk.kernels import Gaussian, Linear
from ovk.objectives.calibration import Calibration
from ovk.operators import Dense, GraphLaplacian, LowRank, MixedEffect, TensorProduct, Tree


@pytest.fixture
def tasks():
    """40 points, 3 related tasks: values, labels, labels with gaps."""
    rng = np.random.default_rng(0)
    X, X_new = rng.standard_normal((40, 3)), rng.standard_normal((9, 3))
    W = np.ones((3, 1)) + 0.8 * rng.standard_normal((3, 3))
    F = X @ W + 0.5 * rng.standard_normal((40, 3))
    Y = np.sign(F)
    return X, X_new, F, Y, np.where(rng.random(Y.shape) < 0.4, np.nan, Y)


def expanded(X, T):
    """The feature map x -> (x e_t' F)' for tasks with the operator F F', one row for each point and task."""
    F = np.linalg.cholesky(T)
    return np.concatenate([np.kron(X, F[t]) for t in range(len(T))])


def stacked(Y):
    return Y.T.reshape(-1)


@pytest.mark.parametrize("mu", [0.5, 10.0])
def test_no_bias_and_a_linear_kernel_is_linear_svc_on_the_expanded_features(tasks, mu):
    X, X_new, _, Y, _ = tasks
    T = np.full((3, 3), 1 / mu) + np.eye(3)
    model = MultiTaskSVC(Linear() * LowRank(np.full((3, 1), mu**-0.5), diag=1.0), C=0.7, tol=1e-10).fit(X, Y)
    peer = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-10, max_iter=10**6)
    peer.fit(expanded(X, T), stacked(Y))
    np.testing.assert_allclose(
        stacked(model.decision_function(X_new)), peer.decision_function(expanded(X_new, T)), atol=1e-6
    )
    assert 0 <= model.dual_gap_ <= 1e-9 * model.objective_


def test_several_classes_in_several_tasks_are_linear_svc_on_the_expanded_features(tmp_path):
    """Three hospitals, four diagnoses: an output for each pair, coupled by a Kronecker product."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 3)), np.arange(60) % 3
    y = np.array(["a", "b", "c", "d"])[(X[:, 0] > 0) + 2 * (X[:, 1] + 0.3 * task > 0)]
    T = TensorProduct([MixedEffect(0.7, 3), MixedEffect(0.2, 4)])
    model = MultiTaskSVC(Linear() * T, C=0.7, tol=1e-10).fit(X, y, task=task)
    F = np.linalg.cholesky(np.kron(MixedEffect(0.7, 3).dense(), MixedEffect(0.2, 4).dense()))

    def features(Z, t):
        return np.concatenate(
            [np.stack([np.kron(z, F[4 * s + c]) for c in range(4)]) for z, s in zip(Z, t, strict=True)]
        )

    peer = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-10, max_iter=10**6)
    peer.fit(features(X, task), np.where(y[:, None] == model.classes_, 1, -1).ravel())
    new, at = rng.standard_normal((9, 3)), np.arange(9) % 3
    scores = peer.decision_function(features(new, at)).reshape(9, 4)
    np.testing.assert_allclose(model.decision_function(new, at), scores, atol=1e-5)
    assert model.decision_function(new).shape == (9, 3, 4)
    assert (model.predict(new, at) == model.classes_[scores.argmax(axis=1)]).all()
    assert model.score(X, y, task=task) > 0.8
    # The same in columns, nan where a patient was not in a hospital.
    wide = np.full((60, 3), np.nan)
    wide[np.arange(60), task] = np.searchsorted(model.classes_, y)
    columns = MultiTaskSVC(Linear() * T, C=0.7, tol=1e-10).fit(X, wide)
    np.testing.assert_allclose(columns.decision_function(new), model.decision_function(new), atol=1e-6)
    ovk.save(model, tmp_path / "m.ovk")
    assert (ovk.load(tmp_path / "m.ovk").predict(new, at) == model.predict(new, at)).all()
    with pytest.raises(ValueError, match="a multiple of 4, got 5"):
        MultiTaskSVC(Linear() * MixedEffect(0.5, 5)).fit(X, y, task=task)


def test_theorem_2_1_is_the_penalty_on_a_common_and_on_own_parts(tasks):
    """sum xi + lambda_1 / T sum |v_t|^2 + lambda_2 |w_0|^2, minimised over (w_0, v_1, ..., v_T) by LinearSVC."""
    X, X_new, _, Y, _ = tasks
    T, lambda_1, lambda_2 = 3, 0.8, 0.3
    C, mu = T / (2 * lambda_1), T * lambda_2 / lambda_1
    model = MultiTaskSVC(Linear() * LowRank(np.full((T, 1), mu**-0.5), diag=1.0), C=C, tol=1e-10).fit(X, Y)

    # Scaled so that the penalty is 1/2 |u|^2: w_0 = u_0 / sqrt(2 lambda_2), v_t = u_t sqrt(T / (2 lambda_1)).
    def features(Z):
        blocks = []
        for t in range(T):
            own = np.zeros((len(Z), T * 3))
            own[:, 3 * t : 3 * t + 3] = Z * np.sqrt(T / (2 * lambda_1))
            blocks.append(np.hstack([Z / np.sqrt(2 * lambda_2), own]))
        return np.concatenate(blocks)

    peer = LinearSVC(loss="hinge", C=1.0, fit_intercept=False, tol=1e-10, max_iter=10**6)
    peer.fit(features(X), stacked(Y))
    np.testing.assert_allclose(
        stacked(model.decision_function(X_new)), peer.decision_function(features(X_new)), atol=1e-6
    )


def test_a_shared_bias_is_svc_on_the_expanded_kernel(tasks):
    X, X_new, F, Y, _ = tasks
    kernel = Gaussian(1.5) * MixedEffect(0.5)
    expand = (Gaussian(1.5) * MixedEffect(0.5, 3)).gram
    new = expand(X_new, X).dense()
    model = MultiTaskSVC(kernel, C=2.0, bias="shared", tol=1e-9).fit(X, Y + 0.0)
    peer = SVC(kernel="precomputed", C=2.0, tol=1e-9).fit(expand(X).dense(), Y.ravel())
    np.testing.assert_allclose(model.decision_function(X_new).ravel(), peer.decision_function(new), atol=1e-6)
    assert model.dual_gap_ <= 1e-6 * model.objective_
    model = MultiTaskSVR(kernel, C=2.0, bias="shared", tol=1e-9).fit(X, F)
    peer = SVR(kernel="precomputed", C=2.0, tol=1e-9).fit(expand(X).dense(), F.ravel())
    np.testing.assert_allclose(model.predict(X_new).ravel(), peer.predict(new), atol=1e-6)


def test_regression_without_bias_is_linear_svr_on_the_expanded_features(tasks):
    X, X_new, F, _, _ = tasks
    T = 0.5 + 0.5 * np.eye(3)
    model = MultiTaskSVR(Linear() * MixedEffect(0.5), C=0.5, epsilon=0.2, tol=1e-10).fit(X, F)
    peer = LinearSVR(epsilon=0.2, C=0.5, fit_intercept=False, tol=1e-10, max_iter=10**6)
    peer.fit(expanded(X, T), stacked(F))
    np.testing.assert_allclose(stacked(model.predict(X_new)), peer.predict(expanded(X_new, T)), atol=1e-6)
    assert 0 <= model.dual_gap_ <= 1e-9 * model.objective_


def test_one_bias_per_task_absorbs_offsets(tasks):
    X, X_new, F, _, _ = tasks
    shift = np.array([0.0, 30.0, -70.0])
    plain = MultiTaskSVR(Gaussian(2.0) * MixedEffect(0.5), bias="task", tol=1e-8).fit(X, F)
    moved = MultiTaskSVR(Gaussian(2.0) * MixedEffect(0.5), bias="task", tol=1e-8).fit(X, F + shift)
    np.testing.assert_allclose(moved.predict(X_new), plain.predict(X_new) + shift, atol=1e-3)
    np.testing.assert_allclose(plain.dual_coef_.sum(axis=0), 0.0, atol=1e-8)
    alone = SVR(kernel="precomputed", tol=1e-9).fit(Gaussian(2.0)(X), F[:, 0])
    apart = MultiTaskSVR(Gaussian(2.0), bias="task", tol=1e-9).fit(X, F)
    np.testing.assert_allclose(apart.predict(X_new)[:, 0], alone.predict(Gaussian(2.0)(X_new, X)), atol=1e-4)


@pytest.mark.parametrize("bias", ["none", "shared", "task"])
def test_long_form_gaps_weights_and_sparse_inputs_agree(tasks, bias):
    X, X_new, _, _, holes = tasks
    make = MultiTaskSVC(Gaussian(1.5) * MixedEffect(0.6), bias=bias, tol=1e-9)
    wide = clone(make).fit(X, holes)
    rows, y, task = long_form(X, holes)
    long = clone(make).fit(rows, y, task=task)
    np.testing.assert_allclose(long.decision_function(X_new), wide.decision_function(X_new), atol=1e-5)
    assert sparse.issparse(long.dual_coef_)
    chosen = np.arange(9) % 3
    np.testing.assert_array_equal(long.predict(X_new, chosen), long.predict(X_new)[np.arange(9), chosen])
    twice = clone(make).fit(np.concatenate([rows, rows]), np.tile(y, 2), task=np.tile(task, 2))
    weighted = clone(make).fit(sparse.csr_array(rows), y, np.full(len(y), 2.0), task=task)
    np.testing.assert_allclose(weighted.decision_function(X_new), twice.decision_function(X_new), atol=1e-4)


@pytest.mark.parametrize(
    "operator",
    [
        GraphLaplacian(np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), self_weight=0.5),
        Tree([[0, 1], 2], 0.6),
    ],
    ids=["relations", "hierarchy"],
)
def test_related_classes_are_linear_svc_on_the_expanded_features(tasks, operator):
    """One class against the rest, with the operator of a matrix M of relations or of a tree of classes."""
    X, X_new, F, _, _ = tasks
    y = F.argmax(axis=1)
    model = MultiTaskSVC(Linear() * operator, C=0.7, tol=1e-10).fit(X, y)
    T = operator.dense()
    peer = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-10, max_iter=10**6)
    peer.fit(expanded(X, T), stacked(np.where(y[:, None] == np.arange(3), 1.0, -1.0)))
    expected = peer.decision_function(expanded(X_new, T)).reshape(3, -1).T
    np.testing.assert_allclose(model.decision_function(X_new), expected, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X_new), expected.argmax(axis=1))


def test_named_classes_with_a_matrix_of_relations():
    """Classes a-b and c-d are neighbours."""
    rng = np.random.default_rng(0)
    centres = np.array([[2.0, 0.4], [2.0, -0.4], [-2.0, 0.4], [-2.0, -0.4]])
    y = rng.integers(0, 4, 300)
    X = centres[y] + 0.4 * rng.standard_normal((300, 2))
    M = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], dtype=float)
    names = np.array(["a", "b", "c", "d"])[y]
    model = MultiTaskSVC(Gaussian(1.0) * GraphLaplacian(M, self_weight=0.5), C=1.0).fit(X[:100], names[:100])
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert model.decision_function(X).shape == (300, 4)
    assert model.score(X[100:], names[100:]) > 0.75
    # The penalty of the operator: sum_ij L_ij <f_i, f_j>.
    f = model.expansion_
    L = GraphLaplacian(M, self_weight=0.5).laplacian()
    C = model.dual_coef_ @ np.linalg.inv(L)
    inner = C.T @ Gaussian(1.0)(model.support_vectors_) @ C
    np.testing.assert_allclose(f.norm() ** 2, (L * inner).sum(), rtol=1e-8)


def test_two_classes_are_one_task_unless_the_kernel_has_two_outputs(tasks):
    X, _, _, Y, _ = tasks
    assert MultiTaskSVC().fit(X, Y[:, 0]).decision_function(X).shape == (40,)
    coupled = MultiTaskSVC(Gaussian(1.0) * Dense([[1.0, -0.5], [-0.5, 1.0]])).fit(X, Y[:, 0])
    assert coupled.decision_function(X).shape == (40, 2)
    assert set(coupled.predict(X)) == {-1.0, 1.0}


def test_contradictory_repeated_points_and_a_constant_output():
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]), 6, axis=0)
    y = np.tile([-1.0, 1.0, 1.0], 6)
    model = MultiTaskSVC(bias="task", tol=1e-9).fit(X, y)
    assert model.dual_gap_ <= 1e-8 * model.objective_
    flat = MultiTaskSVR(epsilon=0.5).fit(X, np.zeros(18))
    np.testing.assert_array_equal(flat.predict(X), 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0.0}, "C must be positive and finite"),
        ({"bias": "own"}, "bias must be 'none', 'shared' or 'task', got 'own'"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_bad_parameters_raise_and_do_not_change_the_model(tasks, change, message):
    X, _, _, Y, _ = tasks
    model = MultiTaskSVC().fit(X, Y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match=message):
        model.set_params(**change).fit(X[:20], Y[:20])
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_bad_labels_raise(tasks):
    X, _, F, Y, holes = tasks
    with pytest.raises(ValueError, match="at least two labels, for example 0 and 1, got"):
        MultiTaskSVC().fit(X, np.ones((40, 3)))
    with pytest.raises(
        ValueError, match=r"integers or strings with more than two classes, got -?[0-9.]+: use MultiTaskSVR"
    ):
        MultiTaskSVC().fit(X, F)
    with pytest.raises(ValueError, match="one class: 1"):
        MultiTaskSVC().fit(X, np.ones(40))
    with pytest.raises(ValueError, match="contains NaN"):
        MultiTaskSVC().fit(X, holes[:, 0])
    with pytest.raises(ValueError, match="task must contain output indices below 3, got 7"):
        MultiTaskSVC().fit(X, Y).predict(X[:2], [0, 7])


def test_too_few_steps_warn_with_the_gap(tasks):
    X, _, _, Y, _ = tasks
    with pytest.warns(ConvergenceWarning, match="did not reach tol.* relative duality gap"):
        MultiTaskSVC(Linear() * MixedEffect(0.9), C=1e4, max_iter=1, tol=1e-12).fit(X, Y)


def test_saved_machines_predict_the_same(tasks, tmp_path):
    X, X_new, F, Y, holes = tasks
    rows, y, task = long_form(X, holes)
    models = {
        "classes": MultiTaskSVC(Gaussian(1.0) * MixedEffect(0.5), bias="task").fit(X, Y),
        "long": MultiTaskSVC(Gaussian(1.0) * MixedEffect(0.5)).fit(rows, y, task=task),
        "regression": MultiTaskSVR().fit(X, F),
    }
    ovk.save(models, tmp_path / "machines.ovk")
    loaded = ovk.load(tmp_path / "machines.ovk")
    for name, model in models.items():
        np.testing.assert_array_equal(loaded[name].predict(X_new), model.predict(X_new))


def test_leave_one_out_values_are_close_to_refits_and_probabilities_follow_the_decisions(tasks):
    X, X_new, _, Y, holes = tasks
    y = Y[:, 0]
    model = MultiTaskSVC(Gaussian(1.5), C=5.0, tol=1e-10)
    dual, b, values = model._learn(*_checked(model, X, y), None)
    found = leave_one_out_values(dual, b, values)
    again = [
        clone(model).fit(np.delete(X, i, 0), np.delete(y, i)).decision_function(X[i : i + 1])[0] for i in range(40)
    ]
    # Exact if no other pair moves to or from its bound.
    assert np.median(np.abs(found - again)) < 0.05
    np.testing.assert_array_equal(found[b == 0], values[b == 0])
    binary = model.fit(X, y)
    P = binary.predict_proba(X_new)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(binary.classes_[P.argmax(axis=1)], binary.predict(X_new))
    several = MultiTaskSVC(Gaussian(1.5)).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    np.testing.assert_array_equal(several.predict_proba(X_new).argmax(axis=1), several.predict(X_new))
    np.testing.assert_allclose(several.predict_proba(X_new).sum(axis=1), 1.0)
    of_tasks = MultiTaskSVC(Gaussian(1.5) * MixedEffect(0.5)).fit(X, holes)
    np.testing.assert_array_equal(of_tasks.predict_proba(X_new) > 0.5, of_tasks.predict(X_new) > 0)
    task = np.arange(9) % 3
    np.testing.assert_allclose(
        of_tasks.predict_proba(X_new, task=task)[:, 1], of_tasks.predict_proba(X_new)[np.arange(9), task]
    )


@pytest.mark.parametrize("bias", ["none", "shared", "task"])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "tasks"])
def test_probabilities_from_weights_are_those_from_repeated_rows(tasks, kind, bias):
    """A weight of 0 removes a row; some inputs are repeated in X with contradictory labels."""
    X, X_new, _, _, holes = tasks
    X = np.vstack([X, X[:6]])
    if kind == "tasks":
        kernel, y = Gaussian(1.5) * MixedEffect(0.5), np.vstack([holes, -holes[:6]])
    else:
        numbers = np.digitize(X[:, 0], [0.0] if kind == "two classes" else [-0.5, 0.5])
        kernel, y = Gaussian(1.5), np.concatenate([numbers[:-6], (numbers[-6:] + 1) % (numbers.max() + 1)])
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    model = MultiTaskSVC(kernel, C=2.0, bias=bias, tol=1e-11)
    weighted = clone(model).fit(X, y, sample_weight=weight).predict_proba(X_new)
    repeated = clone(model).fit(X.repeat(weight, axis=0), y.repeat(weight, axis=0)).predict_proba(X_new)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6)
    assert np.abs(weighted - clone(model).fit(X, y).predict_proba(X_new)).max() > 1e-3


def test_rows_with_the_same_inputs_are_left_out_together(tasks):
    X, _, _, Y, _ = tasks
    X, y = np.vstack([X, X[:20]]), np.concatenate([Y[:, 0], Y[:10, 0], -Y[10:20, 0]])
    model = MultiTaskSVC(Gaussian(1.5), C=5.0, tol=1e-10)
    same = np.concatenate([np.arange(40), np.arange(20)])
    found = leave_one_out_values(*model._learn(*_checked(model, X, y), None), same)
    np.testing.assert_allclose(found[40:], found[:20], atol=1e-9)
    again = [clone(model).fit(X[same != i], y[same != i]).decision_function(X[i : i + 1])[0] for i in range(20)]
    assert np.median(np.abs(found[:20] - again)) < 0.05


def test_independent_tasks_are_calibrated_like_separate_machines(tasks):
    """The labels of a row in other tasks do not reveal its label, so they are kept when it is left out."""
    X, _, _, _, holes = tasks
    model = MultiTaskSVC(Gaussian(1.5) * MixedEffect(0.0), C=5.0, tol=1e-11).fit(X, holes)
    values, right = [], []
    for q in range(3):
        seen = ~np.isnan(holes[:, q])
        alone = MultiTaskSVC(Gaussian(1.5), C=5.0, tol=1e-11)
        found = leave_one_out_values(*alone._learn(*_checked(alone, X[seen], holes[seen, q]), None))
        values += [found, -found]
        right += [holes[seen, q] > 0, holes[seen, q] < 0]
    counts = np.concatenate(right).astype(np.float64)
    expected = Calibration.from_counts(np.concatenate(values), counts, 1.0 - counts)
    np.testing.assert_allclose(model.calibration_, [expected.slope, expected.offset], rtol=1e-6, atol=1e-12)


def test_rows_on_the_margin_have_equal_values_and_small_values_keep_their_sign(tasks):
    X, _, _, Y, _ = tasks
    model = MultiTaskSVC(Gaussian(1.5), C=5.0, tol=1e-10).fit(X, Y[:, 0])
    values, exact = model.decision_function(X), model.expansion_(X)[:, 0]
    np.testing.assert_allclose(values, exact, rtol=1e-12)
    on_margin = np.abs(np.abs(exact) - 1.0) < 1e-13
    assert on_margin.sum() > 3
    assert set(np.abs(values[on_margin])) == {1.0}
    small = MultiTaskSVC(Gaussian(1.5), C=1e-30).fit(X, Y[:, 0])
    np.testing.assert_array_equal(np.sign(small.decision_function(X)), np.sign(small.expansion_(X)[:, 0]))


def _checked(model, X, y):
    X = model._check_inputs(X, reset=True)
    return X, check_labels(y, len(X), None, None, X, None)[0]
