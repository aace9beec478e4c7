"""Prediction intervals from left-out functions: for each output, for all outputs at once, for whole curves."""

from ovk.intervals.jackknife_intervals import fold_numbers as fold_numbers
from ovk.intervals.jackknife_intervals import jackknife as jackknife
from ovk.intervals.jackknife_intervals import jackknife_plus as jackknife_plus
from ovk.intervals.regions import Regions as Regions
from ovk.intervals.regions import concatenate as concatenate
from ovk.intervals.regions import masses as masses
from ovk.intervals.regions import upper_quantile as upper_quantile
