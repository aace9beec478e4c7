"""Which points are landmarks, in all the forms that a user may pass, and the random numbers that draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ovk._params import check_int
from ovk.features.rpcholesky import as_rpcholesky
from ovk.targets import Targets

#: Rows from which length scales are learned before landmarks are chosen.
RESOLVING = 2000


def choose_landmarks(landmarks: Any, X: Any, random_state: Any, resolved: Callable[[Any], Any]) -> Any:
    """The landmarks (m, p) that a user means: points, how many rows of X are drawn uniformly, or how they are chosen.

    `resolved` gives the kernel for some rows.
    """
    selection = as_rpcholesky(landmarks)
    if selection is not None:
        rows = X[:: max(1, X.shape[0] // RESOLVING)]
        return selection.points(resolved(rows), X, new_generator(random_state))
    if isinstance(landmarks, (int, np.integer)) and not isinstance(landmarks, bool):
        m = min(check_int(landmarks, "landmarks"), X.shape[0])
        chosen = X[np.sort(as_generator(random_state).choice(X.shape[0], size=m, replace=False))]
        return chosen if sparse.issparse(chosen) else np.array(chosen, dtype=np.float64)
    try:
        points = np.asarray(landmarks, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.asarray(landmarks, dtype=object)
    if points.dtype == object or points.ndim != 2 or points.shape[1] != X.shape[1] or len(points) == 0:
        raise ValueError(
            f"landmarks must be a whole number, 'rpcholesky' or points with {X.shape[1]} features, got "
            + (f"shape {points.shape}" if points.ndim else repr(landmarks))
        )
    if not np.isfinite(points).all():
        raise ValueError("landmarks must hold finite numbers, got nan or inf")
    return points


def rows_to_choose_from(landmarks: Any, parts: Iterator[tuple[Any, Targets]]) -> tuple[list[tuple[Any, Targets]], Any]:
    """The first chunks, enough to choose landmarks from, and their inputs; these rows are still to be learned."""
    selection = as_rpcholesky(landmarks)
    count = landmarks if selection is None else selection.size
    wanted = 10 * count if isinstance(count, (int, np.integer)) else 1
    head: list[tuple[Any, Targets]] = []
    for part in parts:
        head.append(part)
        if sum(X.shape[0] for X, _ in head) >= wanted:
            break
    if not head:
        raise ValueError("the iterator of chunks is empty: there is nothing to learn from")
    first = [X for X, _ in head]
    return head, sparse.vstack(first, format="csr") if sparse.issparse(first[0]) else np.concatenate(first)


def as_generator(random_state: Any) -> Any:
    """A generator that a user gave, or one made from what scikit-learn takes as `random_state`."""
    return random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)


def new_generator(random_state: Any) -> np.random.Generator:
    """NumPy's generator for what scikit-learn takes as `random_state`."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31))
