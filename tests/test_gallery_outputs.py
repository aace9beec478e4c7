"""The gallery's learned output structure."""

import re
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parent.parent / "examples" / "batch" / "plot_which_outputs_go_together.py"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="examples are not part of this installation")
def test_learned_structure_fills_in_what_was_not_seen(capsys):
    mpl.use("Agg")
    runpy.run_path(str(EXAMPLE))
    plt.close("all")
    apart, learned, tuned = (float(error) for error in re.findall(r"error (\d\.\d+)", capsys.readouterr().out))
    assert learned < 0.85 * apart
    assert tuned < 0.85 * apart
