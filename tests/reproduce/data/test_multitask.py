"""Tasks in a common subspace: rank, and the distribution of the publication."""

import numpy as np
import pytest

from reproduce.data import make_multitask


@pytest.mark.parametrize("rank", [1, 3, 5, 8])
def test_multitask_has_the_rank(rank):
    tasks = make_multitask(200, 12, 20, rank=rank, noise=0, random_state=0)
    assert tasks.data.shape == (200, 12)
    assert tasks.target.shape == (200, 20)
    assert np.linalg.matrix_rank(tasks.coef) == rank
    assert not tasks.coef[rank:].any()
    np.testing.assert_allclose(tasks.target, tasks.data @ tasks.coef)
    assert len(tasks.feature_names) == 12
    assert len(tasks.target_names) == 20


def test_multitask_follows_the_publication():
    tasks = make_multitask(200, 6, 20000, random_state=0)
    np.testing.assert_allclose(np.cov(tasks.coef[:5]), np.diag([1, 0.64, 0.49, 0.36, 0.25]), atol=0.03)
    assert tasks.data.min() > 0
    assert tasks.data.max() < 1
    assert np.std(tasks.target - tasks.data @ tasks.coef) == pytest.approx(0.1, rel=1e-2)


def test_reproducible_by_every_kind_of_random_state():
    for state in (lambda: 3, lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)):
        X, y = make_multitask(20, noise=0.1, random_state=state(), return_X_y=True)
        again = make_multitask(20, noise=0.1, random_state=state())
        np.testing.assert_array_equal(X, again.data)
        np.testing.assert_array_equal(y, again.target)
    assert not np.array_equal(X, make_multitask(20, random_state=4).data)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rank": 51}, "rank must be at most n_features"),
        ({"n_samples": 0}, "n_samples must be an integer"),
        ({"noise": -1}, "noise must be"),
    ],
)
def test_arguments_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_multitask(**wrong)
