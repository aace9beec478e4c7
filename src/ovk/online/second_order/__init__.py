"""Second-order online learners, by ridge regression."""
