"""How a table is learned."""

from __future__ import annotations

from collections.abc import Sequence

from ovk._params import Parameters
from ovk._validation import whole
from ovk.streams import Preparation, Records


class Settings(Parameters):
    """What a user chose for a session; a session that is resumed must be asked for the same.

    Parameters
    ----------
    targets, features, time, lags : as in `ovk.streams.Preparation`
    model : one of `MODELS`
    kernel : "gaussian", "laplacian", "matern" or "linear"
    coupling : float in [0, 1), how much outputs have in common; None leaves it to the model
    warm_up : rows for scaling and bandwidth, learned but not tested
    block : rows read at a time; the same block gives the same bits
    every : rows between two checkpoints

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
        kernel: str = "gaussian",
        coupling: float | None = None,
        warm_up: int = 1000,
        block: int = 4096,
        every: int = 100_000,
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

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        whole(self.warm_up, "warm_up", least=2)
        whole(self.block, "block")
        whole(self.every, "every")

    def preparation(self, records: Records) -> Preparation:
        """How rows of that file are made inputs and outputs, before any of them was looked at."""
        self.check()
        preparation = Preparation(self.targets, self.features, self.time, self.lags)
        preparation.bind(records.names, records.label)
        return preparation

    def differences(self, other: Settings) -> list[str]:
        """Names of the settings in which the other differs."""
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return [name for name in mine if _plain(mine[name]) != _plain(theirs[name])]


def _plain(value: object) -> object:
    return list(value) if isinstance(value, (list, tuple)) else value
