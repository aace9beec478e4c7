"""The gallery's networks of many sites."""

import re
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parent.parent / "examples" / "structures" / "plot_networks_of_sites.py"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="examples are not part of this installation")
def test_sites_are_put_on_their_side_of_the_border(capsys):
    mpl.use("Agg")
    runpy.run_path(str(EXAMPLE))
    plt.close("all")
    found = re.search(r"border: (\d+)%", capsys.readouterr().out)
    assert found is not None
    assert int(found.group(1)) >= 90
