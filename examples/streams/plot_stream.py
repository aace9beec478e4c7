"""
A stream that drifts
====================

Six outputs share a function that changes during the second third of the stream, and nine out of ten labels are missing.
Every row is predicted before it is learned.
"""

from ovk import OLOK, progressive
from ovk.datasets import make_stream
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from ovk.plotting import ProgressiveErrorDisplay, SupportDisplay

stream = make_stream(2500, 6, random_state=0)
print(stream.DESCR)

# %%
# Coupled and separate outputs
# ----------------------------
# The same learner, with outputs that share what they learn and with outputs that do not.

kernel = Gaussian(0.8)
coupled = progressive(
    OLOK(kernel * MixedEffect(0.5), alpha=1e-4, schedule="auto", truncation=1500),
    stream.data,
    stream.target,
    untested=200,
)
apart = progressive(
    OLOK(kernel, alpha=1e-4, schedule="auto", truncation=1500), stream.data, stream.target, untested=200, baselines=[]
)
print(f"coupled {coupled.mse.mean():.4f}, apart {apart.mse.mean():.4f}, mean {coupled.baselines[1].mse.mean():.4f}")

# %%
# Errors along the stream
# -----------------------
# The mean squared error so far, for three of the outputs.

display = ProgressiveErrorDisplay.from_result(coupled, outputs=[0, 1, 2])
display.figure_.set_size_inches(9, 3.4)

# %%
# Size of the model
# -----------------
# With `truncation=1500` there are never more than 1,500 support points. :doc:`/guide/streams` has a learner without
# settings.

_ = SupportDisplay.from_result(coupled)
