"""A small table like those of the world, written to a file."""

import csv

import numpy as np


def series(path, n=1500, *, seed=0, missing=0.05):
    """A table of the world: a date and a time, a word, a number, two outputs with gaps."""
    rng = np.random.default_rng(seed)
    y = np.cumsum(rng.standard_normal((n, 2)) * 0.3, axis=0)
    y = 0.9 * np.tanh(y) + np.sin(np.arange(n) / 30)[:, None]
    words = np.array(["red", "blue", "green"])[rng.integers(0, 3, n)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["Date", "Time", "word", "x", "a", "b"])
        for i in range(n):
            minutes = 17 * 60 + 24 + i
            day, rest = divmod(minutes, 1440)
            gone = rng.uniform(size=2) < missing
            cells = ["?" if g else f"{v:.4f}" for g, v in zip(gone, y[i], strict=True)]
            date = f"{16 + day}/12/2006"
            writer.writerow([date, f"{rest // 60:02d}:{rest % 60:02d}:00", words[i], f"{rng.normal():.3f}", *cells])
    return path
