"""Every operator equals its definition; spectra, derivatives, caching and errors."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

import instances
import ovk
import reference
from ovk.base.parameters import equal
from ovk.operators import Cluster, Dense, GraphLaplacian, Identity, LowRank, MixedEffect, Tree
from ovk.operators.base import spectrum
from ovk.ovkernels.base import by_entry

EVERY = instances.each(instances.OPERATORS)


@pytest.mark.parametrize("T", EVERY)
def test_matrix(T):
    assert_allclose(T.dense(), reference.operator(T), rtol=1e-12, atol=1e-14)
    assert T.output_dim == T.dim() == instances.D


@pytest.mark.parametrize("T", EVERY)
def test_apply(T):
    Y = np.random.default_rng(0).standard_normal((5, instances.D))
    before = Y.copy()
    assert_allclose(T.apply(Y), Y @ reference.operator(T), rtol=1e-12, atol=1e-13)
    assert np.array_equal(Y, before)


@pytest.mark.parametrize("T", EVERY)
def test_nobody_can_change_the_matrix_from_outside(T):
    before = T.dense()
    T.dense()[...] = 7.0
    assert np.array_equal(T.dense(), before)


@pytest.mark.parametrize("T", EVERY)
def test_spectrum(T):
    s = T.eigh()
    assert_allclose((s.vectors * s.values) @ s.vectors.T, reference.operator(T), atol=1e-12)
    assert_allclose(s.vectors.T @ s.vectors, np.eye(instances.D), atol=1e-12)
    assert (s.values >= 0).all()
    assert (np.diff(s.values) >= 0).all()
    assert_allclose(s.values, np.linalg.eigvalsh(reference.operator(T)), atol=1e-12)
    assert [value for group in s.groups for value in s.values[group]] == s.values.tolist()
    assert len(set(s.values.tolist())) == len(s.groups) == len(s.distinct)


@pytest.mark.parametrize(
    ("T", "sizes"),
    [
        (Identity(6), [6]),
        (MixedEffect(0.3, 6), [5, 1]),
        (MixedEffect(0.0, 6), [6]),
        (MixedEffect(1.0, 6), [5, 1]),
        (MixedEffect(0.3, 1), [1]),
        (Dense(np.full((6, 6), 0.3) + 0.7 * np.eye(6)), [5, 1]),
        (Dense(np.zeros((3, 3))), [3]),
        (LowRank(np.eye(6)[:, :2], diag=0.5), [4, 2]),
        (GraphLaplacian(np.ones((6, 6))), [5, 1]),
        (GraphLaplacian(np.ones((6, 6)) - np.eye(6)), [1, 5]),
        (GraphLaplacian(np.zeros((4, 4))), [4]),
        (Cluster([0, 0, 0, 1, 1, 1], within=0.5), [4, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_equal_eigenvalues_are_exactly_equal(T, sizes):
    assert [group.stop - group.start for group in T.eigh().groups] == sizes


@settings(max_examples=40, deadline=None, derandomize=True)
@given(hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=st.integers(-3, 3)))
def test_any_low_rank_operator(W):
    T = LowRank(W.astype(float), diag=0.5)
    s = T.eigh()
    assert_allclose((s.vectors * s.values) @ s.vectors.T, W @ W.T + 0.5 * np.eye(len(W)), atol=1e-10)
    assert len(s.groups) <= min(W.shape) + 1


@pytest.mark.parametrize("T", instances.each(instances.OPERATORS, without=instances.SINGULAR))
def test_gradient(T):
    for name, change in by_entry("", T.gradient()).items():
        parameter = name.removeprefix("__")
        expected = reference.derivative(lambda t, p=parameter: reference.moved(T, p, t).dense(), 0.0, h=1e-3)
        assert_allclose(change, expected, rtol=1e-8, atol=1e-10)


def test_names_of_gradients():
    found = {name: set(T.gradient()) for name, T in instances.OPERATORS}
    assert found == {
        "identity": set(),
        "dense": {"B"},
        "low-rank": {"W", "diag"},
        "low-rank-diag": {"W", "diag"},
        "mixed-effect": {"omega"},
        "mixed-effect-one": {"omega"},
        "mean-regularised": {"own", "spread"},
        "graph": {"self_weight"},
        "graph-weighted": {"self_weight"},
        "graph-sparse": {"self_weight"},
        "cluster": {"within", "between"},
        "tree": set(),
        **{name: set() for name, _ in instances.OPERATORS if name.startswith(("multiplication", "integral"))},
        "integral-lag": {"lag"},
        "integral-lag-exponential": {"lag"},
        "tensor": set(),
        "tree-parents": set(),
    }


# ---------------------------------------------------------------------------------- norms that the docs state


@pytest.mark.parametrize("T", [MixedEffect(0.4, 4), Cluster("aabb", within=0.4), GraphLaplacian(np.ones((4, 4)))])
def test_stated_norms(T):
    """|f|^2 = f' T^-1 f, as the docstrings write it out."""
    f = np.array([0.3, -1.0, 2.0, 0.7])
    found = f @ np.linalg.solve(T.dense(), f)
    if isinstance(T, MixedEffect):
        w, d = T.omega, 4
        expected = ((1 - w) * (f**2).sum() + w * d * ((f - f.mean()) ** 2).sum()) / ((1 - w) * (1 - w + w * d))
    elif isinstance(T, Cluster):
        parts, w = [f[:2], f[2:]], T.within
        expected = sum(2 * g.mean() ** 2 / (1 - w + 2 * w) + ((g - g.mean()) ** 2).sum() / (1 - w) for g in parts)
    else:
        expected = 0.5 * sum((a - b) ** 2 for a in f for b in f) + (f**2).sum()
    assert_allclose(found, expected)


def test_outputs_of_a_graph_without_own_weight_sum_to_zero():
    T = GraphLaplacian(instances.PATH).dense()
    assert_allclose(T.sum(axis=0), 0.0, atol=1e-14)


def test_a_forest_hangs_together_at_a_root():
    assert_allclose(Tree({0: "a", 1: "a", 2: "b", 3: "b"}).dense(), Tree([[0, 1], [2, 3]]).dense())


def test_names_of_nodes_need_no_order():
    """Numbers, strings and tuples side by side."""
    mixed = Tree({0: "left", 1: "left", "left": ("the", "root"), 2: ("the", "root")})
    assert_allclose(mixed.dense(), Tree([[0, 1], 2]).dense())


# ----------------------------------------------------------------------------------------------------- memory


def test_the_spectrum_is_kept_until_a_parameter_changes():
    T = Dense(np.diag([1.0, 2.0]))
    first = T.eigh()
    assert T.eigh() is first
    T.B = np.diag([3.0, 4.0])
    assert_allclose(T.eigh().values, [3.0, 4.0])
    assert_allclose(T.dense(), np.diag([3.0, 4.0]))
    T.set_params(B=np.diag([5.0, 6.0]))
    assert_allclose(T.eigh().values, [5.0, 6.0])


def test_the_spectrum_of_numbers_is_kept_until_they_change():
    T = MixedEffect(0.5, 3)
    first = T.eigh()
    T.omega = float("0.5")
    assert T.eigh() is first
    T.set_params(omega=0.25)
    assert_allclose(T.eigh().distinct, [0.75, 1.5])
    T.output_dim = 2
    assert len(T.eigh().values) == 2


@pytest.mark.parametrize("T", EVERY)
def test_what_is_kept_does_not_travel(T, tmp_path):
    T.eigh()
    for copy in (clone(T), pickle.loads(pickle.dumps(T))):
        assert "_memo" not in vars(copy)
        assert equal(copy, T)
    ovk.save(T, tmp_path / "operator")
    assert equal(ovk.load(tmp_path / "operator"), T)


# ---------------------------------------------------------------------------------------------------- resolve


@pytest.mark.parametrize("T", [Identity(), MixedEffect(0.3)])
def test_resolve(T):
    assert T.resolve(4).output_dim == 4
    assert T.output_dim is None
    with pytest.raises(ValueError, match="requires output_dim; estimators take it from Y"):
        T.dense()


@pytest.mark.parametrize("T", EVERY)
def test_resolve_with_another_number_of_outputs(T):
    assert T.resolve(instances.D) is T
    with pytest.raises(ValueError, match="has 3 outputs but Y has 4"):
        T.resolve(4)


# ----------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("T", "message"),
    [
        (Identity(0), "output_dim must be an integer >= 1, got 0"),
        (Identity(2.5), "output_dim must be an integer >= 1, got 2.5"),
        (Dense([[1.0, 2.0], [2.0, 1.0]]), r"semi-definite, but it has the eigenvalue -1 .*largest is 3"),
        (Dense([[1.0, 0.5], [0.2, 1.0]]), r"B must be symmetric, .* \(0, 1\) and \(1, 0\) differ by 0.3"),
        (Dense([[1.0, np.nan], [np.nan, 1.0]]), "B must be finite, got nan or inf"),
        (Dense([[1.0, 2.0, 3.0]]), r"B must be a square matrix, got shape \(1, 3\)"),
        (Dense(np.zeros((0, 0))), r"B must be a square matrix, got shape \(0, 0\)"),
        (Dense("abc"), "B must be a square matrix of numbers, got str"),
        (LowRank(np.ones(3)), r"W must be a \(d, r\) matrix of finite numbers, got shape \(3,\)"),
        (LowRank([[np.inf]]), r"W must be a \(d, r\) matrix of finite numbers"),
        (LowRank([[1.0]], diag=-1.0), "diag must be non-negative and finite, got -1"),
        (LowRank([[1.0]], diag=[1.0, 2.0]), "diag must be a number or one for each of the 1 outputs"),
        (MixedEffect(1.5, 2), r"omega must be a number in \[0, 1\], got 1.5"),
        (MixedEffect("half", 2), r"omega must be a number in \[0, 1\], got 'half'"),
        (GraphLaplacian([[0.0, -1.0], [-1.0, 0.0]]), "M must be non-negative, got -1"),
        (GraphLaplacian([[0.0, 1.0], [2.0, 0.0]]), r"M must be symmetric, .*\(0, 1\) .* differ by 1"),
        (GraphLaplacian(np.eye(2), self_weight=-1.0), "self_weight must be non-negative and finite, got -1"),
        (GraphLaplacian(np.eye(2), self_weight=np.ones(3)), "a number or one for each of the 2 outputs"),
        (Cluster([]), "assignments must have at least one entry, got none"),
        (Cluster("ab", within=2.0), r"within must be a number in \[0, 1\], got 2"),
        (Cluster("ab", within=0.3, between=0.5), r"between must be a number in \[0, 0.3\], got 0.5"),
        (Tree([[0, 1], [1, 2]]), "hierarchy has the output 1 twice"),
        (Tree([[0, 1], 3]), r"the outputs 0\.\.d-1 as leaves, each once, got the leaves \[0, 1, 3\]"),
        (Tree([]), "each once"),
        (Tree({0: "a", "a": "b", "b": "a"}), "hierarchy has a cycle through 'a'"),
        (Tree([0, 1], decay=0.0), r"decay must be a number in \[1e-06, 1e\+06\], got 0"),
    ],
)  # fmt: skip
def test_bad_parameters(T, message):
    with pytest.raises(ValueError, match=message):
        T.eigh()


def test_negative_eigenvalues_within_rounding_are_clipped():
    B = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    s = spectrum(B - 1e-10 * np.eye(3), "B")
    assert (s.values[:2] == 0).all()


def test_asymmetry_within_rounding_is_forgiven():
    B = np.array([[1.0, 0.5 + 1e-13], [0.5, 1.0]])
    assert np.array_equal(Dense(B).dense(), Dense(B).dense().T)


@pytest.mark.parametrize("T", EVERY)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_apply_to_what_a_gram_makes_of_sparse_coefficients(T, form):
    C = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    G = np.array([[1.0, 0.5], [0.5, 2.0], [0.0, 1.0]])
    assert_allclose(T.apply(G @ form(C)), G @ C @ reference.operator(T), atol=1e-13)


def test_eigenvalues_that_differ_by_more_than_rounding_stay_apart():
    assert len(Dense(np.diag([1.0, 1.0 + 1e-6, 2.0])).eigh().groups) == 3
    assert len(Dense(np.diag([1.0, 1.0 + 1e-15, 2.0])).eigh().groups) == 2
