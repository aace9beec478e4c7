"""Made-up rows for the tests of serving."""

import numpy as np


def rows(n, seed=0):
    """(n, 3) inputs and (n, 2) outputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]]) + 0.05 * rng.standard_normal((n, 2))
    return X, Y


def table(n, seed=0):
    """Lines of a table with a word, a number, and two outputs."""
    rng = np.random.default_rng(seed)
    words = rng.choice(["red", "blue"], n)
    x = rng.uniform(-2, 2, n)
    a = np.where(words == "red", 1.0, -1.0) + x
    return [(str(word), float(u), float(v), float(2 * u)) for word, u, v in zip(words, x, a, strict=True)]
