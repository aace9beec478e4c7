"""Names of outputs: where Y is a data frame, predictions are a frame of its kind with its columns.

An estimator that learned from a frame keeps an `OutputFrame`; one that learned from arrays keeps nothing, and all
that naming costs it is a look at an attribute.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np

from ovk.base.state import State

V = TypeVar("V")

LIBRARIES = ("pandas", "polars")
#: What names are kept as; all others are turned into text, which a file can hold.
KEPT = (str, int, float)


@dataclass
class OutputFrame(State):
    """The kind of frame that Y was, and its columns.

    Attributes
    ----------
    library : "pandas" or "polars"
    names : of the columns; text, numbers, or tuples of these where pandas has several levels

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from ovk.base.frames import OutputFrame
    >>> frame = OutputFrame.from_targets(pd.DataFrame({"zinc": [1.0], "lead": [2.0]}))
    >>> frame.named(np.array([[3.0, 4.0]]), np.zeros((1, 5)))
       zinc  lead
    0   3.0   4.0
    >>> OutputFrame.from_targets(np.zeros((1, 2))) is None
    True
    """

    library: str
    names: list[Any]

    def __post_init__(self) -> None:
        if self.library not in LIBRARIES or not isinstance(self.names, list) or self.names != _kept(self.names):
            raise ValueError(f"a frame is of {' or '.join(LIBRARIES)} with names of columns, got {self!r}")

    @classmethod
    def from_targets(cls, y: Any) -> OutputFrame | None:
        """The frame that y is, or None where it is none."""
        library = library_of(y)
        return None if library is None else cls(library, _kept(list(y.columns)))

    def texts(self) -> list[str]:
        """The names as text."""
        return ["/".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in self.names]

    def named(self, values: Any, X: Any) -> Any:
        """Values (n, d) as a frame, with the index of X where both are of pandas; the array without the library."""
        try:
            library = import_module(self.library)
        except ImportError:
            return values
        mixed = values.dtype == object
        if self.library == "polars":
            columns = {name: values[:, q].tolist() if mixed else values[:, q] for q, name in enumerate(self.names)}
            return library.DataFrame(columns)
        frame = library.DataFrame(values, columns=self.names, index=X.index if library_of(X) == "pandas" else None)
        return frame.infer_objects() if mixed else frame


class NamedOutputs:
    """Mixin of estimators of several outputs: they learn the names of Y's columns and name their predictions."""

    #: Set by learning from a frame.
    output_frame_: OutputFrame | None = None
    _state_classes: ClassVar[Any] = {"output_frame_": OutputFrame}

    n_outputs_: int

    @property
    def output_names_(self) -> list[str]:
        """Names of the outputs: the columns of Y where it was a data frame, else "y0", "y1", ..."""
        frame = self.output_frame_
        return [f"y{q}" for q in range(self.n_outputs_)] if frame is None else frame.texts()

    def _learn_names(self, y: Any, d: int) -> None:
        """Take the names of d outputs from what is learned first; a single column in long form has none."""
        self.__dict__.pop("output_frame_", None)
        frame = OutputFrame.from_targets(y)
        if frame is not None and len(frame.names) == d:
            self.output_frame_ = frame

    def _check_names(self, y: Any) -> None:
        """Refuse a frame whose columns are not those that were learned."""
        known = self.output_frame_
        if known is None or type(y) is np.ndarray:
            return
        frame = OutputFrame.from_targets(y)
        if frame is not None and frame.texts() != known.texts():
            raise ValueError(
                f"y has the columns {', '.join(frame.texts())} but the model learned {', '.join(known.texts())}: give "
                "the same columns in the same order"
            )

    def _named(self, values: V, X: Any) -> V:
        """Predictions at the rows X as a user gets them: values of all outputs are named, all else is left as it is."""
        frame = self.output_frame_
        if frame is None:
            return values
        if isinstance(values, tuple):
            return tuple(self._named(part, X) for part in values)  # type: ignore[return-value]
        whole = isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == len(frame.names)
        return frame.named(values, X) if whole else values


def library_of(frame: Any) -> str | None:
    """Whose data frame it is, or None where it is none; nothing is imported to find out."""
    if isinstance(frame, np.ndarray):
        return None
    for library in LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and isinstance(frame, getattr(module, "DataFrame", ())):
            return library
    return None


def unnamed(values: Any) -> Any:
    """Arrays of numbers in place of frames, nan where a value is missing; in a tuple as well."""
    if isinstance(values, tuple):
        return tuple(map(unnamed, values))
    library = library_of(values)
    if library == "pandas":
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    return values if library is None else values.to_numpy()


def _kept(names: list[Any]) -> list[Any]:
    return [_kept_name(name) for name in names]


def _kept_name(name: Any) -> Any:
    if isinstance(name, tuple):
        return tuple(map(_kept_name, name))
    plain = name.item() if isinstance(name, np.generic) else name
    return plain if type(plain) in KEPT else str(plain)
