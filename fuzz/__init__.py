"""``make fuzz``: random damage, random interruptions and random inputs for as long as one likes.

A job is a generator of tries. It draws everything from the random generator it is given, so that a seed and a number
say which try failed, and yields None for a try that went as it should, or a sentence.
"""
