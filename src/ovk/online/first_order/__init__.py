"""First-order online learners, by stochastic gradient descent."""
