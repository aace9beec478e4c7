"""Online IOKR: chunks of any size give the batch model."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

import ovk
from ovk import IOKR
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from ovk.structured import Delta, KSpectrum

rng = np.random.default_rng(0)
X, X_new = rng.standard_normal((60, 2)), rng.standard_normal((8, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1], X[:, 0] * X[:, 1]])
WORDS = ["ab" * (1 + int(3 * abs(a))) + "c" * (1 + int(3 * abs(b))) for a, b in X]
LABELS = np.where(X[:, 0] > 0, "right", "left")
K = Gaussian(1.0)

CASES = [
    ("vectors", IOKR(K, alpha=0.1, landmarks=X[:20]), Y),
    ("coupled", IOKR(K * MixedEffect(0.5), alpha=0.1, landmarks=X[:20]), Y),
    ("words", IOKR(K, KSpectrum(2), 0.1, landmarks=X[:20], output_landmarks=WORDS[:15]), WORDS),
    ("labels", IOKR(K, Delta(), 0.1, landmarks=X[:20], output_landmarks=["left", "right"]), LABELS),
]
EACH = pytest.mark.parametrize(("model", "y"), [pytest.param(m, y, id=name) for name, m, y in CASES])


@EACH
@pytest.mark.parametrize("pieces", [[0, 60], [0, 7, 8, 33, 60]])
def test_chunks_give_the_batch_model(model, y, pieces):
    batch, stream = clone(model).fit(X, y), clone(model)
    for a, b in pairwise(pieces):
        stream.partial_fit(X[a:b], y[a:b])
    np.testing.assert_allclose(stream.weights(X_new), batch.weights(X_new), atol=1e-6)
    assert len(stream.predict(X_new)) == 8
    if y is not Y:
        np.testing.assert_array_equal(stream.predict(X_new), batch.predict(X_new))
        assert list(stream.candidates_) == list(batch.candidates_)


@EACH
def test_a_saved_stream_continues(model, y, tmp_path):
    stream = clone(model).partial_fit(X[:30], y[:30])
    ovk.save(stream, tmp_path / "model.ovk")
    loaded = ovk.load(tmp_path / "model.ovk")
    for one in (stream, loaded):
        one.partial_fit(X[30:], y[30:])
    np.testing.assert_array_equal(loaded.weights(X_new), stream.weights(X_new))


def test_the_default_landmarks_are_the_first_rows():
    model = IOKR(K, KSpectrum(2), 0.1, landmarks=10, output_landmarks=6, random_state=0)
    model.partial_fit(X[:40], WORDS[:40]).partial_fit(X[40:], WORDS[40:])
    assert model.stream_.n_features_ <= 10
    assert len(model.anchors_) <= 6
    assert set(model.candidates_) == set(WORDS)
    assert IOKR(K).partial_fit(X, Y).predict(X_new).shape == (8, 3)


def test_fit_forgets_the_stream():
    model = IOKR(K, alpha=0.1).partial_fit(X[:5], Y[:5])
    model.fit(X, Y)
    np.testing.assert_array_equal(model.predict(X_new), IOKR(K, alpha=0.1).fit(X, Y).predict(X_new))
    with pytest.raises(AttributeError) as refused:
        model.partial_fit(X, Y)
    assert "cannot continue after fit" in str(refused.value.__cause__)


def test_bad_rows_raise_and_do_not_change_the_model():
    model = IOKR(K, Delta(), 0.1).partial_fit(X, LABELS)
    before = model.weights(X_new)
    with pytest.raises(ValueError, match="output 1 is orthogonal"):
        model.partial_fit(X[:2], ["left", "up"])
    with pytest.raises(ValueError, match="inconsistent"):
        model.partial_fit(X[:2], ["left"])
    np.testing.assert_array_equal(model.weights(X_new), before)
    for settings in ({"alpha": [0.1, 1.0]}, {"fit_intercept": True}, {"alpha_graph": 1.0}, {"operator": "covariance"}):
        assert not hasattr(IOKR(K, **settings), "partial_fit")
