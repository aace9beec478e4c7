"""``make fuzz``: random damage, interruptions and inputs, for any time.

A job is a generator of tries. It uses only the given random generator, so that a seed and a number identify a try. It
yields None for a success, or a sentence about the failure.
"""
