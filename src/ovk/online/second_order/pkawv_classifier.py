"""PKAWV for class labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._types import Array
from ovk.features import FeaturePlan
from ovk.losses import simplex_code
from ovk.online.second_order.pkawv import PKAWV
from ovk.online.shared.code_classifier import CodedClassifier


class PKAWVClassifier(CodedClassifier):
    """Online classification by the projected kernel forecaster: ridge regression of the labels' codes.

    Two classes are one output with labels -1 and 1.

    Parameters
    ----------
    kernel, alpha, features, forecaster, discount, window, warm_up, on_invalid, random_state : as in `PKAWV`
    coding : "simplex" or "one-vs-rest"
        More than two classes as the corners of a regular simplex, K - 1 outputs for K classes, or as K outputs, 1 for
        the class and -1 for the rest. The kernel couples these outputs.

    Attributes
    ----------
    classes_ : the labels
    learner_ : the `PKAWV` that learns the codes of the labels

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import PKAWVClassifier
    >>> from ovk.features import Nystrom, Uniform
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = PKAWVClassifier(Gaussian(1.0), alpha=0.1, features=Nystrom(Uniform(size=50))).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    learner_: PKAWV

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1.0,
        features: FeaturePlan | None = None,
        *,
        coding: str = "simplex",
        forecaster: str = "awv",
        discount: float = 1.0,
        window: int | None = None,
        warm_up: int | None = None,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.features = features
        self.coding = coding
        self.forecaster = forecaster
        self.discount = discount
        self.window = window
        self.warm_up = warm_up
        self.on_invalid = on_invalid
        self.random_state = random_state

    @property
    def support_(self) -> Array:
        """As in `PKAWV`."""
        return self.learner_.support_

    def _code(self, classes: int) -> Array:
        if self.coding not in ("simplex", "one-vs-rest"):
            raise ValueError(f"coding must be 'simplex' or 'one-vs-rest', got {self.coding!r}")
        if classes == 2:
            return np.array([[-1.0], [1.0]])
        return simplex_code(classes) if self.coding == "simplex" else 2.0 * np.eye(classes) - 1.0

    def _learner(self, classes: int) -> PKAWV:
        shared = self.get_params(deep=False)
        del shared["coding"]
        return PKAWV(**shared)
