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
from ovk.kernels import Gaussian, Linear
from ovk.operators import Dense, GraphLaplacian, LowRank, MixedEffect, Tree


@pytest.fixture
def tasks():
    """40 points, 3 related tasks: values, labels, labels with holes."""
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


def test_one_bias_for_each_task_takes_offsets_in(tasks):
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
def test_long_form_holes_weights_and_sparse_inputs_say_the_same(tasks, bias):
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
    # The penalty of the operator is the one that was asked for: sum_ij L_ij <f_i, f_j>.
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


def test_repeated_points_with_other_labels_and_a_constant_output_are_no_trouble():
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]), 6, axis=0)
    y = np.tile([-1.0, 1.0, 1.0], 6)
    model = MultiTaskSVC(bias="task", tol=1e-9).fit(X, y)
    assert model.dual_gap_ <= 1e-8 * model.objective_
    flat = MultiTaskSVR(epsilon=0.5).fit(X, np.zeros(18))
    np.testing.assert_array_equal(flat.predict(X), 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0.0}, "C must be a finite number > 0"),
        ({"bias": "own"}, "bias must be one of 'none', 'shared', 'task', got 'own'"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_bad_parameters_are_named_and_leave_the_model_as_it_was(tasks, change, message):
    X, _, _, Y, _ = tasks
    model = MultiTaskSVC().fit(X, Y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match=message):
        model.set_params(**change).fit(X[:20], Y[:20])
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_bad_labels_are_named(tasks):
    X, _, F, Y, holes = tasks
    with pytest.raises(ValueError, match="tasks share two labels, such as 0 and 1, got 3"):
        MultiTaskSVC().fit(X, np.where(F > 1, 2.0, Y))
    with pytest.raises(ValueError, match="one class: 1"):
        MultiTaskSVC().fit(X, np.ones(40))
    with pytest.raises(ValueError, match="contains NaN"):
        MultiTaskSVC().fit(X, holes[:, 0])
    with pytest.raises(ValueError, match=r"task must lie between 0 and 2, got 0\.\.7"):
        MultiTaskSVC().fit(X, Y).predict(X[:2], [0, 7])


def test_too_few_steps_warn_with_the_gap(tasks):
    X, _, _, Y, _ = tasks
    with pytest.warns(ConvergenceWarning, match="duality gap is"):
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
