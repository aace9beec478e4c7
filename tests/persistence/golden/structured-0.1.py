"""Fitted models of structured outputs, one for each kernel of outputs."""

import numpy as np

from ovk import IOKR, LinkPredictor
from ovk.kernels import Gaussian, Linear, Precomputed, Tanimoto
from ovk.structured import (
    Delta,
    Diffusion,
    Hierarchy,
    Jaccard,
    Kendall,
    KSpectrum,
    LabelThresholds,
    MeanMap,
    Mismatch,
    RandomWalk,
    RegularisedLaplacian,
)

rng = np.random.default_rng(0)
X = rng.uniform(size=(12, 2)).round(3)
new = rng.uniform(size=(4, 2)).round(3)
words = ["ab" * (1 + i % 3) + "c" * (i % 4) for i in range(12)]
labels = ["cat", "dog", "oak"] * 4
sets = [set(word) | {len(word)} for word in words]
bits = (np.arange(12)[:, None] >> np.arange(4)) & 1
ranks = rng.permuted(np.tile(np.arange(4.0), (12, 1)), axis=1)
path = np.eye(12, k=1) + np.eye(12, k=-1)
tree = {"cat": "pet", "dog": "pet", "pet": "all", "oak": "all"}


def make():
    k = Gaussian(0.5)
    outputs = {
        "delta": (Delta(), labels),
        "hierarchy": (Hierarchy(tree), labels),
        "jaccard": (Jaccard(), sets),
        "mean map": (MeanMap(Delta()), [list(word) for word in words]),
        "spectrum": (KSpectrum(2), words),
        "mismatch": (Mismatch(2, 1), words),
        "kendall": (Kendall(), ranks),
        "diffusion": (Diffusion(path, 0.5), list(range(12))),
        "regularised laplacian": (RegularisedLaplacian(path), list(range(12))),
        "random walk": (RandomWalk(path), list(range(12))),
        "precomputed": (Precomputed(Diffusion(path, 0.5)(range(12))), np.arange(12)),
        "fingerprints": (Tanimoto(), bits),
        "vectors": (Linear(), ranks),
    }
    models = {name: IOKR(k, kernel, 0.1).fit(X, y) for name, (kernel, y) in outputs.items()}
    return {
        **models,
        "labels": IOKR(k, alpha=[0.1, 1.0], decoder=LabelThresholds(0.4), fit_intercept=True).fit(X, bits),
        "sketched": IOKR(k, KSpectrum(2), 0.1, landmarks=X[:5], output_landmarks=words[:4]).fit(X, words),
        "half": IOKR(k, KSpectrum(2), 0.1, alpha_graph=0.1, n_neighbors=3).fit(X[:8], words[:8], unlabelled=X[8:]),
        "stream": IOKR(k, KSpectrum(2), 0.1, landmarks=X[:5])
        .partial_fit(X[:9], words[:9])
        .partial_fit(X[9:], words[9:]),
        "links": LinkPredictor(k, alpha=0.1).fit(X, path),
    }


def check(loaded):
    made = make()
    for name, model in made.items():
        if name == "links":
            np.testing.assert_allclose(loaded[name].score_pairs(new), model.score_pairs(new), atol=1e-9)
            assert np.isclose(loaded[name].threshold_, model.threshold_)
            continue
        # Scores rather than pre-images: outputs that the kernel cannot tell apart are tied, and rounding decides.
        np.testing.assert_allclose(
            loaded[name].decision_function(new), model.decision_function(new), atol=1e-8, err_msg=name
        )
        assert len(loaded[name].predict(new)) == len(new)
    later = [models["stream"].partial_fit(new, words[:4]).decision_function(X) for models in (loaded, made)]
    np.testing.assert_allclose(*later, atol=1e-8)
