"""Laws of sample weights: in scores they are repetitions; a factor shared with the penalty changes no function."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ovk
from ovk import OVKRidge
from ovk.kernels import Gaussian, Polynomial
from ovk.operators import Integral, MixedEffect
from ovk.ovkernels import CurlFree, DivFree

RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(-2, 2, (36, 2)), RNG.uniform(-2, 2, (8, 2))
Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1])]) + 0.2 * RNG.standard_normal((36, 2))
GAPS = np.where(RNG.random(Y.shape) < 0.2, np.nan, Y)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y[:, 0], [-0.4, 0.5])]
WEIGHT = RNG.uniform(0.2, 3.0, 36)
K, SCALAR = Gaussian(1.0) * MixedEffect(0.5), Gaussian(1.0)
FIELD = CurlFree(Gaussian(1.0)) + DivFree(Gaussian(1.0))

SCORED = {
    "OVKRidge": (lambda: OVKRidge(K, 0.5), Y),
    "OVKRidgeCV": (lambda: ovk.OVKRidgeCV(K, [0.1, 1.0]), Y),
    "FunctionalRidge": (lambda: ovk.FunctionalRidge(SCALAR * Integral(), 0.5), Y),
    "OperatorRidge": (lambda: ovk.OperatorRidge(SCALAR, alpha=0.5), Y),
    "VectorField": (lambda: ovk.VectorField(FIELD, 0.5, criterion=None), Y),
    "MovKL": (lambda: ovk.MovKL([SCALAR * Integral(), Polynomial(2) * Integral()], 0.5), Y),
    "MultiTaskSVR": (lambda: ovk.MultiTaskSVR(K), Y),
    "IOKR": (lambda: ovk.IOKR(SCALAR, Gaussian(1.0), 0.5), Y),
    "KAWV": (lambda: ovk.KAWV(K, 0.5), Y),
    "PKAWV": (lambda: ovk.PKAWV(K, 0.5), Y),
    "OLOK": (lambda: ovk.OLOK(K, 0.1), Y),
    "OVKClassifier": (lambda: ovk.OVKClassifier(SCALAR, 0.5), LABELS),
    "MovKLClassifier": (lambda: ovk.MovKLClassifier([SCALAR * Integral(), Polynomial(2) * Integral()], 0.5), LABELS),
    "MultiTaskSVC": (lambda: ovk.MultiTaskSVC(SCALAR), LABELS),
    "OLOKClassifier": (lambda: ovk.OLOKClassifier(SCALAR, 0.1), LABELS),
    "PKAWVClassifier": (lambda: ovk.PKAWVClassifier(SCALAR, 0.5), LABELS),
}


@pytest.mark.parametrize("name", SCORED)
def test_weights_of_a_score_are_repetitions(name):
    make, y = SCORED[name]
    model, count = make().fit(X[:20], y[:20]), np.arange(16) % 4
    rows = np.repeat(np.arange(20, 36), count)
    assert model.score(X[20:], y[20:], count.astype(float)) == pytest.approx(model.score(X[rows], y[rows]))


FORMS = {
    "plain": {},
    "without intercept": {"fit_intercept": False},
    "an alpha for each output": {"alpha": np.array([0.2, 0.7])},
    "Huber": {"loss": "huber"},
    "tiles": {"solver": "tiles"},
    "single precision": {"dtype": "float32"},
    "conjugate gradients": {"solver": "cg"},
    "landmarks": {"landmarks": X[::3]},
    "neighbours": {"alpha_graph": 0.1},
    "field": {"kernel": FIELD},
    "field with landmarks": {"kernel": FIELD, "landmarks": X[::3]},
}
KINDS = ("complete", "gaps", "long form")
#: Forms that do not support all of them.
SUPPORTED = {"tiles": KINDS[:1], "single precision": KINDS[:1], "neighbours": KINDS[:2]}


@pytest.mark.parametrize(
    ("form", "kind"), [(form, kind) for form in FORMS for kind in KINDS if kind in SUPPORTED.get(form, KINDS)]
)
def test_a_common_factor_of_weights_and_penalty_changes_no_function(form, kind):
    """alpha / w is the variance of the noise: predictions, deviations and leave-one-out residuals stay."""
    options = {"kernel": K, "alpha": 0.4, **FORMS[form]}
    rows, task, y = np.arange(36), None, Y if kind == "complete" else GAPS
    if kind == "long form":
        pair = np.arange(0, 72, 3)
        rows, task, y = pair // 2, pair % 2, Y.ravel()[pair]
    found = []
    for factor in (1.0, 50.0):
        scaled = {name: factor * options[name] for name in ("alpha", "alpha_graph") if name in options}
        model = OVKRidge(**{**options, **scaled}).fit(X[rows], y, factor * WEIGHT[rows], task=task)
        results = [model.predict(NEW)]
        if form != "neighbours":
            results += [model.predict(NEW, return_std=True, of="posterior")[1]]
        if form != "neighbours" and "landmarks" not in options:
            results += [model.loo_residuals(), model.predict(NEW, return_std=True, of="function")[1]]
        found.append(results)
    size = 1e-5 if form == "single precision" else 1e-8
    for one, other in zip(*found, strict=True):
        assert_allclose(other, one, rtol=size, atol=size)
