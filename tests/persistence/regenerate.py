"""The golden files: a small fitted model of every public estimator, with answers that it must still give when loaded.

``python tests/persistence/regenerate.py`` writes the files that are missing; with names it writes those again. Files
are compressed, since tables of counts are mostly zeros.
"""

from __future__ import annotations

import gzip
import inspect
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF

import ovk
from ovk import curves, evaluation, features, kernels, operators, ovkernels, structured
from ovk.app.serve import Checkpoint
from ovk.app.serve.log import Entry
from ovk.app.serve.protocol import RequestRows
from ovk.app.sessions import GroupErrors, Settings, fit_table, learn
from ovk.app.tables import Batch, open_records
from ovk.base.state import registered
from ovk.batch import TuningInfo
from ovk.evaluation import Chunk
from ovk.evaluation.scaling_and_drift import Scaling
from ovk.kernels import Gaussian, Linear, Matern
from ovk.objectives import L1, Trace
from ovk.online import BOA, MLPoly, Window
from ovk.online.experts.expert_set import ExpertSet
from ovk.online.experts.mixture import ExpertMixture
from ovk.operators import Identity, Integral, MixedEffect
from ovk.ovkernels import Expansion
from ovk.persistence import save
from ovk.solvers import PenaltySum

DIRECTORY = Path(__file__).parent / "golden"

# Formulas rather than draws: the questions are the same with every version of NumPy.
_I = np.arange(1.0, 31.0)
X = np.column_stack([np.sin(_I**2), np.cos(3 * _I**2)]).round(3)
Y = np.column_stack([X[:, 0] * X[:, 1], X[:, 0] - X[:, 1]]).round(3)
HOLES = np.where(np.arange(60).reshape(30, 2) % 7 == 0, np.nan, Y)
LABELS = np.where(X[:, 0] > 0.4, "cat", np.where(X[:, 1] > 0, "dog", "oak"))
FIRST, THEN, NEW = slice(0, 20), slice(20, 30), X[:3] + 0.05
CURVES = np.sin(_I[:, None] * np.array([0.1, 0.2, 0.4, 0.7, 1.1])).round(3)
POINTS = np.array([0.0, 0.1, 0.4, 0.7, 1.0])
WORDS = ["ab" * (1 + i % 3) + "c" * (i % 4) for i in range(12)]
PATH = np.eye(12, k=1) + np.eye(12, k=-1)
TABLE = "day,word,x,y\n" + "".join(
    f"2024-01-{1 + i % 28:02d},{'red' if 7 * i % 11 > 4 else 'blue'},{7 * i % 11},{3 * i % 7}\n" for i in range(40)
)
ROWS = Batch([["2024-02-01", "2024-02-02"], ["red", "blue"], ["3", "?"], ["1", "2"]], [1, 2], [])
K = Gaussian(0.5) * MixedEffect(0.5)
FOURIER = features.Fourier(3)
CHOSEN = features.Nystrom(features.KORS(), budget=5)
ON_CURVES = [Gaussian(0.7) * Identity(), Linear() * Integral()]


def is_estimator(cls: type) -> bool:
    """Whether a class has its own golden file."""
    return any(hasattr(cls, method) for method in ("fit", "predict", "predictor", "regions_then_learn"))


# What is saved -----------------------------------------------------------------------------------------------------


def stream(learner: Any, outputs: Any = Y) -> Any:
    return learner.partial_fit(X[FIRST], outputs[FIRST])


def classes(learner: Any) -> Any:
    return learner.partial_fit(X[FIRST], LABELS[FIRST], classes=["cat", "dog", "oak"])


def rule(aggregation: Any) -> Any:
    aggregation.predict_then_learn(EXPERTS[FIRST], Y[FIRST])
    return aggregation


EXPERTS = np.stack([Y + 0.1, Y[::-1], 0 * Y], axis=1)


def intervals(method: Any) -> Any:
    method.regions_then_learn(0 * Y[FIRST], Y[FIRST])
    return method


def table(made: Callable[..., Any], **settings: Any) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "t.csv"
        path.write_text(TABLE, encoding="utf-8")
        with open_records(path) as records:
            return made(records, Settings(["word" if settings.get("classify") else "y"], **settings))


def session(**settings: Any) -> Any:
    return table(learn, model="pkawv", kernel="linear", warm_up=20, block=10, **settings)


def delayed() -> Any:
    learner = evaluation.WithIntervals(ovk.OLOK(K, truncation=5))
    model = evaluation.DelayedLabels(learner, n_outputs=2)
    _, tickets = model.predict_regions(X[FIRST])
    model.learn(tickets[:15], Y[:15])
    model.predict_regions(X[THEN])
    return model


def checkpoint() -> Any:
    learner = ovk.PKAWV(K, features=FOURIER, random_state=0).fit(X[FIRST], Y[FIRST])
    rows, labels = RequestRows.of_matrix(X[THEN]), RequestRows.of_matrix(Y[THEN])
    return Checkpoint.start({"a": learner}).after(1, Entry("request 1", rows, labels))


def experts(n: int, d: int, change: int) -> Any:
    """A learner of experts with few candidates, so that its file is small, after an abrupt change at a row."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, (n, 1))
    f = np.where(np.arange(n) < change, 1, -8) * np.sin(3 * inputs[:, 0])
    outputs = np.column_stack([f, 2 * f + 1]) + 0.05 * rng.standard_normal((n, 2))
    outputs[1::3, 1] = np.nan
    few = {"_refit_rows": (15,)}, {"_rows_compared": 20, "_widths": (1.0,)}
    with patch.multiple(ExpertMixture, **few[0]), patch.multiple(ExpertSet, **few[1]):
        return ovk.AutoStream().fit(inputs, outputs[:, :d])


def states() -> list[Any]:
    """Models with the private states that the other files do not have."""
    import pandas as pd

    def pkawv(plan: Any, **options: Any) -> Any:
        return stream(ovk.PKAWV(K, 0.1, plan, random_state=0, **options))

    frame = pd.DataFrame({"a": X[:, 0], "word": LABELS})
    chunk = Chunk(X[FIRST], Y[FIRST], ("a", "b"), ("y", "z"))
    evaluator = evaluation.Evaluator.start(ovk.OLOK(K, truncation=5), [], Scaling(), chunk, intervals=evaluation.ACI())
    evaluator.predict_then_learn(chunk, tested=True)
    classifier = ovk.OVKClassifier(Gaussian(0.5)).fit(X, LABELS)
    return [
        *(pkawv(features.Nystrom(one)) for one in (features.ALD(0.2), features.Uniform(size=3), features.Given(X[:3]))),
        *(pkawv(FOURIER, discount=0.9), pkawv(FOURIER, window=8), pkawv(FOURIER, loss="huber")),
        stream(ovk.OLOK(Gaussian() * MixedEffect(0.5), warm_up=50)),
        *(ovk.OVKRidge(kernel, 0.1, landmarks=X[:3]).fit(X, HOLES) for kernel in (K, K + Linear() * Identity())),
        ovk.OVKRidgeCV(alphas=[0.1]).fit(frame, pd.DataFrame(Y, columns=["y", "z"])),
        ovk.IOKR(Gaussian(0.5), structured.KSpectrum(2), 0.1, output_landmarks=WORDS[:4]).fit(X[:12], WORDS),
        *(evaluator, Checkpoint.start({"a": classifier})),
        *(Checkpoint.start({"a": one}) for one in (table(fit_table), table(fit_table, classify=True))),
        *(experts(70, 1, 60), experts(20, 2, 20)),
        *(pkawv(features.LinearFourier(2)), pkawv(features.OperatorFourier(2)), pkawv(features.Taylor(2))),
    ]


def parts() -> list[Any]:
    """An object of every other class that a file may name; `kernels.Function` cannot be saved."""
    others = [cls for cls in registered() if cls.__module__.startswith("ovk.") and not is_estimator(cls)]
    arguments = {cls: inspect.signature(cls).parameters.values() for cls in others if not inspect.isabstract(cls)}
    plain = [cls() for cls, some in arguments.items() if all(one.default is not one.empty for one in some)]
    k, grid, nodes = Gaussian(0.7), curves.Grid(POINTS), PATH[:3, :3]
    two, field = k * Identity(2), ovkernels.CurlFree(k, 2)
    refitted = evaluation.RefittedRidge()
    refitted.predict_then_learn(X, Y)
    return [
        *plain,
        *(grid, curves.ProductGrid([curves.Components(2), grid])),
        *(2.0 * (k + Linear()) * Matern(1.5, 2.0), kernels.SklearnKernel(RBF(0.9)), kernels.Mapped(k, np.eye(2))),
        *(kernels.OnColumns(k, [1, 0]), kernels.Periodic(k), kernels.OnCurves(k, grid)),
        *(operators.Dense(np.eye(2)), operators.LowRank([[1.0], [0.5]], 0.1), operators.TensorProduct([Identity(2)])),
        *(
            operators.GraphLaplacian(sparse.csr_array(nodes), 0.5),
            operators.Cluster("aba"),
            operators.Tree([[0, 2], 1]),
        ),
        *(field + 0.5 * ovkernels.DivFree(k, 2), two & two, ovkernels.Diagonal([k, Linear()])),
        *(ovkernels.Transformable(k, [np.eye(2)]), PenaltySum([L1(), Trace()])),
        TuningInfo("evidence", 1.0, 2.0, [1.0], 5, ["alpha"]),
        *(features.Given(X[:2]), Expansion(field, X[:2], Y[:2]), ovk.OKVAR().fit([X]).network(top_k=1)),
        *(structured.Hierarchy({"cat": "pet", "pet": "all"}), structured.Diffusion(nodes)),
        *(structured.RegularizedLaplacian(nodes), GroupErrors.of(0 * Y, Y, np.arange(30) // 3), refitted),
    ]


def values() -> dict[str, Any]:
    """One value of every type in format 1."""
    from persistence import toys

    generator = np.random.Generator(np.random.PCG64(7))
    generator.integers(0, 9, 3, dtype=np.uint32)
    random = np.random.RandomState(7)
    random.standard_normal(1)
    base = np.arange(6).reshape(2, 3)
    keys = {1: "a", "1": "b", (1, 2): "c"}
    return {
        "plain": [None, True, 3, -(2**70), 0.1, -0.0, float("inf"), "é\0\ud800", b"\0\xff"],
        "containers": ((1, [2]), keys, {1, "x"}, frozenset({2.5})),
        "numbers": [base.astype(code) for code in "?bhiqBHIQefd"],
        "layouts": [np.asfortranarray(base * 0.5), np.array(2.5), np.empty((0, 2))],
        "text": [np.array(["ab", "é"]), np.array([b"ab"]), np.array(["x0", None], dtype=object)],
        "times": [np.array(["2024-02-29", "NaT"], "M8[D]"), np.array([3], "m8[25s]")],
        "scalars": [np.float32(0.1), np.int64(-3), np.bool_(True), np.str_("s"),
                    np.bytes_(b"b"), np.datetime64("2024-01-01T12", "h")],
        "sparse": [kind(base) for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array,
                                           sparse.csc_matrix, sparse.coo_array, sparse.coo_matrix)],
        "random": [generator, random, generator, random, *(np.random.Generator(kind(3)) for kind in (
            np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM))],
        "objects": [toys.Kernel(2.0, ("a",)), toys.Window(3), toys.Record(np.arange(2), "note")],
        "estimator": toys.Ridge(toys.Kernel(0.5), lambda_=0.1).fit(base * 1.0, base * 2.0),
    }  # fmt: skip


# What is asked: arrays of numbers, each compared to rounding. Learners go on as well. ---------------------------------


def nothing(model: Any) -> list[Any]:
    return []


def predict(model: Any) -> list[Any]:
    return [model.predict(NEW)]


def on_curves(model: Any) -> list[Any]:
    return [model.predict(CURVES[:3]), model.predict(CURVES[:3], grid=[0.2, 0.9])]


def scores(model: Any) -> list[Any]:
    return [model.decision_function(NEW)]


def chances(model: Any) -> list[Any]:
    return [model.predict_proba(NEW)]


def go_on(model: Any) -> list[Any]:
    return [model.predict(NEW), model.predict_then_learn(X[THEN], HOLES[THEN]), model.predict(NEW)]


def go_on_with_classes(model: Any) -> list[Any]:
    before = chances(model)
    model.predict_then_learn(X[THEN], LABELS[THEN])
    return before + chances(model)


def regions(model: Any) -> list[Any]:
    found = model.regions_then_learn(0 * Y[THEN], Y[THEN])
    return [found.lower, found.upper]


def of_rows(model: Any) -> list[Any]:
    model.preparation.bind(["day", "word", "x", "y"])
    found = model.predictor().predict(ROWS)
    return [found.F] if found.widths is None else [found.F, found.widths]


def rows_then_learn(model: Any) -> list[Any]:
    before = of_rows(model)
    model.predict_then_learn(ROWS)
    return before + of_rows(model)


def prepared(model: Any) -> list[Any]:
    model.bind(["day", "word", "x", "y"])
    return [model.prepare(ROWS).chunk.X]


#: What makes the content of each file, and what it is asked.
CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], list[Any]]]] = {
    "values": (values, nothing),
    "parts": (parts, nothing),
    "states": (states, lambda models: [model.predict(NEW) for model in models[:9]]),
    "OVKRidge": (lambda: ovk.OVKRidge(K + 0.3 * Linear() * Identity(), 0.1).fit(X[:12], HOLES[:12]), predict),
    "OVKRidgeCV": (lambda: ovk.OVKRidgeCV().fit(X, Y), predict),
    "OVKClassifier": (lambda: ovk.OVKClassifier(Gaussian(0.5)).fit(X, LABELS), chances),
    "OVKClassifierCV": (lambda: ovk.OVKClassifierCV(Gaussian(0.5), [0.1, 1.0]).fit(X, LABELS), chances),
    "OutputKernelRidge": (lambda: ovk.OutputKernelRidge(Gaussian(0.5), 0.1).fit(X, Y), predict),
    "GradientMetric": (lambda: ovk.GradientMetric().fit(X, Y), lambda model: [model.transform(NEW)]),
    "FunctionalRidge": (lambda: ovk.FunctionalRidge(ON_CURVES[1], 0.1, grid=POINTS).fit(CURVES, CURVES), on_curves),
    "FunctionalRidgeCV": (lambda: ovk.FunctionalRidgeCV(grid=POINTS).fit(CURVES, CURVES), on_curves),
    "MovKL": (lambda: ovk.MovKL(ON_CURVES, 0.1, grid=POINTS).fit(CURVES, CURVES), on_curves),
    "MovKLCV": (lambda: ovk.MovKLCV(ON_CURVES, [0.1, 1.0], grid=POINTS).fit(CURVES, CURVES), on_curves),
    "MovKLClassifier": (
        lambda: ovk.MovKLClassifier(ON_CURVES, 0.1, grid=POINTS).fit(CURVES, (CURVES > 0).astype(int)),
        lambda model: [model.predict_proba(CURVES[:3])],
    ),
    "VectorField": (lambda: ovk.VectorField(restarts=1).fit(X, Y), lambda model: [*predict(model), model.curl(NEW)]),
    "OKVAR": (lambda: ovk.OKVAR(Gaussian(1.0), 0.5, L1(0.01), True, lag=2).fit([X]), lambda m: [m.predict(X[:5])]),
    "OperatorRidge": (
        lambda: ovk.OperatorRidge([Linear(), Gaussian(1.5)], [1e-4, 1e-2], output_grid=POINTS).fit(CURVES, CURVES),
        on_curves,
    ),
    "MultiTaskSVC": (lambda: ovk.MultiTaskSVC(K).fit(X, np.where(Y > 0, 1, 0)), chances),
    "MultiTaskSVR": (lambda: ovk.MultiTaskSVR(K).fit(X, Y), predict),
    "IOKR": (lambda: ovk.IOKR(Gaussian(0.5), structured.KSpectrum(2), 0.1).fit(X[:12], WORDS), scores),
    "LinkPredictor": (
        lambda: ovk.LinkPredictor(Gaussian(0.5), alpha=0.1).fit(X[:12], PATH),
        lambda model: [model.score_pairs(NEW)],
    ),
    "OLOK": (lambda: stream(ovk.OLOK(K, 0.1, truncation=Window(7), average=True), HOLES), go_on),
    "KAWV": (lambda: stream(ovk.KAWV(K, 0.1), HOLES), go_on),
    "PKAWV": (lambda: stream(ovk.PKAWV(K, 0.1, CHOSEN, random_state=0), HOLES), go_on),
    "OnlineMovKL": (
        lambda: stream(ovk.OnlineMovKL([K, Linear() * Identity()], ovk.OLOK(truncation=5))),
        lambda model: [model.predict(NEW), model.predict_then_learn(X[THEN], Y[THEN])],
    ),
    "OnlineMovKL-sums": (
        lambda: stream(ovk.OnlineMovKL([K, Linear() * Identity()], against="sums")),
        lambda model: [model.predict(NEW), model.predict_then_learn(X[THEN], Y[THEN])],
    ),
    "OnlineOperator": (
        lambda: stream(ovk.OnlineOperator(ovk.OLOK(K, truncation=5), warm_up=10)),
        lambda model: [model.predict(NEW), model.predict_then_learn(X[THEN], Y[THEN])],
    ),
    "AutoStream": (lambda: stream(ovk.AutoStream()), go_on),
    "AutoStreamClassifier": (lambda: classes(ovk.AutoStreamClassifier()), go_on_with_classes),
    "OLOKClassifier": (lambda: classes(ovk.OLOKClassifier(Gaussian(0.5), truncation=5)), go_on_with_classes),
    "PKAWVClassifier": (
        lambda: classes(ovk.PKAWVClassifier(Gaussian(0.5), features=FOURIER, random_state=0)),
        go_on_with_classes,
    ),
    "NoveltyDetector": (lambda: ovk.NoveltyDetector(Gaussian(0.5), nu=0.5).fit(X), scores),
    "MLPoly": (lambda: rule(MLPoly()), lambda model: [model.predict_then_learn(EXPERTS[THEN], Y[THEN])]),
    "BOA": (lambda: rule(BOA()), lambda model: [model.predict_then_learn(EXPERTS[THEN], Y[THEN])]),
    "ACI": (lambda: intervals(evaluation.ACI(0.8)), regions),
    "ConformalPID": (lambda: intervals(evaluation.ConformalPID(0.8, region="box", season=7)), regions),
    "RollingConformal": (lambda: intervals(evaluation.RollingConformal(0.8)), regions),
    "COP": (lambda: intervals(evaluation.COP(0.8, region="ellipsoid")), regions),
    "StronglyAdaptive": (lambda: intervals(evaluation.StronglyAdaptive(0.8, region="ellipsoid")), regions),
    "WithIntervals": (
        lambda: stream(evaluation.WithIntervals(ovk.OLOK(K, truncation=5), 0.8)),
        lambda model: [model.predict_then_learn(X[THEN], Y[THEN]), model.predict_regions(NEW).upper],
    ),
    "DelayedLabels": (delayed, lambda model: [model.predict(NEW)[0]]),
    "Preparation": (lambda: session(lags=[1]).preparation, prepared),
    "Session": (lambda: session(lags=[1], horizon=2), rows_then_learn),
    "Session of classes": (lambda: session(classify=True), rows_then_learn),
    "TableModel": (lambda: table(fit_table, lags=[1], kernel="gaussian", level=0.5), of_rows),
    "TableModel of classes": (lambda: table(fit_table, classify=True, kernel="gaussian"), of_rows),
    "Checkpoint": (checkpoint, lambda state: predict(state.model)),
}


def content(name: str) -> dict[str, Any]:
    """What the golden file of that name holds: the model, and the answers of a copy that the questions changed."""
    make, ask = CASES[name]
    return {"model": make(), "answers": ask(make())}


def golden_file(name: str) -> Path:
    return DIRECTORY / f"{name}.ovk.gz"


def regenerate(name: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        save(content(name), Path(directory) / "model.ovk")
        raw = (Path(directory) / "model.ovk").read_bytes()
    golden_file(name).write_bytes(gzip.compress(raw, mtime=0))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    for name in sys.argv[1:] or [name for name in CASES if not golden_file(name).exists()]:
        regenerate(name)
        print(golden_file(name), golden_file(name).stat().st_size)
