"""
Resume after a kill
===================

One model learns a file in two runs, as after a power cut, and another in one run. Their errors are bit-identical.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ovk import load
from ovk.app.sessions import Settings, learn
from ovk.app.tables import open_records
from ovk.plotting import RecentDisplay

rng = np.random.default_rng(0)
t = np.arange(3000)
load_ = 10 + 3 * np.sin(t / 24 * 2 * np.pi) + 0.5 * rng.standard_normal(3000)
lines = [f"{hour % 24},{value:.3f}\n" for hour, value in zip(t, load_, strict=True)]

# %%
# Two runs, and one
# -----------------
# The first run sees 1,700 rows; the second finds all 3,000 and continues where the first one stopped.

with tempfile.TemporaryDirectory() as directory:
    path, model, other = (Path(directory) / name for name in ("load.csv", "model.ovk", "other.ovk"))
    path.write_text("hour,load\n" + "".join(lines[:1700]))
    with open_records(path) as records:
        learn(records, Settings(["load"], warm_up=200), save_to=model)
    path.write_text("hour,load\n" + "".join(lines))
    with open_records(path) as records:
        resumed = learn(records, None, resume=model)
    with open_records(path) as records:
        whole = learn(records, Settings(["load"], warm_up=200), save_to=other)
    same = np.array_equal(load(model).result().mse, load(other).result().mse)
print(f"rows learned {resumed.offset:,}; the same errors as in one run: {same}")

# %%
# The last predictions. On the command line this is `ovk stream load.csv --resume model.ovk`: :doc:`/howto/resume`.

_ = RecentDisplay.from_recent(whole.recent, 0)
plt.gcf().set_size_inches(9, 4)
