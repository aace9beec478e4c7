"""Parts and derivatives of a fitted vector field."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._types import Array
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.expansion import Expansion
from ovk.ovkernels import CurlFree, DivFree, OperatorKernel, WeightedSum


class FieldParts(NamedTuple):
    """Values of the parts of a field, each (n, d): they add up to the prediction.

    `curl_free` is a gradient, `div_free` has no sources, `rest` is what kernels of neither kind and the constant gave.
    """

    curl_free: Array
    div_free: Array
    rest: Array


class FieldCalculus(OVKRegressor, saved=False):
    """Curl-free and divergence-free parts, curl and divergence, all in closed form."""

    def part(self, name: str) -> Expansion | None:
        """One part of the field as a function: "curl-free", "div-free" or "rest"; None where there is none."""
        check_is_fitted(self)
        kinds: dict[str, list[tuple[float, OperatorKernel]]] = {"curl-free": [], "div-free": [], "rest": []}
        if name not in kinds:
            raise ValueError(f"a part is one of {', '.join(map(repr, kinds))}, got {name!r}")
        for weight, term in self.kernel_.summands():
            kind = "curl-free" if isinstance(term, CurlFree) else "div-free" if isinstance(term, DivFree) else "rest"
            kinds[kind].append((weight, term))
        whole_field = self.expansion_
        offset = whole_field.offset if name == "rest" else None
        chosen = kinds[name]
        if not chosen:
            if offset is None:
                return None
            chosen = [(0.0, self.kernel_.summands()[0][1])]
        kernel = WeightedSum([term for _, term in chosen], [weight for weight, _ in chosen])
        return Expansion(kernel, whole_field.support, whole_field.C, offset)

    def decompose(self, X: Any) -> FieldParts:
        """The parts of the field at each row of X; they add up to `predict(X)`."""
        check_is_fitted(self)
        X = self._check_inputs(X, reset=False)
        parts = [self.part(name) for name in ("curl-free", "div-free", "rest")]
        zero = np.zeros((X.shape[0], self.n_outputs_))
        return FieldParts(*[zero.copy() if part is None else part(X) for part in parts])

    def divergence(self, X: Any) -> Array:
        """Divergence of the field at each row of X, in closed form, (n,)."""
        J = self._square_jacobian(X, "divergence")
        return np.asarray(np.einsum("nii->n", J))

    def curl(self, X: Any) -> Array:
        """Curl of the field at each row of X, in closed form: (n,) in the plane, (n, 3) in space."""
        J = self._square_jacobian(X, "curl")
        if J.shape[1] == 2:
            return np.asarray(J[:, 1, 0] - J[:, 0, 1])
        if J.shape[1] != 3:
            raise ValueError(f"curl is for fields in 2 or 3 dimensions, this one has {J.shape[1]}")
        return np.stack([J[:, 2, 1] - J[:, 1, 2], J[:, 0, 2] - J[:, 2, 0], J[:, 1, 0] - J[:, 0, 1]], axis=1)

    def _square_jacobian(self, X: Any, what: str) -> Array:
        check_is_fitted(self)
        if self.n_outputs_ != self.n_features_in_:
            raise ValueError(
                f"{what} needs a field with as many components as coordinates, this one has {self.n_outputs_} and "
                f"{self.n_features_in_}"
            )
        return self.jacobian(X)
