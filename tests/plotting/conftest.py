"""Figures are closed after each test."""

import pytest
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    plt.close("all")
