"""Fits and predictions of torch tensors on a device, relative to NumPy, scikit-learn and himalaya.

    python -m benchmarks.device --device cuda

Times are wall-clock times, medians of interleaved repetitions after one that is not counted. Every number is divided
by that of `OVKRidge` with NumPy arrays. Without himalaya its rows are omitted. NumPy takes about three minutes on one
thread for the default numbers of rows, nearly all for eigenvectors of 5,000 rows. With `--device cpu` it also
computes with ovk's tensors.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# scikit-learn checks the variable when dispatch is switched on.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

ALPHA, INPUTS, OUTPUTS = 0.1, 10, 8
SCALE = float(np.sqrt(INPUTS))


def contenders(n: int, device: str, dtype: str) -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """A fit and a prediction by name; both wait until the device is done."""
    import sklearn
    import torch
    from sklearn.kernel_ridge import KernelRidge

    from ovk import OVKRidge, OVKRidgeCV
    from ovk.kernels import Gaussian
    from ovk.operators import MixedEffect

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, INPUTS)).astype(dtype)
    Y = np.sin(X @ rng.standard_normal((INPUTS, OUTPUTS))).astype(dtype)
    there = [torch.as_tensor(A, device=device) for A in (X, Y)]
    K = Gaussian(SCALE) * MixedEffect(0.5)

    def dispatched(call: Callable[[], Any]) -> Any:
        with sklearn.config_context(array_api_dispatch=True):
            result = call()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return result

    def pair(make: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
        return lambda: make().fit(X, Y), lambda model: model.predict(X)

    def on_device(make: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
        return (
            lambda: dispatched(lambda: make().fit(*there)),
            lambda model: dispatched(lambda: model.predict(there[0])),
        )

    models: dict[str, Callable[[], Any]] = {
        "OVKRidge": lambda: OVKRidge(K, ALPHA),
        "OVKRidge, 500 landmarks": lambda: OVKRidge(K, ALPHA, landmarks=500, random_state=0),
        "OVKRidgeCV, 25 alphas": lambda: OVKRidgeCV(K, landmarks=None),
    }
    found = {}
    for name, make in models.items():
        found[f"{name}, NumPy"] = pair(make)
        found[f"{name}, torch"] = on_device(make)
    gamma = 0.5 / SCALE**2
    found["scikit-learn KernelRidge, NumPy"] = pair(lambda: KernelRidge(kernel="rbf", gamma=gamma, alpha=ALPHA))
    try:
        from himalaya.backend import set_backend
        from himalaya.kernel_ridge import KernelRidge as Himalaya
    except ImportError:
        return found

    def himalaya() -> Any:
        set_backend("torch_cuda" if device.startswith("cuda") else "torch")
        return Himalaya(kernel="rbf", kernel_params={"gamma": gamma}, alpha=ALPHA).fit(*there)

    found["himalaya KernelRidge, torch"] = himalaya, lambda model: np.asarray(model.predict(there[0]).cpu())
    return found


def ratios(n: int, device: str, dtype: str, rounds: int) -> dict[str, tuple[float, float]]:
    """Medians of fit and prediction, relative to the first contender."""
    tried = contenders(n, device, dtype)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in tried}
    for number in range(rounds + 1):
        for name, (fit, predict) in tried.items():
            start = time.perf_counter()
            model = fit()
            middle = time.perf_counter()
            predict(model)
            if number:
                times[name].append((middle - start, time.perf_counter() - middle))
    medians = {name: [statistics.median(each) for each in zip(*pairs, strict=True)] for name, pairs in times.items()}
    first = next(iter(medians.values()))
    return {name: (fit / first[0], predict / first[1]) for name, (fit, predict) in medians.items()}


def main(arguments: list[str] | None = None) -> None:
    """Print a table for each number of rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__)
    parser.add_argument("--device", default="cuda", help="of torch: cuda, cuda:1, cpu")
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 5000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    for n in options.rows:
        print(f"{n} rows, {INPUTS} inputs, {OUTPUTS} outputs, {options.dtype}, {options.device}")
        for name, (fit, predict) in ratios(n, options.device, options.dtype, options.rounds).items():
            print(f"  {name:40} fit {fit:6.2f}  predict {predict:6.2f}", flush=True)


if __name__ == "__main__":
    main()
