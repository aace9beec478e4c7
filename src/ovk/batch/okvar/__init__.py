"""Nonlinear vector autoregression and network inference."""
