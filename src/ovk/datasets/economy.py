"""A small real data set in the package: six indicators of the economy of the United States."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from ovk.base import Loaded, check_int
from ovk.datasets.generators import bundle

#: Indicators that are converted to growth over four quarters in percent, with their names in the file.
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
package statsmodels (data set "macrodata"). The loader hides some values of `target`; `hidden` holds them for tests.
"""


def load_us_economy(*, gaps: float = 0.5, stretch: int = 1, random_state: int = 0, return_X_y: bool = False) -> Loaded:
    """Load six indicators of the economy of the United States over 199 quarters, with hidden values.

    The file is part of the package; nothing is downloaded.

    Parameters
    ----------
    gaps : float in [0, 1)
        Share of the values to hide.
    stretch : int >= 1
        Number of consecutive quarters that are hidden together in one indicator.
    random_state : int
        Seed for the choice of hidden values.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (199, 1): the year, 1960.0 to 2009.5; `target` (199, 6): growth over four quarters of the gross domestic
        product, consumption, investment, disposable income and prices, and the rate of unemployment, all in percent,
        nan where hidden; `hidden` (199, 6): the hidden values, nan elsewhere; `feature_names`, `target_names`, `DESCR`.

    See Also
    --------
    make_stream

    Examples
    --------
    >>> from ovk.datasets import load_us_economy
    >>> economy = load_us_economy()
    >>> economy.data.shape, economy.target_names[:3]
    ((199, 1), ['gross domestic product', 'consumption', 'investment'])
    >>> economy.target[0].round(1), economy.hidden[0].round(1)
    (array([4.9, nan, nan, nan, 1.9, 5.2]), array([ nan,  3.6, 14.5,  3.6,  nan,  nan]))
    """
    if not 0.0 <= gaps < 1.0:
        raise ValueError(f"gaps must be in [0, 1), got {gaps!r}")
    stretch = check_int(stretch, "stretch")
    with files("ovk.datasets").joinpath("us_economy.csv").open(encoding="ascii") as lines:
        table = np.genfromtxt(lines, delimiter=",", names=True)
    levels = np.log(np.column_stack([table[name] for name in _GROWTH.values()]))
    complete = np.column_stack([100.0 * (levels[4:] - levels[:-4]), table["unemp"][4:]])
    n, d = complete.shape
    chosen = np.random.default_rng(random_state).uniform(size=(-(-n // stretch), d)) < gaps
    hidden = np.repeat(chosen, stretch, axis=0)[:n]
    year = table["year"] + (table["quarter"] - 1.0) / 4.0
    return bundle(
        return_X_y,
        data=year[4:, None],
        target=np.where(hidden, np.nan, complete),
        hidden=np.where(hidden, complete, np.nan),
        feature_names=["year"],
        target_names=[*_GROWTH, "unemployment"],
        DESCR=_DESCRIPTION,
    )
