"""Operator learning by ridge regression between coordinates of functions, with settings selected by leave-one-out."""
