"""Predictions as numbered files, of which a checkpoint says how many are valid."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from ovk.persistence.atomic import replacing
from ovk.sessions.predictions import Predictions

_NAME = re.compile(r"part-(\d{6})\.csv")


class Lines:
    """Predictions as lines of a CSV file: number of the row, then predictions and ends of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.sessions import Predictions
    >>> lines = Lines(["y"])
    >>> print(lines.header + "".join(lines.of(Predictions([7], np.array([[0.5]]), np.array([0.25])))))
    row,y,y low,y high
    7,0.5,0.25,0.75
    <BLANKLINE>
    """

    def __init__(self, outputs: list[str]) -> None:
        text = io.StringIO()
        names = ["row", *outputs, *(f"{name} {end}" for end in ("low", "high") for name in outputs)]
        csv.writer(text, lineterminator="\n").writerow(names)
        self.header = text.getvalue()
        self._line = "%d" + ",%.9g" * (3 * len(outputs)) + "\n"

    def of(self, predictions: Predictions) -> Iterator[str]:
        """A line for each row."""
        F, widths = predictions.F, predictions.widths
        ends = zip(predictions.rows, F.tolist(), (F - widths).tolist(), (F + widths).tolist(), strict=True)
        return (self._line % (row, *f, *low, *high) for row, f, low, high in ends)


class Parts:
    """A folder of files part-000000.csv, part-000001.csv, ..., each complete or not there.

    A line holds the number of a row in its file, then for each output its prediction and the ends of its interval.

    Parameters
    ----------
    folder : where to; made if it does not exist
    outputs : names of the outputs
    done : parts that belong to the state of the model
    resumed : later parts were written by a run that was killed before it could save its model: remove them. Otherwise
        parts that are there already are somebody's, and refused

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ovk.sessions import Parts, Predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = Parts(folder, ["y"])
    ...     parts.add(Predictions([7, 8], np.array([[0.5], [1.0]]), np.array([0.25])))
    ...     with open(f"{folder}/part-00000{parts.commit() - 1}.csv") as file:
    ...         print(file.read())
    row,y,y low,y high
    7,0.5,0.25,0.75
    8,1,0.75,1.25
    <BLANKLINE>
    """

    def __init__(self, folder: str | Path, outputs: list[str], done: int = 0, *, resumed: bool = False) -> None:
        self.folder, self.done = Path(folder), done
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lines = Lines(outputs)
        self._text: list[str] = []
        for path in self.folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match and int(match[1]) >= done:
                if not resumed:
                    raise ValueError(
                        f"{self.folder} holds predictions already ({path.name}): give another folder, or go on with "
                        "the model they belong to (--resume)"
                    )
                path.unlink()
            elif path.name.startswith(".ovk-") and path.suffix == ".tmp":
                path.unlink()

    def add(self, predictions: Predictions) -> None:
        """Take predictions into the part that is being written."""
        self._text.append("".join(self._lines.of(predictions)))

    def commit(self) -> int:
        """Write the part, if there is anything in it; the number of parts there are now."""
        text = "".join(self._text)
        if text:
            with replacing(str(self.folder / f"part-{self.done:06d}.csv")) as file:
                file.write((self._lines.header + text).encode())
            self.done += 1
            self._text = []
        return self.done
