"""Prediction intervals from leave-one-out residuals: for each output, for all outputs, for whole curves."""

from ovk.intervals.jackknife_intervals import fold_indices, jackknife, jackknife_plus
from ovk.intervals.learned_noise import NoiseScale, noise_scale
from ovk.intervals.regions import Regions, concatenate, conformal_rank, masses, rows_needed, shrunk, upper_quantile
