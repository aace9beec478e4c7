"""OLOK for class labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._types import Array
from ovk.losses import as_loss, simplex_code
from ovk.losses.margin import MarginLoss
from ovk.online.first_order.olok import OLOK
from ovk.online.shared.code_classifier import CodedClassifier


class OLOKClassifier(CodedClassifier):
    """Online classification with operator-valued kernels.

    Two classes are one output with labels -1 and 1. Of more classes losses of such labels (hinge, logistic) take one
    output for each, one against the rest; other losses, such as `SimplexHinge`, take the corners of a regular simplex,
    K - 1 outputs for K classes.

    Parameters
    ----------
    kernel, alpha, schedule, truncation, average, discount, warm_up, max_support, on_invalid, fit_intercept : as in
        `OLOK`
    loss : name or loss of `ovk.losses`, optional
        By default the hinge loss.

    Attributes
    ----------
    classes_ : the labels
    learner_ : the `OLOK` that learns the codes of the labels

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOKClassifier
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = OLOKClassifier(Gaussian(1.0), alpha=1e-3, schedule=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1e-3,
        schedule: Any = None,
        loss: Any = None,
        truncation: Any = "auto",
        *,
        average: bool = False,
        discount: float = 1.0,
        warm_up: int | None = None,
        max_support: int = 100_000,
        on_invalid: str = "raise",
        fit_intercept: bool = False,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.schedule = schedule
        self.loss = loss
        self.truncation = truncation
        self.average = average
        self.discount = discount
        self.warm_up = warm_up
        self.max_support = max_support
        self.on_invalid = on_invalid
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _code(self, classes: int) -> Array:
        """A row of targets for each class."""
        if classes == 2:
            return np.array([[-1.0], [1.0]])
        # The loss of the learner, which knows what the default was when it began.
        margin = isinstance(as_loss(self.learner_.loss), MarginLoss)
        return 2.0 * np.eye(classes) - 1.0 if margin else simplex_code(classes)

    def _learner(self, classes: int) -> OLOK:
        return OLOK(**{**self.get_params(deep=False), "loss": "hinge" if self.loss is None else self.loss})
