"""Usual alternatives for several outputs: regressors of scikit-learn and GPyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from typing import Any

import numpy as np
from reproduce.multitask_gp import installed, multitask_gp
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, train_test_split
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

#: Maximum rows, and rows times outputs, for Gaussian processes, whose cost is cubic.
GP_ROWS, GP_VALUES = 400, 400
PROCESS, MULTITASK = "GaussianProcessRegressor", "GPyTorch, multitask"


def forest(X: Any, Y: Any, groups: Any) -> Any:
    """`RandomForestRegressor()`."""
    return RandomForestRegressor(random_state=0).fit(X, _flat(Y))


def extra_trees(X: Any, Y: Any, groups: Any) -> Any:
    """`ExtraTreesRegressor()`."""
    return ExtraTreesRegressor(random_state=0).fit(X, _flat(Y))


def boosting(X: Any, Y: Any, groups: Any) -> Any:
    """`HistGradientBoostingRegressor()` for each output."""
    return MultiOutputRegressor(HistGradientBoostingRegressor(random_state=0)).fit(X, Y)


def kernel_ridge(X: Any, Y: Any, groups: Any) -> Any:
    """A Gaussian kernel of standardised inputs; width and alpha by group-wise five-fold cross-validation."""
    folds = KFold(5, shuffle=True, random_state=0) if groups is None else GroupKFold(5)
    width = X.shape[1]
    grid = {
        "kernelridge__alpha": np.logspace(-4, 1, 6),
        # 1 / (2 l^2) for lengths l of 1/4 to 8 times sqrt(p), about half the median distance of standardised rows.
        "kernelridge__gamma": 0.5 / (width * np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0]) ** 2),
    }
    ridge = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    search = GridSearchCV(ridge, grid, cv=folds, scoring="neg_mean_squared_error")
    model = TransformedTargetRegressor(search, transformer=StandardScaler(), check_inverse=False)
    return model.fit(X, Y, groups=groups)


def kernel_ridge_wide(X: Any, Y: Any, groups: Any) -> Any:
    """Gaussian and Laplacian kernels, 6 widths and 8 alphas each; chosen on at most 1,000 rows, fitted to all."""
    some = np.random.default_rng(0).permutation(len(X))[:1000]
    folds = KFold(5, shuffle=True, random_state=0) if groups is None else GroupKFold(5)
    widths = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
    alphas = np.logspace(-6, 1, 8)
    grid = [
        {"kernelridge__kernel": ["rbf"], "kernelridge__gamma": 0.5 / (X.shape[1] * widths**2)},
        {"kernelridge__kernel": ["laplacian"], "kernelridge__gamma": 1.0 / (X.shape[1] * widths)},
    ]
    grid = [{**one, "kernelridge__alpha": alphas} for one in grid]
    search = GridSearchCV(
        make_pipeline(StandardScaler(), KernelRidge()), grid, cv=folds, scoring="neg_mean_squared_error", refit=False
    )
    outputs = StandardScaler().fit(Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        search.fit(X[some], outputs.transform(Y)[some], groups=None if groups is None else groups[some])
        best = make_pipeline(StandardScaler(), KernelRidge()).set_params(**search.best_params_)
        return TransformedTargetRegressor(best, transformer=StandardScaler(), check_inverse=False).fit(X, Y)


def lightgbm(X: Any, Y: Any, groups: Any, trees: int = 100) -> Any:
    """`LGBMRegressor()` for each output."""
    from lightgbm import LGBMRegressor

    return MultiOutputRegressor(LGBMRegressor(n_estimators=trees, verbose=-1, n_jobs=1, random_state=0)).fit(X, Y)


def catboost(X: Any, Y: Any, groups: Any) -> Any:
    """`CatBoostRegressor()`, for several outputs with their joint loss."""
    from catboost import CatBoostRegressor

    loss = "RMSE" if Y.shape[1] == 1 else "MultiRMSE"
    how: dict[str, Any] = {"verbose": False, "thread_count": 1, "random_seed": 0, "allow_writing_files": False}
    return CatBoostRegressor(loss_function=loss, **how).fit(X, _flat(Y))


class RecursiveFeatureMachine(RegressorMixin, BaseEstimator):
    """`xRFM()`, which needs rows of its own for validation: a fifth of them."""

    def fit(self, X: Any, y: Any) -> RecursiveFeatureMachine:
        """Fit in single precision, as xRFM's examples do."""
        from xrfm import xRFM

        rows, validation = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)
        X, y = np.float32(X), np.float32(y).reshape(len(X), -1)
        self.model_ = xRFM(device="cpu", random_state=0, n_threads=1, verbose=False)
        with redirect_stdout(StringIO()):
            self.model_.fit(X[rows], y[rows], X[validation], y[validation])
        return self

    def predict(self, X: Any) -> Any:
        """(m, d) predictions."""
        return self.model_.predict(np.float32(X))


def xrfm(X: Any, Y: Any, groups: Any) -> Any:
    """A recursive feature machine on standardised inputs and outputs."""
    model = make_pipeline(StandardScaler(), RecursiveFeatureMachine())
    return TransformedTargetRegressor(model, transformer=StandardScaler(), check_inverse=False).fit(X, Y)


def gaussian_process(X: Any, Y: Any, groups: Any) -> Any:
    """A Gaussian kernel and noise chosen by the evidence, shared by the outputs."""
    kernel = ConstantKernel() * RBF(np.sqrt(X.shape[1])) + WhiteKernel()
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, Y)


class MultitaskProcess:
    """GPyTorch's multitask regression, a Matern 5/2 and an index kernel of rank 1, of standardised rows and outputs.

    GPyTorch's model takes the test rows when it is trained, so `predict` does both.
    """

    def __init__(self, X: Any, Y: Any) -> None:
        self._inputs, self._outputs = StandardScaler().fit(X), StandardScaler().fit(Y)
        self._X, self._Y = self._inputs.transform(X), self._outputs.transform(Y)

    def predict(self, X: Any) -> Any:
        """(m, d) predictions."""
        d = self._Y.shape[1]

        def every(rows: Any) -> tuple[Any, Any]:
            return np.repeat(rows, d, axis=0), np.tile(np.arange(d), len(rows))

        new, task = every(self._inputs.transform(X))
        found = multitask_gp(*every(self._X), self._Y.ravel(), new, task, d=d, rank=1, nu=2.5, ard=False)
        return self._outputs.inverse_transform(found.reshape(-1, d))


def multitask_process(X: Any, Y: Any, groups: Any) -> Any:
    """`MultitaskProcess`, where GPyTorch is installed."""
    return MultitaskProcess(X, Y)


def feasible(name: str, X: Any, Y: Any) -> bool:
    """Whether a regressor takes seconds rather than minutes for this size."""
    if name == MULTITASK:
        return bool(np.size(Y) <= GP_VALUES)
    return name != PROCESS or len(X) <= GP_ROWS


def _flat(Y: Any) -> Any:
    return Y[:, 0] if Y.shape[1] == 1 else Y


#: Strong alternatives for tables, and the package of each.
STRONG: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "LightGBM": ("lightgbm", lightgbm),
    "LightGBM, 1,000 trees": ("lightgbm", partial(lightgbm, trees=1000)),
    "CatBoost": ("catboost", catboost),
    "xRFM": ("xrfm", xrfm),
    "ExtraTrees": ("sklearn", extra_trees),
    "KernelRidge, wide grid": ("sklearn", kernel_ridge_wide),
}
#: Regressors by reported name.
REGRESSORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "RandomForestRegressor": forest,
    "ExtraTreesRegressor": extra_trees,
    "HistGradientBoosting": boosting,
    "KernelRidge, grid search": kernel_ridge,
    PROCESS: gaussian_process,
    **({MULTITASK: multitask_process} if installed() else {}),
}
