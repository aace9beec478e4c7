"""Settings of `ovk fit`, `ovk stream`, `fit_file` and `learn`, and online learners by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

import numpy as np

from ovk.app.tables import Preparation
from ovk.base import Parameters, check_int, check_level, in_interval
from ovk.evaluation import CLASSIFICATION, DEFAULT_LEVEL, REGRESSION, Task
from ovk.features import LinearFourier
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, ScalarKernel
from ovk.online import OLOK, PKAWV, AutoStream, AutoStreamClassifier, OLOKClassifier, PKAWVClassifier
from ovk.operators import MixedEffect

KERNELS: dict[str, Callable[[], ScalarKernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
    "linear": Linear,
}

#: Online learners by name: (regressor, classifier).
MODELS: dict[str, tuple[type, type]] = {
    "olok": (OLOK, OLOKClassifier),
    "pkawv": (PKAWV, PKAWVClassifier),
    "autostream": (AutoStream, AutoStreamClassifier),
}

#: Maximum number of indicator inputs for a column of words in a stream.
MAX_STREAM_WORDS = 50

#: Minimum number of rows before the share of bad rows is checked.
MIN_ROWS_CHECKED = 10


def setting(
    help: str | dict[str, str],
    *default: Any,
    option: str | None = None,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> Any:
    """Declare a dataclass field that is also a command-line option (see `takes_settings`).

    `help` is the text of the option, or a dict of texts by command. Only `commands` have the option, by default all.
    The option has the name of the field unless `option` is given.
    """
    metadata = {"help": help, "option": option, "low": low, "high": high, "choices": choices, "commands": commands}
    return field(metadata=metadata, **({"default": default[0]} if default else {}))


_STREAM = ("stream",)
_COUPLING = "Coupling between the outputs, in [0, 1)."


@dataclass(eq=False, repr=False)
class Settings(Parameters):
    """Settings for learning from a table or stream, with the limits and help texts of the command-line options.

    Parameters
    ----------
    targets : list of str
        Output columns.
    features : list of str or None, default None
        Input columns; None uses all other columns.
    time : list of str, default ()
        Columns with the time of a row.
    lags : list of int, default ()
        Use the outputs from this many rows earlier as inputs.
    model : {"auto", "autostream", "pkawv", "olok"}, default "auto"
        Online learner for a stream.
    kernel : {"auto", "gaussian", "laplacian", "matern", "linear"}, default "auto"
        Scalar kernel; "auto" compares several on a table and is Gaussian on a stream.
    coupling : float in [0, 1) or None, default None
        Coupling between the outputs; None lets the model choose.
    warm_up : int, default 1000
        Rows that determine scaling and length scales; they are learned but not tested.
    block : int, default 4096
        Rows read at a time; results are bit-identical for the same block size.
    every : int, default 100000
        Rows between two checkpoints.
    max_bad : float, default 0.2
        Share of rows with unreadable cells above which learning stops with an error.
    horizon : int, default 24
        With lags: how many rows ahead forecasts are tested, to calibrate their intervals.
    classify : bool, default False
        Whether the target contains classes: words, or a few whole numbers.
    ignore : list of str, default ()
        Columns that are not used.
    groups : str or None, default None
        Column that identifies related rows of a table, such as those of a patient. It is not an input, and entire
        groups are held out: the choice of the kernel, errors and intervals then apply to unseen groups.
    level : float, default 0.9
        Nominal coverage of the intervals.

    See Also
    --------
    learn, fit_file

    Examples
    --------
    >>> from ovk.app.sessions import Settings
    >>> Settings(["y"], lags=[1]).differences(Settings(["y"], lags=[1, 2]))
    ['lags']
    """

    targets: Sequence[str] = setting("Output columns, separated by commas.")
    features: Sequence[str] | None = setting(
        'Input columns, separated by commas; "" for none. [default: all others]', None
    )
    time: Sequence[str] = setting(
        "Columns with the time of a row, such as Date,Time: adds time of day, day of week and time of year to the "
        "inputs, and predictions show the time.",
        (),
    )
    lags: Sequence[int] = setting("Use the outputs from this many rows earlier as inputs, such as 1,2,60.", ())
    model: str = setting(
        "autostream (experts weighted by their errors: adapts to drift, fits nonlinear functions); pkawv (least "
        "squares on the inputs and 50 random features: ten or more times faster, does not adapt to drift, can be "
        "merged); olok (gradient steps on the last 1,000 rows: for many inputs). auto is autostream; pkawv with "
        "--kernel or --coupling; olok above 500 inputs.",
        "auto",
        choices=("auto", *MODELS),
        commands=_STREAM,
    )
    kernel: str = setting(
        {
            "fit": "auto compares several by leave-one-out; or gaussian, laplacian, matern, linear.",
            "stream": "gaussian (same as auto), laplacian, matern or linear; autostream chooses by itself.",
        },
        "auto",
        choices=("auto", *KERNELS),
    )
    coupling: float | None = setting(
        {"fit": f"{_COUPLING} [default: automatic]", "stream": f"{_COUPLING} [default: 0; autostream: automatic]"}, None
    )
    warm_up: int = setting(
        "Rows that determine scaling and length scales; they are not tested.", 1000, low=2, commands=_STREAM
    )
    block: int = setting("Rows read at a time.", 4096, low=1, commands=_STREAM)
    every: int = setting("Rows between two checkpoints.", 100_000, option="--checkpoint", low=1, commands=_STREAM)
    max_bad: float = setting(
        "Stop with an error if more than this share of the rows has unreadable cells.", 0.2, low=0, high=1
    )
    horizon: int = setting("With --lags: how many rows ahead forecasts are tested, for `ovk forecast`.", 24, low=0)
    classify: bool = setting("The target contains classes: words, or a few whole numbers.", False)
    ignore: Sequence[str] = setting("Columns that are not used, such as visit,id, separated by commas.", ())
    groups: str | None = setting(
        "Column that identifies related rows, such as patient. It is not used as an input, and entire groups are held "
        "out: errors and intervals then apply to unseen groups.",
        None,
        commands=("fit",),
    )
    level: float = setting("Nominal coverage of the intervals.", DEFAULT_LEVEL, commands=_STREAM)

    def check(self, *, options: bool = False) -> None:
        """Check all values; with `options`, messages name the command-line options."""
        names = {one.name: option_of(one) if options else one.name for one in fields(self)}
        for one in fields(self):
            value, low, high = getattr(self, one.name), one.metadata["low"], one.metadata["high"]
            choices = one.metadata["choices"]
            if choices and value not in choices:
                raise ValueError(f"{names[one.name]} must be one of {', '.join(choices)}, got {value!r}")
            if high is not None:
                in_interval(value, names[one.name], low, high)
            elif low is not None:
                check_int(value, names[one.name], least=low)
        if self.coupling is not None and not in_interval(self.coupling, names["coupling"], 0.0, 1.0) < 1:
            raise ValueError(f"{names['coupling']} must be below 1: at 1 all outputs would be equal")
        check_level(self.level, names["level"])
        asked = {"time": self.time, "lags": self.lags, "classify": self.classify}
        asked |= {"coupling": self.coupling is not None, "kernel": self.kernel != "auto"}
        for name, value in asked.items():
            if value and self.groups is not None:
                why = "groups are held out to choose kernel and penalties for numeric outputs"
                if name in ("time", "lags"):
                    why = "groups are held out regardless of row order"
                raise ValueError(f"groups and {name} cannot be combined ({why}): omit one of them")
        self._preparation().check_roles()

    def check_no_groups(self, advice: str) -> None:
        if self.groups is not None:
            raise ValueError(f"groups require a table that is learned as a whole: {advice}")

    def preparation(self, names: Sequence[str], label: str, max_levels: int = MAX_STREAM_WORDS) -> Preparation:
        """How rows with these columns become inputs and outputs; `label` names the table in messages."""
        self.check()
        return self._preparation(max_levels).bind(names, label)

    def _preparation(self, max_levels: int = MAX_STREAM_WORDS) -> Preparation:
        ignore = [*self.ignore, *([] if self.groups is None or self.groups in self.ignore else [self.groups])]
        columns = self.targets, self.features, self.time, self.lags
        return Preparation(*columns, max_levels, classify=self.classify, ignore=ignore)

    @property
    def task(self) -> Task[Any]:
        return CLASSIFICATION if self.classify else REGRESSION

    @property
    def time_ordered(self) -> bool:
        """Whether rows are ordered in time: later rows then test what was learned from earlier ones."""
        return bool(self.lags or self.time)

    @property
    def stream_kernel(self) -> str:
        return "gaussian" if self.kernel == "auto" else self.kernel

    def differences(self, other: Settings) -> list[str]:
        """Names of the settings that differ from those of another stream."""
        mine, theirs = ({**one.get_params(deep=False), "kernel": one.stream_kernel} for one in (self, other))
        # Lists and tuples of the same values are equal.
        return [name for name in mine if not np.array_equal(mine[name], theirs[name])]


def declared(settings: type, command: str) -> list[Field[Any]]:
    """The settings of a class that a command takes."""
    found: list[Field[Any]] = [one for one in fields(settings) if one.metadata]
    return [one for one in found if command in (one.metadata["commands"] or (command,))]


def option_of(setting: Field[Any]) -> str:
    option: str | None = setting.metadata["option"]
    return option or f"--{setting.name.replace('_', '-')}"


def check_bad_rows(bad: int, rows: int, last: tuple[int, str], label: str, max_bad: float) -> None:
    """Raise an error if `bad` of the first `rows` rows is more than the share `max_bad`; `last` is one of them."""
    if rows >= MIN_ROWS_CHECKED and bad > max_bad * rows:
        raise ValueError(
            f"{bad:,} of the first {rows:,} rows of {label} have unreadable cells (row {last[0]}: "
            f"{last[1]}), more than the limit of {max_bad:.0%}: correct these cells, skip the column "
            "(ignore, --ignore), or increase the limit (max_bad, --max-bad)"
        )


#: Rows that OLOK keeps: the cost per row is proportional to this number.
OLOK_WINDOW = 1000

#: Random frequencies of PKAWV.
PKAWV_FREQUENCIES = 50

#: Maximum number of inputs for a second-order learner, whose cost per row is quadratic in them.
MAX_SECOND_ORDER_INPUTS = 500


def make_model(
    name: str,
    kernel: str = "gaussian",
    coupling: float | None = None,
    n_features: int = 1,
    *,
    classify: bool = False,
    lags: bool = False,
) -> Any:
    """A new learner for standardised rows.

    "auto" is "autostream", which needs no settings; "pkawv" if a coupling or another kernel than the Gaussian is given;
    "olok" above 500 inputs, because the matrices of the others would not fit in memory. With `lags` among the inputs,
    "autostream" does not add the last output by itself: in a forecast of several steps it would be outdated.
    """
    if name == "auto":
        asked = coupling is not None or kernel != "gaussian"
        name = "olok" if n_features > MAX_SECOND_ORDER_INPUTS else "pkawv" if asked else "autostream"
    model: Any = MODELS[name][classify]
    if name == "autostream":
        # It chooses kernels and weights of experts by itself, for each output.
        return model(lag=False) if lags else model()
    linear = name == "pkawv" and kernel == "linear"
    chosen: Any = Gaussian() if linear else KERNELS[kernel]()
    if coupling:
        chosen = chosen * MixedEffect(coupling)
    common: dict[str, Any] = {"warm_up": 0, "on_invalid": "skip"}
    if name == "olok":
        return model(chosen, alpha=1e-4, schedule="auto", truncation=OLOK_WINDOW, **common)
    # Standardised outputs have variance 1: linear functions are hardly penalised, random features are.
    features = LinearFourier(0 if linear else PKAWV_FREQUENCIES, weight=10.0)
    return model(chosen, alpha=10.0, features=features, random_state=0, **common)
