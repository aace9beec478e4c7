"""Online learners in river's interface: dictionaries in and out, one example at a time or in mini-batches.

The order of the features is that in which they were first seen. A feature that is absent from an example is 0 in it,
and one that appears later was 0 in all examples before. Predictions ignore a feature that no example has had so far: an
example without any known feature is one in which all of them are 0. Every value has to be a number, in predictions as
in learning, and whether its feature is known or not.

Learners without settings, `AutoStream` and `AutoStreamClassifier`, choose widths and units as they go. A feature that
appears later makes their experts begin anew with the last 10,000 examples, which takes about a second: let the first
example name all features where there are many.

An adapter is pickled like any model of river, and goes on where it was. What learns inside is its `learner`, which
`ovk.save` writes for use on arrays.
"""

from ovk._extras import required

with required("ovk.online.river", "river"):
    import river as _river  # noqa: F401

from ovk.online import add_features
from ovk.online.river.adapter import RiverAnomalyDetector
from ovk.online.river.classification import RiverClassifier
from ovk.online.river.regression import RiverMultiTargetRegressor, RiverRegressor

__all__ = ["RiverAnomalyDetector", "RiverClassifier", "RiverMultiTargetRegressor", "RiverRegressor", "add_features"]
