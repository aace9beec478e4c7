"""Which combinations of parameters run in `make test`."""

from itertools import combinations


def pairwise(rows):
    """The places of rows that together hold every pair of values that some row holds.

    Each row holds one value for each axis. Rows are taken greedily: always the first of those with the most pairs that
    no earlier row holds.

    >>> rows = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    >>> len(pairwise(rows))
    9
    """
    pairs = [{(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)} for row in rows]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(rows)), key=lambda k: (len(pairs[k] & missing), -k))
        missing -= pairs[best]
        chosen.append(best)
    return sorted(chosen)
