"""First-order learners: one gradient step for each example, in exact blocks."""
