"""How a table is learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ovk.app.tables import Preparation, Records
from ovk.base import Parameters, check_int, in_interval
from ovk.evaluation import LEVEL
from ovk.features import LinearFourier
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, ScalarKernel
from ovk.online import OLOK, PKAWV, AutoStream, AutoStreamClassifier, OLOKClassifier, PKAWVClassifier
from ovk.operators import MixedEffect
from ovk.ovkernels import OperatorKernel

#: Most indicators of a column of words in a stream.
WORDS_OF_STREAM = 50

#: Rows before which nothing is said of the share of bad ones.
FEW = 100


class Settings(Parameters):
    """What a user chose for a session; a session that is resumed must be asked for the same.

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
    ignore : columns that are no inputs
    groups : column that tells which rows of a table belong together, such as those of a patient. It is no input, and
        whole groups are left out where kernels are compared, errors measured and intervals made: they are then valid
        for new groups
    level : how often intervals should hold the outcome: those of the predictions, and those that are tested and shown

    Examples
    --------
    >>> from ovk.app.sessions import Settings
    >>> Settings(["y"], lags=[1]).differences(Settings(["y"], lags=[1, 2]))
    ['lags']
    """

    def __init__(
        self,
        targets: Sequence[str],
        features: Sequence[str] | None = None,
        time: Sequence[str] = (),
        lags: Sequence[int] = (),
        model: str = "auto",
        kernel: str = "auto",
        coupling: float | None = None,
        warm_up: int = 1000,
        block: int = 4096,
        every: int = 100_000,
        max_bad: float = 0.2,
        horizon: int = 24,
        classify: bool = False,
        ignore: Sequence[str] = (),
        groups: str | None = None,
        level: float = LEVEL,
    ) -> None:
        self.targets = targets
        self.features = features
        self.time = time
        self.lags = lags
        self.model = model
        self.kernel = kernel
        self.coupling = coupling
        self.warm_up = warm_up
        self.block = block
        self.every = every
        self.max_bad = max_bad
        self.horizon = horizon
        self.classify = classify
        self.ignore = ignore
        self.groups = groups
        self.level = level

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        check_int(self.warm_up, "warm_up", least=2)
        check_int(self.block, "block")
        check_int(self.every, "every")
        in_interval(self.max_bad, "max_bad", 0.0, 1.0)
        check_int(self.horizon, "horizon", least=0)
        in_interval(self.level, "level", 1e-6, 1 - 1e-6)
        if self.groups is not None:
            self._check_groups()
        self._preparation().check_roles()

    def _check_groups(self) -> None:
        """Groups are left out of tables of numbers, with everything chosen, wherever their rows stand."""
        others = {
            "time": self.time,
            "lags": self.lags,
            "classify": self.classify,
            "coupling": self.coupling is not None,
        }
        others["kernel"] = self.kernel != "auto"
        for name, asked in others.items():
            if asked:
                why = (
                    "rows of a group are left out wherever they stand"
                    if name in ("time", "lags")
                    else ("whole groups are left out to choose kernel and penalties of numbers")
                )
                raise ValueError(f"groups and {name} exclude each other, since {why}: leave one of them out")

    def refuse_groups(self, cure: str) -> None:
        """Refuse groups where rows are not learned as one table."""
        if self.groups is not None:
            raise ValueError(f"groups are left out of a table that is learned as a whole: {cure}")

    def check_bad_rows(self, bad: int, rows: int, last: tuple[int, str], label: str) -> None:
        """Refuse a table of which too large a part cannot be read."""
        check_bad_rows(bad, rows, last, label, self.max_bad)

    def preparation(self, records: Records, max_levels: int = WORDS_OF_STREAM) -> Preparation:
        """How rows of that file are made inputs and outputs, before any of them was looked at."""
        self.check()
        return self._preparation(max_levels).bind(records.names, records.label)

    def _preparation(self, max_levels: int = WORDS_OF_STREAM) -> Preparation:
        ignore = [*self.ignore, *([] if self.groups is None or self.groups in self.ignore else [self.groups])]
        what = self.targets, self.features, self.time, self.lags
        return Preparation(*what, max_levels, classify=self.classify, ignore=ignore)

    @property
    def stream_kernel(self) -> str:
        """The kernel of a stream, which cannot wait to compare several."""
        return "gaussian" if self.kernel == "auto" else self.kernel

    def differences(self, other: Settings) -> list[str]:
        """Names of the settings in which the other session of a stream differs."""
        mine = {**self.get_params(deep=False), "kernel": self.stream_kernel}
        theirs = {**other.get_params(deep=False), "kernel": other.stream_kernel}
        return [name for name in mine if _plain(mine[name]) != _plain(theirs[name])]


def check_bad_rows(bad: int, rows: int, last: tuple[int, str], label: str, max_bad: float, few: int = FEW) -> None:
    """Refuse a table of which too large a part cannot be read.

    Parameters
    ----------
    bad, rows : number of rows with unreadable cells, and of all rows so far
    last : number and fault of one of them
    label : what to call the table
    max_bad : largest share of bad rows
    few : rows before which nothing is said
    """
    if rows >= few and bad > max_bad * rows:
        raise ValueError(
            f"{bad:,} of the first {rows:,} rows of {label} have unreadable cells (row {last[0]}: "
            f"{last[1]}), more than the {max_bad:.0%} of max_bad: correct these cells, learn without the "
            "column (ignore, --ignore), or raise max_bad (--max-bad)"
        )


def _plain(value: object) -> object:
    return list(value) if isinstance(value, (list, tuple)) else value


# Online learners by name, with settings that do well on standardised rows.

KERNELS: dict[str, Callable[[], ScalarKernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
    "linear": Linear,
}

#: Points that OLOK keeps: the cost of a row is proportional to it.
WINDOW = 1000

#: Random frequencies of PKAWV.
WAVES = 50

#: Most inputs for a second-order learner, whose cost a row is quadratic in them.
MANY = 500


def kernel_of_table(name: str) -> ScalarKernel | None:
    """A kernel by name for a table that is learned as a whole; None for "auto", which tries several."""
    if name != "auto" and name not in KERNELS:
        raise ValueError(f"kernel must be auto or one of {', '.join(KERNELS)}, got {name!r}")
    return None if name == "auto" else KERNELS[name]()


def make_kernel(name: str, coupling: float | None) -> ScalarKernel | OperatorKernel:
    """A kernel by name, with outputs apart or coupled."""
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}")
    kernel = KERNELS[name]()
    if not coupling:
        return kernel
    if not in_interval(coupling, "coupling", 0.0, 1.0) < 1:
        raise ValueError("coupling must be below 1: at 1 all outputs would be the same")
    coupled: OperatorKernel = kernel * MixedEffect(coupling)
    return coupled


def _olok(kernel: str, coupling: float | None) -> Any:
    return OLOK(
        make_kernel(kernel, coupling), alpha=1e-4, schedule="auto", truncation=WINDOW, warm_up=0, on_invalid="skip"
    )


def _features(kernel: str) -> tuple[str, LinearFourier]:
    """The kernel that waves are drawn from, and linear functions beside them."""
    # Standardised outputs have variance 1: linear functions are hardly penalised, waves must earn their place.
    waves, shape = (0, "gaussian") if kernel == "linear" else (WAVES, kernel)
    return shape, LinearFourier(waves, weight=10.0)


def _pkawv(kernel: str, coupling: float | None) -> Any:
    shape, features = _features(kernel)
    return PKAWV(
        make_kernel(shape, coupling), alpha=10.0, features=features, warm_up=0, on_invalid="skip", random_state=0
    )


def _autostream(kernel: str, coupling: float | None) -> Any:
    # It chooses kernels and weights of experts by itself, for each output.
    return AutoStream()


def _pkawv_classifier(kernel: str, coupling: float | None) -> Any:
    shape, features = _features(kernel)
    return PKAWVClassifier(
        make_kernel(shape, coupling), alpha=10.0, features=features, warm_up=0, on_invalid="skip", random_state=0
    )


def _olok_classifier(kernel: str, coupling: float | None) -> Any:
    kernels = make_kernel(kernel, coupling)
    return OLOKClassifier(kernels, alpha=1e-4, schedule="auto", truncation=WINDOW, warm_up=0, on_invalid="skip")


def _autostream_classifier(kernel: str, coupling: float | None) -> Any:
    return AutoStreamClassifier()


#: Learners of classes by name.
CLASSIFIERS: dict[str, Callable[[str, float | None], Any]] = {
    "olok": _olok_classifier,
    "pkawv": _pkawv_classifier,
    "autostream": _autostream_classifier,
}

#: Learners by name.
MODELS: dict[str, Callable[[str, float | None], Any]] = {"olok": _olok, "pkawv": _pkawv, "autostream": _autostream}


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

    Parameters
    ----------
    name : one of `MODELS`, or "auto": "autostream", which needs no settings; "pkawv" if a coupling or a kernel other
        than the Gaussian is asked for; "olok" above `MANY` inputs, where the matrices of the others would not fit
    kernel : name of a kernel
    coupling : how much outputs have in common, 0 for nothing
    n_features : number of inputs, which "auto" looks at
    classify : outputs are labels of classes. Only "autostream" takes classes that come after the warm-up
    lags : whether earlier outputs are among the inputs. "autostream" then does not look at the last one by itself: in
        a forecast of several steps that would be an old one

    Examples
    --------
    >>> from ovk.app.sessions import make_model
    >>> [type(make_model("auto", n_features=p)).__name__ for p in (10, 10_000)]
    ['AutoStream', 'OLOK']
    """
    if name == "auto":
        told = coupling is not None or kernel != "gaussian"
        name = "olok" if n_features > MANY else "pkawv" if told else "autostream"
    if name not in MODELS:
        raise ValueError(f"model must be auto or one of {', '.join(MODELS)}, got {name!r}")
    model = (CLASSIFIERS if classify else MODELS)[name](kernel, coupling)
    return model.set_params(lag=False) if lags and name == "autostream" else model
