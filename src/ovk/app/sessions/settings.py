"""The settings of `ovk fit`, `ovk stream`, `fit_file` and `learn`, declared once; and online learners by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from ovk.app.tables import Preparation, Records
from ovk.base import Parameters, check_int, in_interval
from ovk.evaluation import CLASSIFICATION, LEVEL, REGRESSION, Task
from ovk.features import LinearFourier
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, ScalarKernel
from ovk.online import OLOK, PKAWV, AutoStream, AutoStreamClassifier, OLOKClassifier, PKAWVClassifier
from ovk.operators import MixedEffect
from ovk.ovkernels import OperatorKernel

#: Kernels by name.
KERNELS: dict[str, Callable[[], ScalarKernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
    "linear": Linear,
}

#: Online learners by name: of numbers, and of classes.
MODELS: dict[str, tuple[type, type]] = {
    "olok": (OLOK, OLOKClassifier),
    "pkawv": (PKAWV, PKAWVClassifier),
    "autostream": (AutoStream, AutoStreamClassifier),
}

#: Most indicators of a column of words in a stream.
MAX_STREAM_WORDS = 50

#: The share of bad rows is checked from this number of rows on.
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
    """A field of a class whose settings are command-line options (`takes_settings` of the command line).

    `help` is what the option says, of each command where that differs; only `commands` have it, by default all that
    take the settings of the class. The option is named after the field, unless `option` says otherwise.
    """
    metadata = {"help": help, "option": option, "low": low, "high": high, "choices": choices, "commands": commands}
    return field(metadata=metadata, **({"default": default[0]} if default else {}))


_STREAM = ("stream",)
_COUPLING = "How much the outputs have in common: at least 0, below 1."


@dataclass(eq=False, repr=False)
class Settings(Parameters):
    """What a user chose for a session; a session that is resumed must be asked for the same.

    Command-line options, limits and help texts come from this declaration.

    Parameters
    ----------
    targets, features, time, lags : as in `ovk.app.tables.Preparation`
    model : one of `MODELS`
    kernel : "gaussian", "laplacian", "matern" or "linear"; "auto" tries several on a table, and is the Gaussian one on
        a stream
    coupling : float in [0, 1), how much outputs have in common; None leaves it to the model
    warm_up : rows for scaling and bandwidth, learned but not tested
    block : rows read at a time; the same block gives the same bits
    every : rows between two checkpoints
    max_bad : share of rows with unreadable cells above which learning stops with an error
    horizon : with lags, how many rows ahead forecasts are tested along the way, to know their intervals
    classify : the target holds classes, words or whole numbers of few values
    ignore : columns that are not inputs
    groups : column that tells which rows of a table belong together, such as those of a patient. It is not an input,
        and entire groups are held out where kernels are compared, errors measured and intervals made: they are then
        valid for new groups
    level : how often intervals should hold the outcome: those of the predictions, and those that are tested and shown

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
        "Columns with the time of a row, such as Date,Time: adds the time of day, the day of the week and the time of "
        "year to the inputs, and predictions show the time.",
        (),
    )
    lags: Sequence[int] = setting("Use the outputs from this many rows earlier as inputs, such as 1,2,60.", ())
    model: str = setting(
        "autostream (experts that are weighted by their errors: follows drift and curved functions); pkawv (least "
        "squares on the inputs and 50 random features: ten times as fast, forgets nothing, can be merged); olok "
        "(gradient steps on the last 1,000 rows: for many inputs). auto is autostream; pkawv with --kernel or "
        "--coupling; olok above 500 inputs.",
        "auto",
        choices=("auto", *MODELS),
        commands=_STREAM,
    )
    kernel: str = setting(
        {
            "fit": "auto tries several by leave-one-out; or gaussian, laplacian, matern, linear.",
            "stream": "gaussian (auto is the same), laplacian, matern or linear; autostream chooses.",
        },
        "auto",
        choices=("auto", *KERNELS),
    )
    coupling: float | None = setting(
        {"fit": f"{_COUPLING} [default: chosen]", "stream": f"{_COUPLING} [default: 0; autostream chooses]"}, None
    )
    warm_up: int = setting(
        "First rows, which set scaling and kernel width; they are not tested.", 1000, low=2, commands=_STREAM
    )
    block: int = setting("Rows read at a time.", 4096, low=1, commands=_STREAM)
    every: int = setting("Rows between two checkpoints.", 100_000, option="--checkpoint", low=1, commands=_STREAM)
    max_bad: float = setting(
        "Stop with an error if more than this share of the rows has unreadable cells.", 0.2, low=0, high=1
    )
    horizon: int = setting("With --lags: how many rows ahead forecasts are tested, for `ovk forecast`.", 24, low=0)
    classify: bool = setting("The target holds classes: words, or a few whole numbers.", False)
    ignore: Sequence[str] = setting("Columns that are not used, such as visit,id, separated by commas.", ())
    groups: str | None = setting(
        "Column that tells which rows belong together, such as patient: it is not used as an input, and entire groups "
        "are held out, so that kernel, errors and intervals are those for new groups.",
        None,
        commands=("fit",),
    )
    level: float = setting("Probability with which an interval should contain the outcome.", LEVEL, commands=_STREAM)

    def check(self, *, options: bool = False) -> None:
        """Refuse values that make no sense; with `options` by the names of the command line."""

        def named(name: str) -> str:
            return option_of(next(one for one in fields(self) if one.name == name)) if options else name

        for one in fields(self):
            value, low, high = getattr(self, one.name), one.metadata["low"], one.metadata["high"]
            if choices := one.metadata["choices"]:
                one_of(value, named(one.name), choices)
            elif high is not None:
                in_interval(value, named(one.name), low, high)
            elif low is not None:
                check_int(value, named(one.name), least=low)
        if self.coupling is not None:
            check_coupling(self.coupling, named("coupling"))
        if not 0 < self.level < 1:
            raise ValueError(f"{named('level')} must lie between 0 and 1, such as 0.9, got {self.level:g}")
        if self.groups is not None:
            self._check_groups()
        self._preparation().check_roles()

    def _check_groups(self) -> None:
        """Groups are held out of tables of numbers, with everything chosen, wherever their rows stand."""
        order = "rows of a group are left out wherever they stand"
        chosen = "whole groups are left out to choose kernel and penalties of numbers"
        for name, asked, why in (
            ("time", self.time, order),
            ("lags", self.lags, order),
            ("classify", self.classify, chosen),
            ("coupling", self.coupling is not None, chosen),
            ("kernel", self.kernel != "auto", chosen),
        ):
            if asked:
                raise ValueError(f"groups and {name} exclude each other, since {why}: leave one of them out")

    def refuse_groups(self, cure: str) -> None:
        """Refuse groups where rows are not learned as one table."""
        if self.groups is not None:
            raise ValueError(f"groups are left out of a table that is learned as a whole: {cure}")

    def preparation(self, records: Records, max_levels: int = MAX_STREAM_WORDS) -> Preparation:
        """How rows of that file are made inputs and outputs, before any of them was looked at."""
        self.check()
        return self._preparation(max_levels).bind(records.names, records.label)

    def _preparation(self, max_levels: int = MAX_STREAM_WORDS) -> Preparation:
        ignore = [*self.ignore, *([] if self.groups is None or self.groups in self.ignore else [self.groups])]
        columns = self.targets, self.features, self.time, self.lags
        return Preparation(*columns, max_levels, classify=self.classify, ignore=ignore)

    @property
    def task(self) -> Task[Any]:
        """Regression or classification."""
        return CLASSIFICATION if self.classify else REGRESSION

    @property
    def in_time(self) -> bool:
        """Whether rows follow each other in time: then later rows test what was learned from earlier ones."""
        return bool(self.lags or self.time)

    @property
    def stream_kernel(self) -> str:
        """The kernel of a stream, which cannot wait to compare several."""
        return "gaussian" if self.kernel == "auto" else self.kernel

    def differences(self, other: Settings) -> list[str]:
        """Names of the settings in which the other session of a stream differs."""
        mine, theirs = ({**one.get_params(deep=False), "kernel": one.stream_kernel} for one in (self, other))
        return [name for name in mine if _plain(mine[name]) != _plain(theirs[name])]


def declared(settings: type, command: str) -> list[Field[Any]]:
    """The settings of a class that a command takes."""
    found: list[Field[Any]] = [one for one in fields(settings) if one.metadata]
    return [one for one in found if command in (one.metadata["commands"] or (command,))]


def option_of(setting: Field[Any]) -> str:
    """The command-line option of a setting."""
    option: str | None = setting.metadata["option"]
    return option or f"--{setting.name.replace('_', '-')}"


def check_bad_rows(bad: int, rows: int, last: tuple[int, str], label: str, max_bad: float) -> None:
    """Refuse a table of which too large a share cannot be read: `bad` of the first `rows`, one of them the `last`."""
    if rows >= MIN_ROWS_CHECKED and bad > max_bad * rows:
        raise ValueError(
            f"{bad:,} of the first {rows:,} rows of {label} have unreadable cells (row {last[0]}: "
            f"{last[1]}), more than the {max_bad:.0%} of max_bad: correct these cells, learn without the "
            "column (ignore, --ignore), or raise max_bad (--max-bad)"
        )


def _plain(value: object) -> object:
    return list(value) if isinstance(value, (list, tuple)) else value


def one_of(value: str, name: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_coupling(value: float, name: str) -> None:
    """Refuse a coupling outside [0, 1)."""
    if not in_interval(value, name, 0.0, 1.0) < 1:
        raise ValueError(f"{name} must be below 1: at 1 all outputs would be the same")


# Online learners by name, with settings that do well on standardised rows.

#: Points that OLOK keeps: the cost of a row is proportional to it.
WINDOW = 1000

#: Random frequencies of PKAWV.
FREQUENCIES = 50

#: Most inputs for a second-order learner, whose cost a row is quadratic in them.
MAX_SECOND_ORDER_INPUTS = 500


def make_kernel(name: str, coupling: float | None) -> ScalarKernel | OperatorKernel:
    """A kernel by name, with outputs separate or coupled."""
    one_of(name, "kernel", list(KERNELS))
    kernel = KERNELS[name]()
    if not coupling:
        return kernel
    check_coupling(coupling, "coupling")
    coupled: OperatorKernel = kernel * MixedEffect(coupling)
    return coupled


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

    "auto" is "autostream", which needs no settings; "pkawv" if a coupling or a kernel other than the Gaussian is asked
    for; "olok" above 500 inputs, where the matrices of the others would not fit. With `lags` among the inputs,
    "autostream" does not look at the last output by itself: in a forecast of several steps that would be an old one.
    """
    one_of(name, "model", ["auto", *MODELS])
    if name == "auto":
        asked = coupling is not None or kernel != "gaussian"
        name = "olok" if n_features > MAX_SECOND_ORDER_INPUTS else "pkawv" if asked else "autostream"
    model: Any = MODELS[name][classify]
    if name == "autostream":
        # It chooses kernels and weights of experts by itself, for each output.
        return model(lag=False) if lags else model()
    common: dict[str, Any] = {"warm_up": 0, "on_invalid": "skip"}
    if name == "olok":
        return model(make_kernel(kernel, coupling), alpha=1e-4, schedule="auto", truncation=WINDOW, **common)
    # Standardised outputs have variance 1: linear functions are hardly penalised, waves must earn their place.
    waves, shape = (0, "gaussian") if kernel == "linear" else (FREQUENCIES, kernel)
    features = LinearFourier(waves, weight=10.0)
    return model(make_kernel(shape, coupling), alpha=10.0, features=features, random_state=0, **common)
