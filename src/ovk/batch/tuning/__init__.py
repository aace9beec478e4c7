"""Selection of kernels, operators and alphas: by leave-one-out, by gradient, and with a learned metric."""
