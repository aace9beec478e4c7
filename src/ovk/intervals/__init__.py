"""Prediction intervals from left-out functions: for each output, for all outputs at once, for whole curves."""

from ovk.intervals.jackknife_intervals import fold_numbers as fold_numbers
from ovk.intervals.jackknife_intervals import jackknife as jackknife
from ovk.intervals.jackknife_intervals import jackknife_plus as jackknife_plus
from ovk.intervals.regions import Regions as Regions
from ovk.intervals.regions import concatenate as concatenate
from ovk.intervals.regions import conformal_rank as conformal_rank
from ovk.intervals.regions import masses as masses
from ovk.intervals.regions import rows_needed as rows_needed
from ovk.intervals.regions import shrunk as shrunk
from ovk.intervals.regions import upper_quantile as upper_quantile
