"""Speed and memory of ovk beside its peers and beside the bare cost of the work.

Run ``python -m benchmarks``.
"""
