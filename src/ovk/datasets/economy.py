"""A small real data set that comes with the package: six indicators of the economy of the United States."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from ovk.base import Array, Loaded
from ovk.datasets._shared import bundle

#: Growth over four quarters in percent, by name in the file; unemployment is a rate as it stands.
_GROWTH = {
    "gross domestic product": "realgdp",
    "consumption": "realcons",
    "investment": "realinv",
    "disposable income": "realdpi",
    "prices": "cpi",
}
_DESCRIPTION = """Economy of the United States, 1960 to 2009, by quarters.

Growth over four quarters, in percent, of the real gross domestic product, consumption, investment and disposable income
and of consumer prices, and the rate of unemployment in percent. The values are real, complete and in the public domain:
Federal Reserve Bank of St. Louis (FRED) and Bureau of Labor Statistics, as compiled by Skipper Seabold in 2009 for the
package statsmodels (data set "macrodata"). The gaps in `target` are not: they are made by the loader, so that
`hidden` can tell how well they are filled.
"""


def load_us_economy(*, gaps: float = 0.5, stretch: int = 1, random_state: int = 0, return_X_y: bool = False) -> Loaded:
    """Six indicators of the United States' economy, 199 quarters, with gaps. No download: the file is in the package.

    Parameters
    ----------
    gaps : float in [0, 1)
        Share of the values to hide; 0 for the data as they are.
    stretch : int >= 1
        Quarters that are hidden together in one indicator.
    random_state : int
        Which stretches are hidden.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (199, 1): the year, 1960.0 to 2009.5; `target` (199, 6): growth over four quarters of the gross domestic
        product, consumption, investment, disposable income and prices, and the rate of unemployment, all in percent,
        nan where hidden; `hidden` (199, 6): the values that are hidden, nan elsewhere; `feature_names`,
        `target_names`, `DESCR`.

    Examples
    --------
    >>> from ovk.datasets import load_us_economy
    >>> economy = load_us_economy()
    >>> economy.data.shape, economy.target.shape
    ((199, 1), (199, 6))
    >>> import numpy as np
    >>> bool(np.all(np.isnan(economy.target) ^ np.isnan(economy.hidden)))
    True
    """
    if not 0.0 <= gaps < 1.0:
        raise ValueError(f"gaps must be a share in [0, 1), got {gaps!r}")
    if stretch < 1:
        raise ValueError(f"stretch must be at least 1 quarter, got {stretch!r}")
    with files("ovk.datasets").joinpath("us_economy.csv").open(encoding="ascii") as lines:
        table = np.genfromtxt(lines, delimiter=",", names=True)
    levels = np.log(np.column_stack([table[name] for name in _GROWTH.values()]))
    growth: Array = 100.0 * (levels[4:] - levels[:-4])
    complete = np.column_stack([growth, table["unemp"][4:]])
    n, d = complete.shape
    chosen = np.random.default_rng(random_state).uniform(size=(-(-n // stretch), d)) < gaps
    away = np.repeat(chosen, stretch, axis=0)[:n]
    year = table["year"] + (table["quarter"] - 1.0) / 4.0
    return bundle(
        return_X_y,
        data=year[4:, None],
        target=np.where(away, np.nan, complete),
        hidden=np.where(away, complete, np.nan),
        feature_names=["year"],
        target_names=[*_GROWTH, "unemployment"],
        DESCR=_DESCRIPTION,
    )
