"""Missing labels: a row without labels has no effect, and outputs learn from their observed labels."""

import ctypes
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from ovk import KAWV, OLOK, PKAWV, AutoStream, AutoStreamClassifier
from ovk.features import ALD, KORS, Given, Nystrom
from ovk.kernels import Gaussian
from ovk.online.experts.expert_set import (
    Choice,
    ExpertSet,
    OtherOutputs,
    _CandidateScores,
    choose,
    completed,
    group_outputs,
    score,
)
from ovk.online.experts.mixture import ExpertMixture
from ovk.online.shared.rows import Scale


@pytest.fixture(scope="module", autouse=True)
def early_stages():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExpertMixture, "_refit_rows", (15, 40, 110))
        patch.setattr(ExpertSet, "_rows_compared", 60)
        patch.setattr(ExpertSet, "_widths", (0.5, 1.0))
        yield


def rows(n=200, seed=0, outputs=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), 5.0 + X[:, 0] * X[:, 1], X[:, 1]])[:, :outputs]
    return X, Y + 0.1 * rng.standard_normal(Y.shape)


def labelled_only(model, X, y, known, sizes, method, **first):
    """Predictions of labelled rows and of new rows, with and without unlabelled rows in between."""
    with_gaps, without, found, expected, start = model, deepcopy(model), [], [], 0
    holes = y.copy()
    holes[~known] = np.nan
    for size in [*sizes, len(X)]:
        some = np.arange(start, min(start + size, len(X)))
        start, own = start + size, some[known[some]] if len(some) else some
        if len(some):
            found.append(getattr(with_gaps, method)(X[some], holes[some], **first)[known[some]])
        if len(own):
            expected.append(getattr(without, method)(X[own], y[own], **first))
    return (np.concatenate(found), with_gaps), (np.concatenate(expected), without)


@settings(max_examples=8, deadline=None)
@given(sizes=st.lists(st.integers(1, 90), max_size=6), share=st.floats(0.1, 0.9), seed=st.integers(0, 99))
def test_rows_without_labels_leave_no_trace(sizes, share, seed):
    X, Y = rows(seed=seed)
    known = np.random.default_rng(seed).random(len(X)) < share
    known[0] = True
    (Z, one), (expected, other) = labelled_only(AutoStream(), X, Y, known, sizes, "predict_then_learn")
    assert_array_equal(Z, expected)
    assert_array_equal(one.predict(X), other.predict(X))
    assert_array_equal(one.last_label_, Y[known][-1])
    assert one.mixture_.count == known.sum()


@settings(max_examples=5, deadline=None)
@given(sizes=st.lists(st.integers(1, 90), max_size=6), share=st.floats(0.1, 0.9), k=st.integers(2, 3))
def test_rows_without_classes_leave_no_trace(sizes, share, k):
    X, Y = rows()
    y = np.digitize(Y[:, 0], [0.0, 0.5][: k - 1]).astype(float)
    known = np.random.default_rng(k).random(len(X)) < share
    known[:1] = True
    pair = labelled_only(AutoStreamClassifier(), X, y, known, sizes, "predict_proba_then_learn", classes=range(k))
    assert_array_equal(pair[0][0], pair[1][0])
    assert_array_equal(pair[0][1].predict_proba(X), pair[1][1].predict_proba(X))


def test_rows_without_labels_are_predicted_in_their_place():
    X, Y = rows()
    known = np.random.default_rng(1).random(len(X)) < 0.4
    Y[~known] = np.nan
    Z, learner = AutoStream().predict_then_learn(X, Y), AutoStream().partial_fit(X[:1], Y[:1])
    for i in range(1, len(X)):
        if i % 5 == 0 or not known[i - 1]:
            assert_allclose(learner.predict(X[i : i + 1])[0], Z[i], rtol=1e-8)
        learner.partial_fit(X[i : i + 1], Y[i : i + 1])


POINTS = np.random.default_rng(1).uniform(-2.0, 2.0, (20, 2))
LEARNERS = {
    "warm-up": lambda: PKAWV(),
    "growing at random": lambda: PKAWV(Gaussian(1.0), features=Nystrom(KORS(mu=0.1)), warm_up=0, random_state=0),
    "growing": lambda: PKAWV(Gaussian(1.0), features=Nystrom(ALD(0.1), past="exact"), warm_up=0),
    "growing and forgetting": lambda: PKAWV(Gaussian(1.0), features=Nystrom(ALD(0.1)), warm_up=0, discount=0.97),
    "window": lambda: PKAWV(Gaussian(1.0), features=Nystrom(Given(POINTS)), warm_up=0, window=40),
    "discount": lambda: PKAWV(Gaussian(1.0), features=Nystrom(Given(POINTS)), warm_up=50, discount=0.97),
    "huber": lambda: PKAWV(Gaussian(1.0), features=Nystrom(Given(POINTS)), loss="huber", discount=0.97),
    "kawv": lambda: KAWV(),
    "olok": lambda: OLOK(),
    "olok, window": lambda: OLOK(Gaussian(1.0), truncation=20, average=True),
    "olok, discount": lambda: OLOK(Gaussian(1.0), discount=0.97, warm_up=0),
}


@pytest.mark.parametrize("sizes", [[], [1] * 199, [70, 3]], ids=["whole", "rows", "chunks"])
@pytest.mark.parametrize("name", LEARNERS)
def test_online_learners_forget_nothing_in_rows_without_labels(name, sizes):
    X, Y = rows()
    known = np.random.default_rng(2).random(len(X)) < 0.4
    known[0] = False
    pair = labelled_only(LEARNERS[name](), X, Y, known, sizes, "predict_then_learn")
    assert_allclose(pair[0][0], pair[1][0], rtol=1e-6, atol=1e-6)
    assert_allclose(pair[0][1].predict(X), pair[1][1].predict(X), rtol=1e-6, atol=1e-6)


def gappy(n=260, share=0.4, outputs=3):
    X, Y = rows(n, outputs=outputs)
    known = np.random.default_rng(3).random(Y.shape) < share
    return X, np.where(known, Y, np.nan), known


@pytest.mark.parametrize("sizes", [[1], [7], [100, 1, 45]])
def test_rows_equal_chunks_where_outputs_are_missing(sizes, tmp_path):
    X, Y, known = gappy()
    whole, learner, parts, start = AutoStream().predict_then_learn(X, Y), AutoStream(), [], 0
    for k in range(len(X)):
        stop = start + sizes[k % len(sizes)]
        if start < 100 <= stop or start < 200 <= stop:
            ovk.save(learner, tmp_path / "learner.ovk")
            learner = ovk.load(tmp_path / "learner.ovk")
        if start < len(X):
            parts.append(learner.predict_then_learn(X[start:stop], Y[start:stop]))
        start = stop
    assert_allclose(np.concatenate(parts), whole, rtol=1e-7, atol=1e-8)
    mixture = learner.mixture_
    assert [experts.outputs for experts in mixture.experts] == [[0], [1], [2]]
    assert [experts.count for experts in mixture.experts] == known.sum(axis=0).tolist()
    weights = learner.expert_weights_
    assert_allclose(sum(weights.values()), 1.0)
    assert (weights["first mean, then other outputs"] >= 0.0).all()


def test_every_output_keeps_a_kernel_from_before_its_last_refit():
    """Also if one fit of all outputs is followed by fits of one of them."""
    X, Y = rows(130)
    Y[15:, 0][np.arange(115) % 3 == 0] = np.nan
    Y[15:, 1][np.arange(115) % 3 == 1] = np.nan
    learner, fits = AutoStream().partial_fit(X[:15], Y[:15]), set()
    assert [one.outputs for one in learner.mixture_.experts] == [None]
    for i in range(15, 130):
        learner.partial_fit(X[i : i + 1], Y[i : i + 1])
        mixture = learner.mixture_
        fits.add(str([one.outputs for one in mixture.previous]))
        kept = {j for one in mixture.previous for j in (range(2) if one.outputs is None else one.outputs)}
        assert kept == (set() if i < 39 else {0, 1})
    assert "[None, [1]]" in fits or "[None, [0]]" in fits


def test_limits_and_regrets_of_an_output_without_labels_stay():
    X, Y, _ = gappy()
    learner = AutoStream().partial_fit(X[:200], Y[:200])
    before = deepcopy(learner.mixture_)
    Y[200:, 1] = np.nan
    learner.partial_fit(X[200:], Y[200:])
    after = learner.mixture_
    for name in ("reach", "last", "total", "seen", "low", "high"):
        assert getattr(after, name)[1] == getattr(before, name)[1]
    assert (after.last != before.last).tolist() == [True, False, True]
    for old, new in zip(before.experts[1].ridges, after.experts[1].ridges, strict=True):
        assert_array_equal(old.predict(np.eye(len(old.B))), new.predict(np.eye(len(old.B))))
    for name in ("regret_", "sum_", "squares_", "size_"):
        assert_array_equal(getattr(before.regrets, name)[..., 1], getattr(after.regrets, name)[..., 1])


def test_outputs_observed_in_the_same_rows_share_experts():
    Y = np.ones((200, 4))
    Y[::2, 1] = Y[1::2, 2] = np.nan
    Y[::50, 3] = np.nan
    assert group_outputs(Y) == [[0, 3], [1], [2]]
    many = np.where(np.random.default_rng(0).random((200, 20)) < 0.5, np.nan, 1.0)
    groups = group_outputs(many)
    assert len(groups) == 8
    assert sorted(j for group in groups for j in group) == list(range(20))


def test_candidates_are_compared_on_the_labels_observed():
    """The choice is that of the complete rows; several outputs are weighted by their labels."""
    X, Y = rows(120)
    last = np.zeros((len(X), 1))
    known = np.random.default_rng(0).random(len(X)) < 0.5
    found, expected = (
        completed(choose(X[some], last[some], np.where(known, Y[:, 0], np.nan)[some, None], classes=False, rows=60))
        for some in (slice(None), known)
    )
    assert (found.lag, found.width, found.alpha) == (expected.lag, expected.width, expected.alpha)
    assert_array_equal(found.metric, expected.metric)


def test_scores_do_not_see_what_is_missing():
    X, Y, known = gappy(120)
    last, none = np.zeros((len(X), 3)), None
    compared = _CandidateScores(X, last, Y, none, 80, np.array([1.0, 0.5, 0.0]), classes=False)
    choice = Choice(True, 1e9, np.ones(5), 0.1, 0.1)
    expected, sizes = [], []
    for j, share in enumerate((1.0, 0.5)):
        # Two systems of rows / 2^(1/3) each.
        some = np.flatnonzero(known[:, j])[-round(80 * 2 ** (-1 / 3)) :]
        U = np.hstack([X[some], last[some]])
        # The kernel is 1 throughout.
        expected.append(score(2.0 + U @ U.T / 5.0, Y[some, j : j + 1], 0.1, classes=False))
        sizes.append(share * len(some[len(some) // 2 :]))
    # In single precision.
    assert_allclose(completed(compared.score(choice)), np.average(expected, weights=sizes), rtol=1e-4)


def coupled(seed, n=3000):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 3))
    g = np.column_stack([np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 / 2.0, np.cos(2.0 * X[:, 1]) * X[:, 0]])
    Y = g @ rng.standard_normal((2, 3))
    return X, Y + 0.05 * Y.std(axis=0) * rng.standard_normal(Y.shape), rng.random(Y.shape)


@pytest.mark.long
@pytest.mark.parametrize(("share", "bound"), [(0.2, 1.0), (0.1, 0.9)])
def test_related_outputs_share_labels(share, bound):
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, value in (
            (ExpertMixture, "_refit_rows", (20, 60, 200, 600, 2000)),
            (ExpertSet, "_rows_compared", 600),
            (ExpertSet, "_widths", (0.25, 0.5, 1.0, 2.0, 4.0)),
        ):
            patch.setattr(owner, name, value)
        errors = []
        for seed in range(4):
            X, Y, draws = coupled(seed)
            holes = np.where(draws < share, Y, np.nan)
            joint = AutoStream().predict_then_learn(X, holes)
            separate = np.column_stack([AutoStream().predict_then_learn(X, y) for y in holes.T])
            errors.append([np.mean(np.mean((Z - Y) ** 2, axis=0) / Y.var(axis=0)) for Z in (joint, separate)])
    joint, separate = np.mean(errors, axis=0)
    assert joint < bound * separate


def test_corrections_do_not_change_the_predictions_of_other_outputs():
    rng = np.random.default_rng(3)
    F = rng.standard_normal((60, 2))
    Y = F @ [[0.5, 0.3], [0.5, 0.7]] + 0.1 * rng.standard_normal((60, 2))
    others = OtherOutputs(F[:40], Y[:40], None, Scale.from_rows(Y), [[0], [1]], 3.0)
    given = F.copy()
    predicted = others.predict(F[40:])
    assert np.mean((predicted - Y[40:]) ** 2) < 0.5 * np.mean((F[40:] - Y[40:]) ** 2)
    assert_array_equal(F, given)
    others.predict_and_update(F[40:], Y[40:])
    assert_array_equal(F, given)


def test_only_outputs_observed_in_different_rows_are_corrected():
    X, Y = rows(60)
    together = AutoStream().partial_fit(X, Y).mixture_
    assert (len(together.experts), together.others) == (1, None)
    Y[np.arange(60) % 2 == 0, 0] = Y[np.arange(60) % 2 == 1, 1] = np.nan
    separate = AutoStream().partial_fit(X, Y).mixture_
    assert len(separate.experts) == 2
    assert separate.others is not None


def test_an_output_without_any_label_prints_nothing(capfd):
    """Regression: LAPACK wrote a message about an empty matrix to standard output, into the JSON of `ovk stream`."""
    i = np.arange(75.0)
    AutoStream().partial_fit(i[:, None], np.column_stack([np.full(75, np.nan), 2 * i]))
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""
