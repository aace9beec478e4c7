"""How a table is learned."""

from __future__ import annotations

from collections.abc import Sequence

from ovk._params import Parameters, check_int, in_interval
from ovk.evaluation.conformal.rolling import LEVEL
from ovk.streams import Preparation, Records

#: Most indicators of a column of words in a stream.
WORDS_OF_STREAM = 50

#: Rows before which nothing is said of the share of bad ones.
FEW = 100


class Settings(Parameters):
    """What a user chose for a session; a session that is resumed must be asked for the same.

    Parameters
    ----------
    targets, features, time, lags : as in `ovk.streams.Preparation`
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
    >>> from ovk.sessions import Settings
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
