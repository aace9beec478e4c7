"""What every package builds on: parameters, state, checks of inputs and outputs, threads, graphs.

Nothing here is part of the public interface of ovk.
"""
