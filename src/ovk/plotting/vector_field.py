"""A fitted vector field in the plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, FieldStyle, check_int
from ovk.plotting.display import ORANGE, Display


@dataclass(eq=False, repr=False)
class VectorFieldDisplay(Display):
    """A field on a grid, as arrows or as stream lines over its speed, with the observations.

    Parameters
    ----------
    x, y : (m,) coordinates of the grid
    vectors : (m, m, 2) the field; the first axis is y
    points, observed : (n, 2) where vectors were observed, and which; optional
    inlier : (n,) False at outliers, which are drawn as crosses; optional
    title : str

    Examples
    --------
    >>> from ovk import VectorField
    >>> from ovk.datasets import make_vector_field
    >>> from ovk.plotting import VectorFieldDisplay
    >>> sample = make_vector_field(40, random_state=0)
    >>> model = VectorField(alpha=0.01, criterion=None).fit(sample.data, sample.target)
    >>> VectorFieldDisplay.from_estimator(model, part="curl-free", plot=False).vectors.shape
    (25, 25, 2)
    """

    x: Array
    y: Array
    vectors: Array
    points: Array | None = None
    observed: Array | None = None
    inlier: Any = None
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        V: Any = None,
        *,
        part: str | None = None,
        grid: int = 25,
        height: float = 0.0,
        style: FieldStyle = "quiver",
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """The field over the box of the training points.

        Parameters
        ----------
        estimator : fitted `VectorField`
        X, V : (n, 2) observations to draw, optional; outliers of a robust fit are crossed out
        part : "curl-free", "div-free" or "rest", optional
            One part instead of the whole field.
        grid : points on each side
        height : third coordinate of the plane that is shown of a field in space
        style : "quiver" or "stream"
        """
        check_is_fitted(estimator)
        if style not in ("quiver", "stream"):
            raise ValueError(f"style must be 'quiver' or 'stream', got {style!r}")
        p = estimator.n_features_in_
        if p not in (2, 3) or estimator.n_outputs_ < 2:
            raise ValueError(
                f"VectorFieldDisplay draws fields in 2 or 3 dimensions, the model has {p} coordinates and "
                f"{estimator.n_outputs_} components"
            )
        support = np.asarray(estimator.X_fit_)[:, :2]
        low, high = support.min(axis=0), support.max(axis=0)
        margin = 0.05 * np.maximum(high - low, 1e-12 + 1e-3 * float(np.ptp(support)))
        m = check_int(grid, "grid", least=2)
        x, y = (np.linspace(low[k] - margin[k], high[k] + margin[k], m) for k in (0, 1))
        columns = [np.tile(x, m), np.repeat(y, m)] + [np.full(m * m, float(height))] * (p - 2)
        places = np.column_stack(columns)
        if part is None:
            values = np.asarray(estimator.predict(places))
        else:
            function = estimator.part(part)
            values = np.zeros((m * m, 2)) if function is None else function(places)
        points = observed = None
        if X is not None and V is not None:
            points, observed = np.asarray(X, dtype=float)[:, :2], np.asarray(V, dtype=float)[:, :2]
        inlier = getattr(estimator, "inliers_", None)
        if inlier is not None and (points is None or len(inlier) != len(points)):
            inlier = None
        title = "field" if part is None else f"{part} part"
        display = cls(x, y, values[:, :2].reshape(m, m, 2), points, observed, inlier, title)
        return display.plot(ax, style=style) if plot else display

    def plot(self, ax: Any = None, *, style: FieldStyle = "quiver") -> Self:
        """Draw arrows over the observations, or stream lines whose darkness and width are the speed."""
        ax = self._axes(ax, (5.2, 4.6))
        speed = np.linalg.norm(self.vectors, axis=2)
        top = max(float(speed.max()), 1e-300)
        arrows = {"angles": "xy", "scale_units": "xy", "scale": self._scale(top), "width": 0.004}
        field = (self.x, self.y, self.vectors[..., 0], self.vectors[..., 1])
        if self.points is not None and self.observed is not None:
            good = np.ones(len(self.points), dtype=bool) if self.inlier is None else np.asarray(self.inlier)
            ax.quiver(*self.points[good].T, *self.observed[good].T, color=ORANGE, label="observed", **arrows)
            if not good.all():
                ax.plot(*self.points[~good].T, "kx", markersize=4, alpha=0.6, label="outlier")
        if style == "stream":
            width = 0.5 + 2.0 * speed / top
            lines = ax.streamplot(*field, color=speed, cmap="cividis_r", linewidth=width, density=1.2).lines
        else:
            lines = ax.quiver(*field, speed, cmap="cividis_r", **arrows)
        ax.figure.colorbar(lines, ax=ax, label="speed", shrink=0.85)
        ax.set_aspect("equal")
        ax.set_title(self.title)
        if self.points is not None:
            ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, frameon=False)
        return self

    def _scale(self, top: float) -> float:
        """The fastest arrow is as long as one and a half cells of the grid."""
        cell = max(float(self.x[1] - self.x[0]), float(self.y[1] - self.y[0]))
        return top / (1.5 * cell) if cell > 0 else 1.0
