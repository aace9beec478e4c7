"""Loading real data, or skipping with the message of the loader."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from reproduce.data._catalogue import CATALOGUE, names_in

from reproduce import data
from reproduce.data import DatasetNotFound


@pytest.fixture
def load() -> Callable[..., Any]:
    def call(loader: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return loader(*args, **kwargs)
        except DatasetNotFound as error:
            pytest.skip(str(error))

    return call


@pytest.fixture(scope="session")
def loaders() -> dict[str, Callable[..., Any]]:
    """The loader of every entry of the catalogue."""
    single = {name: getattr(data, f"load_{name}") for name in CATALOGUE if "/" not in name}
    mtr = {f"mtr/{name}": partial(data.load_mtr, name) for name in names_in("mtr")}
    dream3 = {f"dream3/{name}": partial(data.load_dream3, name) for name in names_in("dream3")}
    return {**single, **mtr, **dream3}
