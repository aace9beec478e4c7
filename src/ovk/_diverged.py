"""Learning calls that would leave the range of numbers, or run away, are refused before the learner changes."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ovk._types import Array

#: Inputs beyond this can have values of a kernel that are not finite.
LARGE = 1e50


class _Kernel(Protocol):
    def norm_bound(self) -> float | None: ...

    def diagonal_blocks(self, X: Array) -> Array: ...


class Diverged(ValueError):
    """A learner was about to run away: predictions that are not finite, or a function that grows without limit.

    Nothing of the call was learned, and the learner can go on with other rows. The message has the step, the cause and
    what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, Diverged
    >>> from ovk.kernels import Linear
    >>> X = 10 * np.random.default_rng(0).standard_normal((300, 2))
    >>> try:
    ...     OLOK(Linear(), schedule=1.0).fit(X, X)
    ... except Diverged as error:
    ...     print(str(error)[:24])
    OLOK diverged at step 7:
    """


def refuse_overflow(learner: object, kernel: _Kernel, X: Array) -> None:
    """Refuse inputs for which K(x, x) is not a finite number."""
    if len(X) and np.abs(X).max() > LARGE and kernel.norm_bound() is None:
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(kernel.diagonal_blocks(X)).all(axis=(1, 2))
        if not finite.all():
            row = X[int(finite.argmin())]
            raise Diverged(
                f"{type(learner).__name__} cannot learn inputs as large as {np.abs(row).max():.3g}: the kernel's value "
                "K(x, x) is not finite there. Scale X, for instance with StandardScaler; nothing was learned"
            )


def refuse_not_finite(learner: object, step: int, Z: Array, X: Array, Y: Array) -> None:
    """Refuse predictions Z (n, d) of the rows after so many steps, if they are not finite."""
    finite = np.isfinite(Z).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise Diverged(
            f"{type(learner).__name__} cannot go on behind step {step}: its prediction {row} rows later is not finite. "
            f"Inputs go up to {np.abs(X).max():.3g} and outputs up to {np.nanmax(np.abs(Y), initial=0.0):.3g}: bring "
            "both to a scale of about 1, and check that the kernel is finite and positive semi-definite; nothing was "
            "learned"
        )


def refuse_endless(model: object, values: Array) -> None:
    """Refuse predictions (n, ...) that are not finite: they would pass for answers."""
    if not np.isfinite(values).all():
        row = int(np.isfinite(values).all(axis=tuple(range(1, values.ndim))).argmin())
        raise Diverged(
            f"{type(model).__name__} has no finite prediction for row {row} of X: the kernel's values are not finite "
            "there. Leave the row out, or scale inputs before fitting, for instance with StandardScaler"
        )


#: What fitting learns under these names enters every prediction.
LEARNED = ("dual_coef_", "intercept_", "weights_")


def refuse_endless_model(model: object) -> None:
    """Refuse what was learned if it is not finite."""
    for name in LEARNED:
        found = vars(model).get(name)
        if isinstance(found, np.ndarray) and found.dtype.kind == "f" and not np.isfinite(found).all():
            raise Diverged(
                f"{type(model).__name__} learned numbers that are not finite ({name}): inputs or outputs are too large "
                "or too small for their squares, or the kernel is not finite. Bring both to a scale of about 1; "
                "nothing was learned"
            )
