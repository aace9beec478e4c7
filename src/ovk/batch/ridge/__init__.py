"""Ridge regression: the linear system, leave-one-out, landmarks, and learning which outputs go together."""
