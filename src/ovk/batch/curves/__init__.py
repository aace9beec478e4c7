"""Ridge regression whose outputs are curves."""
