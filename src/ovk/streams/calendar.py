"""What an instant says about its place in the day, the week and the year."""

from __future__ import annotations

import numpy as np

from ovk._validation import Array

_DAY = 86400.0

#: Cycles, in seconds, with how many harmonics each is described by. A day has a sharper shape than a year.
CYCLES: dict[str, tuple[float, int]] = {"day": (_DAY, 3), "week": (7 * _DAY, 2), "year": (365.2425 * _DAY, 2)}

NAMES = tuple(
    f"{part} {k} of {cycle}"
    for cycle, (_, most) in CYCLES.items()
    for k in range(1, most + 1)
    for part in ("sin", "cos")
)


def calendar(seconds: Array) -> Array:
    """Sines and cosines of the time of day, week and year, (n, 14); 0 where the instant is not known.

    Parameters
    ----------
    seconds : (n,) since 1970

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.streams.calendar import calendar
    >>> calendar(np.array([0.0, 3 * 3600.0]))[:, :2].round(3)
    array([[0.   , 1.   ],
           [0.707, 0.707]])
    """
    columns = []
    for period, most in CYCLES.values():
        angle = 2 * np.pi * np.mod(seconds, period) / period
        for k in range(1, most + 1):
            columns += [np.sin(k * angle), np.cos(k * angle)]
    values: Array = np.nan_to_num(np.column_stack(columns))
    return values
