"""The method of the slides: next states, sparse coefficients, a learned operator, settings by their criterion.

    minimise  sum_t |x_t+1 - b - h(x_t)|^2 + alpha |h|^2 + lambda_C sum_l |c_l| + lambda_B sum_ij |B_ij|,   K = k B

alternating over C and B, from B = I. For their climate data, the slides choose the three weights by the Bayesian
information criterion; for these data they do not state it, so it is used here. Scores are means of absolute
derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence

from ovk.batch import OKVAR, best_okvar
from ovk.kernels import Gaussian
from ovk.objectives import L1L2
from ovk.operators import Identity
from reproduce.support import Array

#: Candidate weights of the norm, the coefficients and the operator.
ALPHAS, COEFFICIENTS, OPERATORS = (0.1, 1.0, 10.0), (0.1, 1.0), (0.1, 1.0)


def slides(series: Sequence[Array]) -> Array:
    """Scores of edges from series alone, (d, d): row i, column j for i acting on j.

    >>> import warnings
    >>> from reproduce.data import make_gene_network
    >>> with warnings.catch_warnings(action="ignore"):  # five rounds do not converge
    ...     slides(make_gene_network(3, 2, 8, random_state=0).series).shape
    (3, 3)
    """
    models = [
        OKVAR(
            Gaussian(6.0) * Identity(),
            alpha,
            L1L2(weight),
            learn_operator=True,
            operator_weight=operator,
            max_rounds=5,
            max_iter=500,
        )
        for alpha in ALPHAS
        for weight in COEFFICIENTS
        for operator in OPERATORS
    ]
    chosen, _ = best_okvar(models, list(series))
    return chosen.edge_scores()
