"""Error messages for delayed labels."""

from datetime import timedelta

import numpy as np
import pytest

from ovk import PKAWV, AutoStream, AutoStreamClassifier, DelayedLabels, WithIntervals, progressive
from ovk.evaluation.delayed import waiting_rows
from ovk.kernels import Gaussian

X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
Y = np.hstack([X, X[:, :1] ** 2])


@pytest.mark.parametrize("model", [AutoStream(), AutoStreamClassifier()])
def test_a_timedelta_needs_times(model):
    with pytest.raises(
        ValueError, match=r"delay must be a whole number of rows.*timedelta.*: pass the dates of the rows as time"
    ):
        progressive(model, X, Y[:, 0], delay=timedelta(hours=1))
    with pytest.raises(ValueError, match="pass the dates of the rows as time"):
        waiting_rows(np.timedelta64(1, "h"), None)


def test_a_label_that_arrives_with_the_third_row_has_a_delay_of_two_rows():
    times = np.datetime64("2024-01-01") + np.arange(60) * np.timedelta64(20, "m")
    by_clock = waiting_rows(timedelta(hours=1), times)
    assert (by_clock[3:] == 2).all()
    one = progressive(PKAWV(), X, Y, delay=2).predictions
    two = progressive(PKAWV(), X, Y, delay=timedelta(hours=1), time=times).predictions
    np.testing.assert_array_equal(one, two)


def test_times_without_a_delay_change_nothing():
    times = np.datetime64("2024-01-01") + np.arange(60) * np.timedelta64(20, "m")
    assert waiting_rows(0, times) == 0
    np.testing.assert_array_equal(
        progressive(PKAWV(), X, Y, time=times).predictions, progressive(PKAWV(), X, Y).predictions
    )
    with pytest.raises(ValueError, match=r"got .* in row 1: sort the rows by time"):
        progressive(PKAWV(), X, Y, time=times[::-1])


@pytest.mark.parametrize("model", [AutoStream(), WithIntervals(PKAWV(Gaussian(1.0)), 0.8)])
@pytest.mark.parametrize("wrong", [np.zeros((1, 3)), np.zeros(2), 5.0])
def test_labels_of_another_shape_name_their_ticket(model, wrong):
    late = DelayedLabels(model)
    _, tickets = late.predict(X[:5])
    late.learn(tickets, Y[:5])
    _, (ticket,) = late.predict(X[5:6])
    shape = str(np.shape(wrong)).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ValueError, match=rf"label of ticket 5 must have the shape of one row, \(3,\), got {shape}"):
        late.learn(ticket, wrong)
    # The row still waits for its label.
    late.learn(ticket, Y[5])


def test_before_the_first_label_only_the_number_of_dimensions_is_checked():
    late = DelayedLabels(AutoStream())
    _, (ticket,) = late.predict(X[:1])
    with pytest.raises(ValueError, match=r"ticket 0 .*a number, or \(d,\) for d outputs, got \(1, 3\)"):
        late.learn(ticket, Y[:1])
    late = DelayedLabels(AutoStream(), n_outputs=3)
    late.predict(X[:1])
    with pytest.raises(ValueError, match=r"ticket 0 .*\(3,\), got \(2,\)"):
        late.learn(0, Y[0, :2])


def test_one_output_is_a_number_or_a_row_of_one():
    late = DelayedLabels(PKAWV(Gaussian(1.0)))
    _, tickets = late.predict(X[:3])
    late.learn(tickets, Y[:3, :1])
    _, (ticket,) = late.predict(X[3:4])
    late.learn(ticket, Y[3, :1])
    with pytest.raises(ValueError, match=r"a number, got \(3,\)"):
        late.learn(late.predict(X[4:5])[1][0], Y[4])
