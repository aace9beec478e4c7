"""Ridge regression: estimator, linear system, landmarks, manifold penalty, and inputs from data frames."""
