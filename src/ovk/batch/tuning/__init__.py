"""Choosing kernels: continuous hyper-parameters by gradient, grids of kernels, a learned metric."""
