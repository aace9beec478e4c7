"""Base classes and rows of the online learners."""
