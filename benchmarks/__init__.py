"""Speed and memory of ovk compared with other libraries and with the bare cost of the computation.

Run ``python -m benchmarks``.
"""
