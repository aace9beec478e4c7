"""
A report on one page
====================

`ovk.report` writes errors, intervals, residuals and the structure of the outputs to one self-contained HTML page. Its
figures are displays in the style of scikit-learn, which can be used on their own.
"""

import os
import tempfile

import numpy as np

from ovk import PKAWV, progressive
from ovk.app.report import report
from ovk.evaluation import RecentErrors
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from ovk.plotting import CalibrationDisplay, OutputGraphDisplay, RecentDisplay, ResidualDisplay

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (1500, 2))
Y = np.sin(X @ rng.standard_normal((2, 4))) + 0.2 * rng.standard_normal((1500, 4))
result = progressive(PKAWV(Gaussian(1.0) * MixedEffect(0.5), alpha=0.3), X, Y, untested=100, keep="all")

with tempfile.TemporaryDirectory() as directory:
    page = report(result, os.path.join(directory, "report.html"))
    print(f"{page.name}: {page.stat().st_size / 1e6:.1f} MB")

# %%
# The same figures on their own
# -----------------------------

recent = RecentErrors.empty(4)
recent.update(result.predictions[100:], result.targets[100:])
_ = RecentDisplay.from_recent(recent, 0, name="output 0")

# %%
_ = CalibrationDisplay.from_recent(recent)

# %%
_ = ResidualDisplay.from_recent(recent)

# %%
_ = OutputGraphDisplay(np.corrcoef(Y.T), [f"output {q}" for q in range(4)]).plot()
