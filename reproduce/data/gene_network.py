"""Synthetic gene regulation: a network, its dynamics of mRNA and protein, and noisy series of mRNA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from reproduce.data._shared import as_generator
from reproduce.data.dream3 import gene_series_bundle
from reproduce.support import Array, Loaded, RandomState, check_int, positive

#: Maximum regulators of a gene: k of them have 2^k binding states.
MOST_REGULATORS = 10


def runge_kutta(velocity: Callable[[Array], Array], state: Array, span: float, steps: int) -> Array:
    """The state after the time `span`, by classical Runge-Kutta steps.

    >>> round(float(runge_kutta(lambda x: x, np.array(1.0), 1.0, 10)), 5)  # e
    2.71828
    """
    h = span / steps
    for _ in range(steps):
        a = velocity(state)
        b = velocity(state + 0.5 * h * a)
        c = velocity(state + 0.5 * h * b)
        d = velocity(state + h * c)
        state = state + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)
    return state


@dataclass(frozen=True, eq=False)
class GeneNetwork:
    r"""Dynamics of mRNA m and protein p, in units of the largest possible level.

    .. math::
        \dot m_i = \lambda_i (f_i(p) - m_i), \qquad \dot p_i = r_i (m_i - p_i)

    A regulator j is bound to gene i with the probability of Hill's equation,
    :math:`s_{ij} = p_j^{n_{ij}} / (k_{ij}^{n_{ij}} + p_j^{n_{ij}})`, independently of the others, and
    :math:`f_i = \sum_S a_i(S) \prod_{j \in S} s_{ij} \prod_{j \notin S} (1 - s_{ij})` averages over the sets S of
    bound regulators. The activation a_i(S) is the basal one plus the effects of S, clipped to [0, 1], so that
    regulators interact.

    Attributes
    ----------
    effects : array (n, n)
        Row i, column j: the effect of gene i on gene j, positive for activation, 0 for no edge.
    basal : array (n,)
    dissociation, cooperativity : arrays (n, n)
        k and n of Hill's equation, for the entries of `effects`.
    decay, turnover : arrays (n,)
        The rates lambda and r.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduce.data import GeneNetwork
    >>> one = np.ones((2, 2))
    >>> effects, basal = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([0.5, 0.0])
    >>> switch = GeneNetwork(effects, basal, 0.5 * one, 2 * one, one[0], one[0])
    >>> switch.activation(np.array([[0.5, 0.0]]))
    array([[0.5, 0.5]])
    """

    effects: Array
    basal: Array
    dissociation: Array
    cooperativity: Array
    decay: Array
    turnover: Array

    def activation(self, proteins: npt.ArrayLike) -> Array:
        """f of each gene, (m, n), for levels of the proteins in rows, (m, n)."""
        p = np.maximum(np.asarray(proteins, dtype=np.float64), 0.0)
        result = np.tile(np.clip(self.basal, 0.0, 1.0), (len(p), 1))
        for gene in range(len(self.basal)):
            regulators = np.flatnonzero(self.effects[:, gene])
            if len(regulators):
                result[:, gene] = self._activation(p[:, regulators], regulators, gene)
        return result

    def _activation(self, p: Array, regulators: npt.NDArray[np.intp], gene: int) -> Array:
        power = p ** self.cooperativity[regulators, gene]
        bound = power / (power + self.dissociation[regulators, gene] ** self.cooperativity[regulators, gene])
        # Probability and activation of all sets of regulators at once, adding one regulator at a time.
        chance, level = np.ones((len(p), 1)), np.array([self.basal[gene]])
        for k, regulator in enumerate(regulators):
            s = bound[:, k : k + 1]
            chance = np.hstack([chance * (1.0 - s), chance * s])
            level = np.concatenate([level, level + self.effects[regulator, gene]])
        total: Array = chance @ np.clip(level, 0.0, 1.0)
        return total

    def simulate(
        self,
        mrna: Array,
        proteins: Array,
        times: Array,
        *,
        push: Callable[[float], Any] = lambda t: 0.0,
        shock: float = 0.0,
        rng: np.random.Generator | None = None,
        max_step: float = 0.2,
    ) -> Array:
        """Levels of mRNA at the times, (series, times, n), from initial levels (series, n), by Runge-Kutta steps.

        Between two times, ``push`` of the first of them, (series, n) or a number, is added to the activations, which
        stay within [0, 1]; `rng` draws noise of the standard deviation `shock` times the root of its span, added to the
        mRNA at the second. A step is at most `max_step` of the shortest time constant.
        """
        longest = max_step / float(max(self.decay.max(), self.turnover.max()))
        state = np.stack([mrna, proteins]).astype(np.float64)
        levels = [state[0]]
        for start, span in zip(times, np.diff(times), strict=False):
            added = push(float(start))
            state = runge_kutta(partial(self._velocity, push=added), state, span, int(np.ceil(span / longest)))
            if rng is not None:
                state[0] = np.maximum(state[0] + shock * np.sqrt(span) * rng.standard_normal(state[0].shape), 0.0)
            levels.append(state[0].copy())
        return np.stack(levels, axis=1)

    def steady(self, mrna: Array) -> Array:
        """Steady levels (series, n), after forty of the longest time constants."""
        end = 40.0 / float(min(self.decay.min(), self.turnover.min()))
        # Longer steps reach the same steady levels.
        rest: Array = self.simulate(mrna, mrna, np.array([0.0, end]), max_step=0.5)[:, -1]
        return rest

    def _velocity(self, state: Array, push: Any) -> Array:
        m, p = state
        active = np.clip(self.activation(p) + push, 0.0, 1.0)
        return np.stack([self.decay * (active - m), self.turnover * (m - p)])


def make_gene_network(
    n_genes: int = 10,
    n_series: int = 4,
    n_points: int = 21,
    *,
    adjacency: Any = None,
    n_edges: int | None = None,
    noise: float = 0.05,
    duration: float = 200.0,
    half_life: tuple[float, float] = (5.0, 50.0),
    protein_half_life: tuple[float, float] | None = None,
    initial_proteins: Literal["same", "independent"] = "same",
    experiment: Literal["relax", "release", "knock-out", "fluctuate"] = "relax",
    random_state: RandomState = None,
    return_X_y: bool = False,
) -> Loaded:
    """Draw a network of genes and simulate time series of their mRNA, in the layout of the DREAM3 challenge.

    By default every series starts from random levels of mRNA and relaxes. Levels lie in [0, 1]; values
    with noise are clipped to it. With the same `random_state`, the network does not depend on the series.

    Parameters
    ----------
    n_genes, n_series, n_points : int
    adjacency : (n_genes, n_genes) array or sparse matrix, optional
        The network, nonzero in row i and column j where gene i regulates gene j; the sign is that of the regulation. A
        matrix without negative entries gets random signs.
    n_edges : int, optional
        Edges of a random network; default five for three genes. A few genes regulate many others, as in nature, and no
        gene has more than ten regulators.
    noise : float
        Standard deviation of the noise.
    duration : float
        Time of the last point; the points are equally spaced from 0.
    half_life, protein_half_life : (shortest, longest)
        Half-lives of mRNA and of protein, drawn uniformly; those of protein are like those of mRNA by default.
    initial_proteins : {"same", "independent"}
        Whether proteins start at the level of their mRNA or at independent random levels, for "relax".
    experiment : {"relax", "release", "knock-out", "fluctuate"}
        Perturbation of the genes. "relax": random initial levels. "release": starting from the steady state, about a
        third of the genes, different in each series, are activated or repressed during the first half of the time.
        "knock-out": from the steady state, one gene in each series is silenced. "fluctuate": from the steady state,
        noise drives the dynamics.
    random_state : int, Generator, RandomState or None
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        As `load_dream3`: `series`, a list of arrays (n_points, n_genes); `times`; `data`, `target` and `groups` of
        the transitions; `adjacency` and `signs`, sparse; `network`, the true `GeneNetwork`; names and `DESCR`.

    Examples
    --------
    >>> from reproduce.data import make_gene_network
    >>> made = make_gene_network(random_state=0)
    >>> len(made.series), made.series[0].shape, made.adjacency.nnz
    (4, (21, 10), 17)
    """
    n, length = check_int(n_genes, "n_genes"), check_int(n_points, "n_points", least=2)
    count, sigma = check_int(n_series, "n_series"), positive(noise, "noise", zero=True)
    span = positive(duration, "duration")
    if initial_proteins not in ("same", "independent"):
        raise ValueError(f"initial_proteins must be 'same' or 'independent', got {initial_proteins!r}")
    rng = as_generator(random_state)
    signs = _random_signs(rng, n, n_edges) if adjacency is None else _given_signs(rng, adjacency, n, n_edges)
    network = _draw(rng, signs, half_life, half_life if protein_half_life is None else protein_half_life)
    mrna = rng.uniform(size=(count, n))
    proteins = mrna if initial_proteins == "same" else rng.uniform(size=(count, n))
    times = np.linspace(0.0, span, length)
    if experiment == "relax":
        levels = network.simulate(mrna, proteins, times)
    else:
        levels = _from_rest(network, mrna, times, experiment, rng)
    series = list(np.clip(levels + sigma * rng.standard_normal(levels.shape), 0.0, 1.0))
    description = (
        f"Simulated network of {n} genes with {np.count_nonzero(signs)} edges, {count} series of {length} points"
    )
    genes = [f"G{i + 1}" for i in range(n)]
    return gene_series_bundle(description, series, times, csr_array(signs), genes, return_X_y, network=network)


#: Noise of the dynamics in "fluctuate": the standard deviation of its sum over one unit of time.
SHOCK = 0.02


def _from_rest(network: GeneNetwork, mrna: Array, times: Array, experiment: str, rng: np.random.Generator) -> Array:
    """The levels of an experiment that starts from the steady state, (series, times, n)."""
    rest, (count, n) = network.steady(mrna), mrna.shape
    if experiment == "fluctuate":
        return network.simulate(rest, rest, times, shock=SHOCK, rng=rng)
    if experiment == "release":
        pushed = np.where(rng.uniform(size=(count, n)) < 1 / 3, rng.choice([-1.0, 1.0], size=(count, n)), 0.0)
        return network.simulate(rest, rest, times, push=lambda t: pushed if t < times[-1] / 2 else 0.0)
    if experiment == "knock-out":
        silent = -(np.arange(count)[:, None] % n == rng.permutation(n)).astype(np.float64)
        return network.simulate(rest, rest, times, push=lambda t: silent)
    raise ValueError(f"experiment must be 'relax', 'release', 'knock-out' or 'fluctuate', got {experiment!r}")


def _random_signs(rng: np.random.Generator, n: int, n_edges: int | None) -> Array:
    """A random network: regulators have heavy-tailed, regulated genes uniform probabilities."""
    room = n * min(n - 1, MOST_REGULATORS)
    wanted = min(round(5 * n / 3), room) if n_edges is None else check_int(n_edges, "n_edges", least=0)
    if wanted > room:
        raise ValueError(f"n_edges must be at most {room} for {n} genes, got {n_edges}")
    liking = rng.pareto(1.5, size=n) + 0.3
    signs: Array = np.zeros((n, n))
    edges = 0
    while edges < wanted:
        free = signs == 0
        np.fill_diagonal(free, False)
        free[:, np.count_nonzero(signs, axis=0) >= MOST_REGULATORS] = False
        weights = (free * liking[:, None]).reshape(-1)
        place = rng.choice(n * n, p=weights / weights.sum())
        signs[np.unravel_index(place, (n, n))] = 1.0 if rng.uniform() < 0.6 else -1.0
        edges += 1
    return signs


def _given_signs(rng: np.random.Generator, adjacency: Any, n: int, n_edges: int | None) -> Array:
    if n_edges is not None:
        raise ValueError("give adjacency or n_edges, not both")
    matrix = np.asarray(adjacency.toarray() if issparse(adjacency) else adjacency, dtype=np.float64)
    if matrix.shape != (n, n) or not np.isfinite(matrix).all():
        raise ValueError(f"adjacency must be a finite ({n}, {n}) matrix, n_genes on a side, got shape {matrix.shape}")
    if np.diagonal(matrix).any():
        raise ValueError("adjacency must have an empty diagonal: a gene's own decay is part of the dynamics")
    most = int(np.count_nonzero(matrix, axis=0).max(initial=0))
    if most > MOST_REGULATORS:
        raise ValueError(f"a gene may have at most {MOST_REGULATORS} regulators, but adjacency gives one {most}")
    signs: Array = np.sign(matrix)
    if (signs < 0).any():
        return signs
    return signs * np.where(rng.uniform(size=(n, n)) < 0.6, 1.0, -1.0)


def _rates(rng: np.random.Generator, n: int, half_life: tuple[float, float], name: str) -> Array:
    short, long = (positive(value, name) for value in half_life)
    if short > long:
        raise ValueError(f"{name} must be (shortest, longest), got {half_life!r}")
    return np.asarray(np.log(2.0) / rng.uniform(short, long, size=n))


def _draw(
    rng: np.random.Generator, signs: Array, mrna: tuple[float, float], protein: tuple[float, float]
) -> GeneNetwork:
    n = len(signs)
    effects = signs * rng.uniform(0.4, 1.0, size=(n, n))
    # Without regulators, a mostly repressed gene must be on, and a mostly activated one off.
    pull = effects.sum(axis=0)
    basal = np.where(pull < 0, rng.uniform(0.6, 1.0, size=n), rng.uniform(0.0, 0.3, size=n))
    basal = np.where((signs == 0).all(axis=0), rng.uniform(0.2, 0.9, size=n), basal)
    return GeneNetwork(
        effects,
        basal,
        rng.uniform(0.2, 0.8, size=(n, n)),
        rng.uniform(1.0, 4.0, size=(n, n)),
        _rates(rng, n, mrna, "half_life"),
        _rates(rng, n, protein, "protein_half_life"),
    )
