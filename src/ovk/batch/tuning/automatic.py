"""Automatic choice of kernel, length scales and alphas.

Candidates are the linear kernel, Gaussian, Matern (smoothness 3/2) and Laplacian kernels of several widths around the
median distance, each with 22 alphas. An alpha is selected for each output by the residuals of left-out rows (or groups,
or later rows). The score of a candidate is

    mean over outputs of min over alphas of mean_i rho(r_ij) / variance of output j,

where rho is the squared loss up to a threshold and linear beyond, which bounds the influence of outliers. The threshold
is the same for all candidates, max(4 median |r_j| of the linear one, 1 standard deviation): a separate one for each
would reward a bad candidate for its large residuals.

Which of several candidates with similar errors ranks first is mostly chance. So the best few are added, each with its
Akaike weight, (smallest error / its error)^(n / 2), divided by its alpha, because a regression with a larger alpha
relies less on its kernel. With more rows fewer candidates are close to the best, and if a sum costs noticeable time it
must be better than the best kernel. For the same reason the alphas of the outputs are shrunk to each other if rows are
few.

The result is one kernel. Candidates are compared on at most 400 random rows, alphas on 1,000. The best width
and alpha change with the number of rows: both are then refined on 2,500 rows, and the alphas on 5,000.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from scipy.linalg import solve_triangular

from ovk.base import Array, Indices, Registered, Targets, one_blas_thread, progress_shown, track
from ovk.batch.tuning.gradient_metric import MIN_METRIC_ROWS, halves, metric_kernels
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, ScalarKernel, Scaled, Sum, median_distance
from ovk.solvers import Eigenpairs, KnownEigen, SeparablePath, eigenpairs, factored_leave_one_out, pairwise_path

# Residuals of rows in time order, for a path of alphas.
#
# Rows are split into blocks, and each block B is predicted from the rows before it: with
# A = W^1/2 G W^1/2 + alpha I = C C', u = w^1/2, e = C^-1 y, o = C^-1 u and the intercept b = o_<'e_< / o_<'o_< of the
# rows before, the residuals are C_BB (e_B - o_B b).

#: Blocks of a time series; each but the first is predicted from the blocks before it.
TIME_BLOCKS = 6


def _forward_residuals(G: Array, Y: Array, u: Array | None, alphas: Array) -> Array:
    """Residuals (alphas, n, d) of later rows predicted from earlier ones, nan for the first block."""
    n = len(Y)
    result = np.full((len(alphas), *Y.shape), np.nan)
    edges = np.linspace(0, n, TIME_BLOCKS + 1).round().astype(int)
    for a, alpha in enumerate(alphas):
        C = np.linalg.cholesky(G + alpha * np.eye(n))
        white = solve_triangular(C, np.column_stack([Y, np.zeros(n) if u is None else u]), lower=True)
        e, o = white[:, :-1], white[:, -1]
        for start, stop in pairwise(edges[1:]):
            b = np.zeros(Y.shape[1]) if u is None else (o[:start] @ e[:start]) / (o[:start] @ o[:start])
            part = slice(start, stop)
            result[a, part] = C[part, part] @ (e[part] - np.outer(o[part], b))
    return result


def mean_loss(R: Array, threshold: Array, weight: Array | None = None) -> Array:
    """(..., d) means over rows of r^2, or 2 t |r| - t^2 beyond the threshold t, for residuals (..., n, d)."""
    size = np.abs(R)
    with np.errstate(invalid="ignore"):
        loss = np.where(size <= threshold, size**2, 2.0 * threshold * size - threshold**2)
    seen = ~np.isnan(R)
    mass = seen * (1.0 if weight is None else weight[:, None])
    total = np.where(seen, loss, 0.0) * mass
    counts = mass.sum(axis=-2)
    return np.asarray(total.sum(axis=-2) / np.where(counts > 0, counts, 1.0))


Item = TypeVar("Item")
Result = TypeVar("Result")


def map_threads(
    work: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None, label: str
) -> Iterator[Result]:
    """work(item) for each item in order, with a progress bar; results do not depend on the number of threads.

    Each of several threads has one thread of BLAS, because the number of BLAS threads changes the last bits of a
    product. With None, items are processed one after another, and BLAS keeps its threads.
    """
    if n_jobs is None:
        yield from track((work(item) for item in items), label, len(items))
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None, a number of threads, or -1 for one per processor, got {n_jobs!r}")

    def alone(item: Item) -> Result:
        # Progress bars of several threads would overwrite each other.
        with one_blas_thread(tiles=1), progress_shown(False):
            return work(item)

    results = Parallel(n_jobs=int(n_jobs), prefer="threads", return_as="generator")(delayed(alone)(i) for i in items)
    yield from track(results, label, len(items))


class Comparison(NamedTuple):
    alphas: Array
    errors: Array  # (kernels, operators, alphas, d)
    scored: list[int]  # outputs whose errors are minimised
    known: Eigenpairs | None = None  # of the best kernel's gram on all rows, if computed

    @property
    def mean(self) -> Array:
        """(kernels, operators, alphas) mean over the scored outputs."""
        return np.asarray(self.errors[..., self.scored].mean(axis=-1))

    def best(self) -> tuple[int, int, int]:
        """Indices of kernel, operator and alpha with the smallest error."""
        k, o, a = np.unravel_index(int(np.argmin(self.mean)), self.errors.shape[:3])
        return int(k), int(o), int(a)

    def solver(self) -> Any:
        return "auto" if self.known is None else KnownEigen(self.known)

    def attributes(self) -> dict[str, Any]:
        mean = self.mean
        return {
            "alphas_": self.alphas,
            "errors_": mean,
            "best_error_": float(mean.min()),
            "output_errors_": self.errors,
        }


# Coupling of outputs with gaps: operators (1 - w) I + w C, where C is their shrunk correlation.
#
# Candidates are compared on observed pairs of a row and an output, leaving out whole rows (or groups). The best alphas
# of the single outputs are kept up to a common factor: with D = diag(alpha) this is the problem with operator
# D^-1/2 T D^-1/2 and ridge c.

#: Shares w of the correlation in the operator.
COUPLING_SHARES = (0.0, 0.5, 0.9)
#: Common factors c of the alphas.
ALPHA_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Mean number of rows with two outputs observed, needed to estimate correlations. With fewer, C is a matrix of ones
#: (mixed effects).
MIN_COMMON_ROWS = 5
#: Maximum number of observed pairs on which couplings are compared.
MAX_PAIRS = 800


def correlation(Y: Array) -> Array:
    """Correlations (d, d) of outputs over the rows with both observed, shrunk and positive definite."""
    d = Y.shape[1]
    seen = ~np.isnan(Y)
    counts = np.maximum(seen.sum(axis=0), 1)
    Z = np.where(seen, Y - np.where(seen, Y, 0.0).sum(axis=0) / counts, 0.0)
    deviation = np.sqrt((Z**2).sum(axis=0) / counts)
    Z = Z / np.where(deviation > 0, deviation, 1.0)
    C = (Z.T @ Z) / (seen.T.astype(np.float64) @ seen + d)
    np.fill_diagonal(C, 1.0)
    values, V = np.linalg.eigh(C)
    C = (V * np.maximum(values, 1e-6)) @ V.T
    roots = np.sqrt(np.diagonal(C))
    return np.asarray(C / np.outer(roots, roots))


#: Kernels by name: one, or two in metrics learned from the two halves of the rows.
Kernels = dict[str, tuple[ScalarKernel, ...]]

#: From interpolation of outputs without noise to a constant function; below 1e-10 rounding errors dominate.
ALPHAS = np.concatenate([np.logspace(-10.0, -6.0, 5), np.logspace(-5.0, 3.0, 17)])
#: Maximum numbers of rows on which widths and alphas are selected.
MAX_WIDTH_ROWS, MAX_ALPHA_ROWS = 400, 1000
#: Numbers of rows on which width and alphas are refined after the first selection, and factors of the width.
REFINED_ROWS, WIDTH_FACTORS = (MAX_ALPHA_ROWS, 2500, 5000), (0.7, 1.4)
#: Largest error, relative to the best kernel so far, at which a metric is tried with further widths.
PROMISING_ERROR = 1.05
#: Kernels that compare forms of the inputs, the linear one first, and largest error of a form relative to the first.
COMPARED_FORMS, MAX_FORM_ERROR = ("linear", "Matern 3/2 1", "Laplacian 1"), 0.97
#: Maximum number of candidates in a sum.
MAX_SUMMED = 6
#: Above `MAX_WIDTH_ROWS` rows, largest error of a sum relative to the best single kernel.
MAX_SUM_ERROR = 0.99
#: Rows of the output to which the errors of all outputs are equivalent in the choice of an output's alpha.
SHARED_ROWS = 30.0
#: Maximum number of distinct alphas of many outputs above `MAX_ALPHA_ROWS` rows; each costs a factorisation.
MAX_DISTINCT_ALPHAS = 3
#: Threshold of the robust loss, in medians of the residuals of the linear candidate.
THRESHOLD_MEDIANS = 4.0


@dataclass(frozen=True, repr=False)
class AutomaticChoice(Registered):
    """The automatic choice of `OVKRidgeCV`, for standardised inputs and outputs."""

    _stored = {"operator": "d d", "errors": "* inf"}

    kernel: ScalarKernel
    alphas: Array  # (d,)
    operator: Array  # (d, d) the identity unless outputs are missing and coupling helps
    threshold: Array  # (d,) residuals above it have a linear loss
    #: Candidates, families with widths in units of the median distance: the chosen one, then the others, best first.
    names: list[str]
    errors: Array  # (candidates, alphas, d) robust leave-one-out errors, about 1 for predicting the mean

    def edges(self) -> list[str]:
        """Chosen alphas and width that lie at the edge of their grid where the error still falls."""
        # Below the smallest alpha, rounding errors dominate.
        own_errors = zip(self.alphas, self.errors[0].T, strict=True)
        found = [edge_of_grid("alpha", ALPHAS, e, a) for a, e in own_errors if a > ALPHAS[0]]
        # A sum has several widths, the linear kernel has none, and wide kernels approach a limit.
        family, _, width = self.names[0].rpartition(" ")
        if family and not family.startswith("sum"):
            best = self.errors.min(axis=1).mean(axis=1)
            own = [k for k, name in enumerate(self.names) if name.rpartition(" ")[0] == family]
            widths = np.array([float(self.names[k].rpartition(" ")[2]) for k in own])
            if float(width) == widths.min():
                found.append(edge_of_grid(f"{family} length scale", widths, best[own], float(width), EDGE_WIDTH_ERROR))
        return sorted({text for text in found if text is not None})

    def __repr__(self) -> str:
        low, high = self.alphas.min(), self.alphas.max()
        alphas = f"alpha {low:.2g}" if low == high else f"alphas {low:.2g} to {high:.2g}"
        coupled = ", outputs coupled" if np.any(self.operator - np.diag(np.diag(self.operator))) else ""
        best = self.errors.min(axis=1).mean(axis=1)
        width = max(map(len, self.names))
        rows = (f"  {name:{width}}  {error:.4f}" for name, error in zip(self.names, best, strict=True))
        head = f"{self.names[0]}, {alphas}{coupled}; leave-one-out errors (about 1 for predicting the mean):"
        return "\n".join([head, *rows])


def automatic_choice(
    X: Any, Y: Array, rng: np.random.Generator, *, metric: bool | str = False, **options: Any
) -> AutomaticChoice:
    """Choose kernel, alphas and coupling for standardised data; `options` are further fields of `ComparisonData`.

    With `metric`, kernels in learned metrics of the inputs are candidates too. With "auto" only for dense inputs, if
    their number is at least two and at most half that of the rows compared; this takes at most three times as long.
    """
    n, d = Y.shape
    if metric == "auto":
        metric = not sparse.issparse(X) and 1 < X.shape[1] <= 0.5 * min(n, MAX_WIDTH_ROWS)
    data = ComparisonData(X, Y, **options)
    if data.groups is not None and data.time_order:
        raise ValueError("groups and time_order=True cannot be combined: omit one of them")
    variance = np.nanvar(Y, axis=0) if data.intercept else np.nanmean(Y**2, axis=0)
    order = rng.permutation(n)
    rows = np.sort(order[: _affordable(Y[order], MAX_WIDTH_ROWS)])
    half = halves(order, data.groups, time_order=data.time_order) if metric else np.zeros(n, dtype=np.intp)
    data = replace(data, variance=np.where(variance > 0, variance, 1.0), half=half)
    some = data.some(rows)
    plain: Kernels = {name: (kernel,) for name, kernel in kernel_candidates(X).items()}
    candidates = some.scored(plain)
    threshold = candidates[0].threshold
    ridge = next(float(np.exp(np.log(c.alphas).mean())) for c in candidates if c.name == "Matern 3/2 1")
    if metric and some.units >= MIN_METRIC_ROWS:
        candidates += some.scored_metrics(ridge, candidates[0])
        candidates.sort(key=lambda candidate: candidate.error)
    mixed = averaged(candidates[:MAX_SUMMED], some.units)
    if mixed is not None:
        (average,) = some.scored({mixed[0]: mixed[1]}, threshold)
        # A sum takes as much time as all of its terms.
        if n <= MAX_WIDTH_ROWS or average.error < MAX_SUM_ERROR * candidates[0].error:
            candidates.insert(0, replace(average, terms=mixed[2]))
    chosen = candidates[0]
    alphas, many = chosen.alphas, some
    if len(rows) < n:
        many = data.some(np.sort(order[: _affordable(Y[order], MAX_ALPHA_ROWS)]))
        in_metric = many.cross_fitted(ridge, chosen.terms)
        errors = many.errors(weighted_sum(plain | in_metric, chosen.terms), threshold)[1]
        errors = pooled(errors * ERROR_PENALTIES[:, None], many.units)
        alphas = few_alphas(errors, MAX_DISTINCT_ALPHAS) if n > MAX_ALPHA_ROWS else ALPHAS[best_alphas(errors)]
    learned = metric_kernels(many.X, many.Y, ridge, chosen.terms)
    (kernel,) = weighted_sum(plain | {name: (one,) for name, one in learned.items()}, chosen.terms)
    if n > MAX_ALPHA_ROWS and not data.time_order and not np.isnan(Y).any():
        kernel, alphas = data.refined(kernel, alphas, threshold, order)
    operator = np.eye(d)
    if d > 1 and np.isnan(Y).any():
        operator, alphas = data.coupled(kernel, alphas, threshold, order)
    names = [candidate.name for candidate in candidates]
    return AutomaticChoice(kernel, alphas, operator, threshold, names, np.array([c.errors for c in candidates]))


def best_form(forms: Sequence[Array], Y: Array, rng: np.random.Generator, **options: Any) -> int:
    """Number of the form of the inputs, (n, p) each, with the smallest error of three kernels on at most 400 rows.

    A form other than the first must be better by more than chance. Outputs are standardised; `options` are further
    fields of `ComparisonData`.
    """
    order = rng.permutation(len(Y))
    rows = np.sort(order[: _affordable(Y[order], MAX_WIDTH_ROWS)])
    errors, threshold = [], None
    for X in forms:
        half = np.zeros(len(Y), dtype=np.intp)
        some = ComparisonData(X, Y, variance=np.ones(Y.shape[1]), half=half, **options).some(rows)
        kernels = kernel_candidates(some.X)
        found = some.scored({name: (kernels[name],) for name in COMPARED_FORMS}, threshold)
        errors.append(found[0].error)
        threshold = found[0].threshold
    best = int(np.argmin(errors))
    return best if errors[best] < MAX_FORM_ERROR * errors[0] else 0


def kernel_candidates(X: Any) -> dict[str, ScalarKernel]:
    """Candidate kernels by name, the linear one first."""
    euclidean = median_distance(X)
    spread = float(Linear().diag(X).mean()) if sparse.issparse(X) else float(X.var(axis=0).sum())
    result: dict[str, ScalarKernel] = {"linear": Scaled(1.0 / spread if spread > 0 else 1.0, Linear())}
    result |= {f"Gaussian {f:g}": Gaussian(f * euclidean) for f in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)}
    result |= {f"Matern 3/2 {f:g}": Matern(1.5, f * euclidean) for f in (0.5, 1.0, 2.0, 4.0)}
    if not sparse.issparse(X):
        city = median_distance(X, "cityblock")
        result |= {f"Laplacian {f:g}": Laplacian(f * city) for f in (0.5, 1.0, 2.0, 4.0)}
    return result


def stretched(kernel: ScalarKernel, factor: float) -> ScalarKernel:
    """The kernel with all length scales multiplied by a factor; a kernel without them does not change."""
    parts = kernel.get_params(deep=False)
    parts |= {name: stretched(part, factor) for name, part in parts.items() if isinstance(part, ScalarKernel)}
    if "length_scale" in parts:
        parts["length_scale"] = factor * parts["length_scale"]
    return type(kernel)(**parts)


def _affordable(Y: Array, most: int) -> int:
    """Number of first rows whose decompositions, one for each pattern of gaps, cost no more than one of `most` rows."""
    n = min(len(Y), most)
    while n > 10:
        patterns = np.unique(~np.isnan(Y[:n]), axis=1)
        if np.sum(patterns.sum(axis=0) ** 3.0) <= 1.01 * most**3:
            break
        n = int(0.9 * n)
    return n


@dataclass(frozen=True)
class Candidate:
    """Errors of a kernel; a kernel in a learned metric is two, one for each half of the rows."""

    name: str  # family and width in units of the median distance
    kernels: tuple[ScalarKernel, ...]
    terms: dict[str, float]  # weights of the summed candidates by name; of itself if it is not a sum
    errors: Array  # (alphas, d) robust errors
    alphas: Array  # (d,) the best for each output
    error: float  # mean over the outputs at these alphas
    threshold: Array  # (d,) of the robust loss


@dataclass(frozen=True)
class ComparisonData:
    """Rows on which candidates are compared, and the validation scheme."""

    X: Any  # (n, p) of comparable scales, without repeated rows (merge them into weights)
    Y: Array  # (n, d) nan where an output is missing
    weight: Array | None = None  # (n,) > 0
    groups: Indices | None = None  # (n,) numbers of groups that are left out together
    time_order: bool = False  # rows are in time order, and later ones are predicted from earlier ones
    intercept: bool = True  # each output has an unpenalised constant
    n_jobs: int | None = None  # number of threads, see `map_threads`
    variance: Array = field(default_factory=lambda: np.ones(1))  # (d,) of the outputs in all rows
    half: Indices = field(default_factory=lambda: np.zeros(1, dtype=np.intp))  # (n,) half that learns a metric

    def some(self, chosen: Indices) -> ComparisonData:
        if len(chosen) == len(self.Y):
            return self
        weight = None if self.weight is None else self.weight[chosen]
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, X=self.X[chosen], Y=self.Y[chosen], half=self.half[chosen], weight=weight, groups=groups)

    @property
    def units(self) -> int:
        """Number of independent errors: rows or groups."""
        return len(self.Y) if self.groups is None else len(np.unique(self.groups))

    def cross_fitted(self, ridge: float, names: Collection[str] | None = None) -> Kernels:
        """Kernels in metrics learned from each half of the rows, all or those with these names."""
        first, second = (metric_kernels(self.X[self.half == h], self.Y[self.half == h], ridge, names) for h in (0, 1))
        return {name: (first[name], second[name]) for name in first}

    def scored_metrics(self, ridge: float, best: Candidate) -> list[Candidate]:
        """Kernels in learned metrics: one width of each metric, and further widths of promising ones.

        Their decompositions, two for each kernel, take most of the time of the choice.
        """
        kernels = self.cross_fitted(ridge)
        found = self.scored({name: each for name, each in kernels.items() if name.endswith(" 1")}, best.threshold)
        enough = PROMISING_ERROR * min(best.error, found[0].error)
        promising = tuple(candidate.name.removesuffix("1") for candidate in found if candidate.error < enough)
        more = {name: k for name, k in kernels.items() if name.startswith(promising) and not name.endswith(" 1")}
        return found + self.scored(more, best.threshold)

    def coupled(self, kernel: ScalarKernel, alphas: Array, threshold: Array, order: Indices) -> tuple[Array, Array]:
        """The best operator (d, d) and its alphas (d,), compared on the first rows of a random order."""
        d, seen = self.Y.shape[1], ~np.isnan(self.Y)
        together = float((seen.sum(axis=1) ** 2 - seen.sum(axis=1)).sum()) / max(d * (d - 1), 1)
        # Correlations need rows with both outputs observed.
        C = correlation(self.Y) if together >= MIN_COMMON_ROWS else np.ones((d, d))
        counts = np.cumsum(seen[order].sum(axis=1))
        some = self.some(np.sort(order[: max(int(np.searchsorted(counts, MAX_PAIRS)), min(len(order), 10))]))
        pairs = Targets(some.Y / np.sqrt(alphas), d, False, None, some.weight).pairs(some.groups)
        at, outputs = np.ix_(pairs.points, pairs.points), np.ix_(pairs.outputs, pairs.outputs)
        G = kernel(some.X)[at] * np.outer(pairs.roots, pairs.roots)
        E = (np.eye(d)[pairs.outputs] * pairs.roots[:, None])[:, np.unique(pairs.outputs)] if self.intercept else None
        best, operator, factor = np.inf, np.eye(d), 1.0
        for share in COUPLING_SHARES:
            T = (1.0 - share) * np.eye(d) + share * C
            K = G * (T / np.sqrt(np.outer(alphas, alphas)))[outputs]
            path = pairwise_path(K, pairs.scaled_values(), pairs.groups, np.array(ALPHA_FACTORS), E)
            for c, residuals in zip(ALPHA_FACTORS, path, strict=True):
                R = pairs.spread(residuals / pairs.roots, np.nan)
                error = float(np.mean(mean_loss(R * np.sqrt(alphas), threshold, some.weight) / self.variance))
                if error < best:
                    best, operator, factor = error, T, c
        return operator, factor * alphas

    def refined(
        self, kernel: ScalarKernel, alphas: Array, threshold: Array, order: Indices
    ) -> tuple[ScalarKernel, Array]:
        """Kernel and alphas (d,) of complete outputs, improved on growing subsets of the rows.

        Each subset compares the result of the one before with neighbouring widths (except the last, for time), then
        with smaller or larger alphas, by leave-one-out errors from one Cholesky factor for each distinct alpha.
        """
        for before, most in pairwise(REFINED_ROWS):
            if len(order) <= before:
                break
            # A metric was learned from the first rows of the order: prefer others.
            some = self.some(np.sort(order[-most:]))
            G = kernel(some.X)
            error = some._mean_error(G, alphas, threshold)
            if most < REFINED_ROWS[-1]:
                for factor in WIDTH_FACTORS:
                    changed, gram = stretched(kernel, factor), stretched(kernel, factor)(some.X)
                    found = some._mean_error(gram, alphas, threshold)
                    if found < error:
                        kernel, G, error = changed, gram, found
                        break
            for factor in (0.1**0.5, 10.0**0.5):
                found = some._mean_error(G, factor * alphas, threshold)
                if found < error:
                    alphas, error = factor * alphas, found
                    break
        return kernel, alphas

    def _mean_error(self, G: Array, alphas: Array, threshold: Array) -> float:
        """Mean robust leave-one-out error of complete outputs at one alpha for each."""
        v = np.ones(len(self.Y)) if self.weight is None else np.sqrt(self.weight)
        R = np.empty_like(self.Y)
        for alpha in np.unique(alphas):
            own = np.flatnonzero(alphas == alpha)
            u = v if self.intercept else None
            found, _ = factored_leave_one_out(
                lambda: G * v[:, None] * v, alpha, self.Y[:, own] * v[:, None], u, self.groups
            )
            R[:, own] = found / v[:, None]
        return float(np.mean(self._robust(R, threshold)))

    def scored(self, kernels: Kernels, threshold: Array | None = None) -> list[Candidate]:
        """All candidates, the best first; by default the first of `kernels` determines the threshold."""
        found, left = [], list(kernels.items())
        if threshold is None:
            name, each = left.pop(0)
            R, errors = self.errors(each, None)
            threshold = self._threshold(R, errors)
            found.append(self._candidate(name, each, self._robust(R, threshold), threshold))
        limit: Array = threshold
        found += map_threads(
            lambda named: self._candidate(*named, self.errors(named[1], limit)[1], limit),
            left,
            self.n_jobs,
            "comparing kernels",
        )
        return sorted(found, key=lambda candidate: candidate.error)

    def _candidate(self, name: str, kernels: tuple[ScalarKernel, ...], errors: Array, threshold: Array) -> Candidate:
        compared = errors * ERROR_PENALTIES[:, None]
        best = best_alphas(pooled(compared, self.units))
        error = float(compared[best, np.arange(len(best))].mean())
        return Candidate(name, kernels, {name: 1.0}, errors, ALPHAS[best], error, threshold)

    def residuals(self, G: Array, alphas: Array) -> Array:
        """(alphas, n, d) residuals of uncoupled outputs, nan if missing or never predicted; G is the whole gram."""
        # Outputs observed in the same rows share a decomposition.
        Y = self.Y
        result = np.full((len(alphas), *Y.shape), np.nan)
        v = np.ones(len(Y)) if self.weight is None else np.sqrt(self.weight)
        patterns, number = np.unique(~np.isnan(Y), axis=1, return_inverse=True)
        for p in range(patterns.shape[1]):
            rows, columns = np.flatnonzero(patterns[:, p]), np.flatnonzero(number.reshape(-1) == p)
            together = None if self.groups is None else self.groups[rows]
            if len(rows) <= 2 or (together is not None and len(np.unique(together)) < 2):
                continue
            own = G if len(rows) == len(Y) else G[np.ix_(rows, rows)]
            s = v[rows]
            own = own if self.weight is None else own * s[:, None] * s
            scaled, u = Y[np.ix_(rows, columns)] * s[:, None], s if self.intercept else None
            if self.time_order:
                found = _forward_residuals(own, scaled, u, alphas)
            else:
                found = SeparablePath(eigenpairs(own), scaled, u, together).uncoupled(alphas)
            result[:, rows[:, None], columns] = found / s[:, None]
        return result

    def errors(self, kernels: tuple[ScalarKernel, ...], threshold: Array | None) -> tuple[Array, Array]:
        """Residuals (alphas, n, d) and robust errors (alphas, d) of a kernel.

        With two kernels in metrics of the two halves, each row uses the metric learned from the other half.
        """
        paths = [self.residuals(kernel(self.X), ALPHAS) for kernel in kernels]
        R = paths[0] if len(paths) == 1 else np.where((self.half == 1)[:, None], *paths)
        return R, self._robust(R, np.full(R.shape[2], np.inf) if threshold is None else threshold)

    def _threshold(self, R: Array, errors: Array) -> Array:
        best = np.abs(R[errors.mean(axis=1).argmin()])
        known = ~np.isnan(best).all(axis=0)
        middle = np.zeros(len(known))
        middle[known] = np.nanmedian(best[:, known], axis=0)
        return np.maximum(THRESHOLD_MEDIANS * middle, np.sqrt(self.variance))

    def _robust(self, R: Array, threshold: Array) -> Array:
        errors: Array = mean_loss(R, threshold, self.weight) / self.variance
        # Without one of two rows, the rest may not determine a prediction with an intercept.
        return np.where(np.isnan(errors), np.inf, errors)


#: A choice at the edge of its grid is reported if its error is below this share of its neighbour's: of the next alpha,
#: or of twice the width.
EDGE_ALPHA_ERROR, EDGE_WIDTH_ERROR = 0.95, 0.8
#: Errors below this share of the variance count as equal, because differences between them are mostly rounding.
NEGLIGIBLE_ERROR = 1e-12
#: Factors of the errors in comparisons. Alphas below 1e-5 are for outputs almost without noise, where their errors are
#: smaller by far. Otherwise wide kernels with tiny alphas, whose systems are ill conditioned, would win by chance.
ERROR_PENALTIES = np.where(ALPHAS < 0.99e-5, 1.02, 1.0)


def edge_of_grid(name: str, grid: Array, errors: Array, chosen: float, share: float = EDGE_ALPHA_ERROR) -> str | None:
    """A description if `chosen` is the smallest or largest of `grid` (m,) and the errors (m,) still fall there."""
    order = np.argsort(grid)
    for word, end in (("smallest", order[:2]), ("largest", order[::-1][:2])):
        error, neighbour = errors[end[0]], errors[end[-1]]
        if chosen == grid[end[0]] and NEGLIGIBLE_ERROR < error < share * neighbour:
            return f"{name} {chosen:.3g}, the {word} candidate"
    return None


def pooled(errors: Array, n: int) -> Array:
    """Errors (alphas, d) of outputs with n rows, shrunk to their mean as if by `SHARED_ROWS` more rows."""
    known = np.isfinite(errors).all(axis=0)
    common = errors[:, known].mean(axis=1, keepdims=True) if known.any() else 0.0
    return (n * errors + SHARED_ROWS * common) / (n + SHARED_ROWS)


def best_alphas(errors: Array) -> Indices:
    """(d,) indices of the best alphas from errors (alphas, d); the largest alpha wins a tie."""
    return np.asarray(len(errors) - 1 - np.maximum(errors, NEGLIGIBLE_ERROR)[::-1].argmin(axis=0))


def few_alphas(errors: Array, most: int) -> Array:
    """(d,) the best alphas with at most `most` distinct values, from errors (alphas, d)."""
    # An alpha that is best for no output is not tried.
    own = best_alphas(errors)
    useful = np.unique(own)
    if len(useful) > most:
        chosen = min(combinations(useful, most), key=lambda some: float(errors[list(some)].min(axis=0).sum()))
        own = np.array(chosen)[best_alphas(errors[list(chosen)])]
    return ALPHAS[own]


def averaged(candidates: Sequence[Candidate], n: int) -> tuple[str, tuple[ScalarKernel, ...], dict[str, float]] | None:
    """The sum of candidates, the best first, weighted by Akaike weight over alpha: name, kernels and weights.

    None if only the best has a notable weight. `n` is the number of rows that compared the candidates.
    """
    errors = np.maximum([c.error for c in candidates], 1e-300)
    if not np.isfinite(errors[0]):
        return None
    akaike = (errors[0] / errors) ** (0.5 * n)
    trust = akaike / [np.exp(np.log(c.alphas).mean()) for c in candidates]
    trust = np.where((akaike > 0.01) & (trust > 1e-3 * trust.sum()), trust, 0.0)
    if np.count_nonzero(trust) < 2:
        return None
    weights = {c.name: float(w) for c, w in zip(candidates, trust / trust.sum(), strict=True) if w > 0}
    return f"sum of {len(weights)}", weighted_sum({c.name: c.kernels for c in candidates}, weights), weights


def weighted_sum(kernels: Kernels, weights: Mapping[str, float]) -> tuple[ScalarKernel, ...]:
    """sum_k w_k k_k of kernels by name; two sums if one of the kernels has two metrics."""

    def added(half: int) -> ScalarKernel:
        terms = [(w, kernels[name][half if len(kernels[name]) > 1 else 0]) for name, w in weights.items()]
        return terms[0][1] if len(terms) == 1 else reduce(Sum, [Scaled(w, kernel) for w, kernel in terms])

    return tuple(added(half) for half in range(max(len(kernels[name]) for name in weights)))
