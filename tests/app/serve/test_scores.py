"""Rolling scores against scores computed from all rows at once."""

import numpy as np
import pytest

from ovk.app.serve.served_model import CURVE_STEP, MAX_POINTS, SCORED_ROWS, SHOWN_ROWS, Outcome, RollingScores
from ovk.evaluation import CLASSIFICATION, REGRESSION


def outcomes(n, seed):
    """(n, 2) predictions, half widths and outcomes, some of which are unknown."""
    rng = np.random.default_rng(seed)
    F, Y = rng.standard_normal((2, n, 2))
    half = rng.uniform(0.5, 2.0, (n, 2))
    Y[rng.uniform(size=Y.shape) < 0.2] = np.nan
    half[:10] = np.inf
    return Outcome(F, half, Y)


def after(parts, names=("one",), task=REGRESSION):
    scores = RollingScores.start(list(names), ["a", "b"], task)
    for part in parts:
        scores = scores.updated(part, 0)
    return scores.up_to_date()


def pieces(whole, sizes):
    ends = np.cumsum(sizes)
    return [Outcome(*(A[end - size : end] for A in whole)) for end, size in zip(ends, sizes, strict=True)]


def test_errors_and_coverage_are_those_of_the_last_rows():
    whole = outcomes(1500, seed=0)
    scores = after([[piece] for piece in pieces(whole, [1, 99, 400, 600, 400])])
    F, half, Y = (A[-SCORED_ROWS:] for A in whole)
    np.testing.assert_allclose(scores.errors()["one"], np.sqrt(np.nanmean((F - Y) ** 2, axis=0)))
    np.testing.assert_allclose(scores.errors(50)["one"], np.sqrt(np.nanmean((F - Y)[-50:] ** 2, axis=0)))
    inside = np.where(np.isfinite(Y), np.abs(F - Y) <= half, np.nan)
    np.testing.assert_allclose(scores.coverage(), np.nanmean(inside, axis=0))
    means = np.array([[np.nanmean(whole.Y[:t, q]) for q in (0, 1)] for t in range(500, 1500)])
    np.testing.assert_allclose(scores.errors()["running mean"], np.sqrt(np.nanmean((means - Y) ** 2, axis=0)))
    np.testing.assert_array_equal(scores.recent[-SHOWN_ROWS:, -3:], np.stack(whole, axis=1)[-SHOWN_ROWS:])


def test_rows_one_by_one_and_at_once_give_the_same():
    whole = outcomes(700, seed=3)
    singly, states = RollingScores.start(["one"], ["a", "b"], REGRESSION), []
    for piece in pieces(whole, [1] * 700):
        states.append(singly)
        singly = singly.updated([piece], 0)
        assert len(singly.fresh) < CURVE_STEP
    at_once = after([[whole]])
    for name in at_once.names:
        np.testing.assert_allclose(singly.up_to_date().errors()[name], at_once.errors()[name])
    np.testing.assert_array_equal(singly.up_to_date().recent[:, -3:], at_once.recent[:, -3:])
    np.testing.assert_array_equal(singly.reached, range(CURVE_STEP, 701, CURVE_STEP))
    # Reading the scores in between changes nothing.
    assert states[690].up_to_date().up_to_date().rows == 690
    np.testing.assert_allclose(states[690].up_to_date().errors()["one"], after([pieces(whole, [690])]).errors()["one"])


def test_large_requests_do_not_each_pay_for_a_point_of_the_curve():
    scores = after([[piece] for piece in pieces(outcomes(1200, seed=4), [100] * 12)])
    np.testing.assert_array_equal(scores.reached, [400, 800, 1200])
    scores = after([[piece] for piece in pieces(outcomes(3000, seed=4), [600] * 5)])
    np.testing.assert_array_equal(scores.reached, [1200, 2400, 3000])  # `after` collects the rest


def test_nothing_is_known_before_the_first_row():
    scores = after([])
    assert np.isnan(scores.errors()["one"]).all()
    assert np.isnan(scores.coverage()).all()
    assert not scores.warnings("one")


@pytest.mark.parametrize(
    ("half", "words"),
    [
        (0.5, "90% intervals contain 50.0% of the outcomes and are too narrow"),
        (0.9, ""),
        (1.0, "90% intervals contain 100.0% of the outcomes and are too wide"),
    ],
)
def test_coverage_that_is_far_from_its_level_is_a_warning(half, words):
    """Outcomes are uniform on (0, 1); output b has too few of them for a warning."""
    Y = np.tile((np.arange(200) * 77 % 200 + 0.5) / 200, (2, 1)).T
    Y[150:, 1] = np.nan
    F = np.zeros(Y.shape)
    scores = after([[Outcome(F, np.full(Y.shape, half), Y)]])
    assert [one for one in scores.warnings("one") if "intervals" in one] == ([f"a: {words}"] if words else [])


def test_a_learner_that_could_not_learn_has_no_error_for_these_rows():
    first, second = pieces(outcomes(80, seed=1), [40, 40])
    scores = after([[first, first], [second, None]], names=["one", "two"])
    np.testing.assert_array_equal(scores.errors()["two"], after([[first]]).errors()["one"])
    assert (scores.errors()["one"] != scores.errors()["two"]).all()


def test_labels_are_right_or_wrong():
    F, Y = np.array([[0.0], [1.0], [2.0], [1.0]]), np.array([[0.0], [2.0], [np.nan], [1.0]])
    scores = RollingScores.start(["one"], ["label"], CLASSIFICATION).updated(
        [Outcome(F, np.full(F.shape, np.nan), Y)], 0
    )
    scores = scores.up_to_date()
    assert scores.errors()["one"] == pytest.approx([1 / 3])
    # Both baselines predict 0 first; a tie of the majority is resolved in favour of the first label.
    assert scores.errors()["no change"] == pytest.approx([2 / 3])
    assert scores.errors()["majority"] == pytest.approx([2 / 3])
    later = scores.updated([Outcome(np.array([[3.0]]), np.full((1, 1), np.nan), np.array([[3.0]]))], 0).up_to_date()
    assert later.errors()["one"] == pytest.approx([1 / 4])
    assert later.n_classes == 4


def test_the_curve_stays_within_its_points_and_keeps_the_last():
    whole = outcomes(12_000, seed=2)
    scores = RollingScores.start(["one"], ["a", "b"], REGRESSION)
    for piece in pieces(whole, [CURVE_STEP // 4] * 2400):
        before, scores = scores, scores.updated([piece], 0)
        assert len(scores.curve) == len(scores.reached) < MAX_POINTS
        if scores.reached != before.reached:
            np.testing.assert_array_equal(scores.curve[-1, 0], scores.errors()["one"])
    assert scores.step == 4 * CURVE_STEP
    assert set(np.diff(scores.reached)) == {scores.step}
