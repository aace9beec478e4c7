"""Learned thresholds, and many kernels on a stream, at a small size."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk import NoveltyDetector, OnlineMovKL
from ovk.kernels import Gaussian
from reproduce import norma, online_kernels
from reproduce.data import load_codrna, load_wine

pytestmark = pytest.mark.long


def test_nu_is_the_share_of_rows_on_the_wrong_side(need, monkeypatch):
    need(load_codrna)
    need(load_wine)
    monkeypatch.setattr(norma, "STEPS", (3.0,))
    promised = [row for row in [*norma.margins(None, 2000), *norma.tubes(None)] if row.published is not None]
    assert len(promised) == 2 * 3 + 3
    for row in promised:
        assert row.ours == pytest.approx(row.published, abs=3.0), row.name


def test_a_share_nu_of_inputs_is_taken_for_new():
    X = np.random.default_rng(0).standard_normal((600, 3))
    assert norma.flagged(NoveltyDetector(Gaussian(1.0), 0.2, 1e-3, 1.0), X) == pytest.approx(0.2, abs=0.03)


def test_the_best_combination_is_that_of_a_search():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((50, 2))
    Z = np.stack([Y + 0.5 + 0.3 * rng.standard_normal((50, 2)), Y - 0.3, rng.standard_normal((50, 2))])
    q = online_kernels.best_combination(Z, Y)
    tries = rng.dirichlet(np.ones(3), 20_000)
    least = min(float(((np.einsum("k,knd->nd", w, Z) - Y) ** 2).sum()) for w in tries)
    found = float(((np.einsum("k,knd->nd", q, Z) - Y) ** 2).sum())
    assert_allclose(q.sum(), 1.0)
    assert q.min() >= 0.0
    assert found <= least <= 1.001 * found


def test_combinations_beat_learners_that_see_one_input_each():
    stream = online_kernels.made("sum", 600, np.random.default_rng(0))
    stream = stream._replace(kernels=stream.kernels[:4], even=False)
    found, allowed = online_kernels.errors(stream)
    combined, best = found["OnlineMovKL, against combinations"], found["the best combination, known afterwards"]
    assert best < combined < found["the best learner, known afterwards"]
    assert combined - best < allowed
    # What is compared with are the forecaster's own learners.
    model = OnlineMovKL(stream.kernels, bound=1.0, even=False).fit(stream.X, stream.Y)
    assert_allclose(model.losses_.min() / 600, found["the best learner, known afterwards"])
