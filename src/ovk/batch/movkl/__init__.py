"""Learning a combination of operator-valued kernels together with the function."""
