"""Link prediction for new nodes: input-output kernel regression and other methods.

All use a kernel matrix of all nodes, the links among known nodes, and for trees the inputs. Each returns scores of all
pairs of nodes. The candidate settings of a method are in its `grid`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import laplacian

from ovk.kernels import Precomputed
from ovk.structured import LinkPredictor, link_aucs
from reproduce.output_kernel_trees import OutputKernelTrees
from reproduce.support import Array


@dataclass(frozen=True)
class LinkProblem:
    """Nodes of which some have known links.

    Attributes
    ----------
    K : (n, n) kernel of the inputs, scaled to 1 on the diagonal
    X : (n, p) inputs
    truth : (n, n) links, 0 or 1
    known : (l,) nodes whose links are known
    """

    K: Array
    X: Array
    truth: Array
    known: Any
    _kept: dict[Any, Any] = field(default_factory=dict)

    def keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """The cached result of `make`: settings of a method share decompositions."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @cached_property
    def links(self) -> Array:
        """(l, l) links among the known nodes."""
        return self.truth[np.ix_(self.known, self.known)]

    @cached_property
    def new(self) -> Any:
        """(n,) whether a node is new."""
        mask = np.ones(len(self.K), dtype=bool)
        mask[self.known] = False
        return mask

    def graph_kernel(self, beta: float, normalised: bool) -> Array:
        """Diffusion kernel of the known nodes; the eigenvectors of the Laplacian are kept for other betas."""
        e, V = self.keep(("laplacian", normalised), lambda: np.linalg.eigh(laplacian(self.links, normed=normalised)))
        kernel: Array = self.keep(("diffusion", beta, normalised), lambda: (V * np.exp(-beta * e)) @ V.T)
        return kernel

    @cached_property
    def signless(self) -> Array:
        """D + A, positive semi-definite and the links themselves off the diagonal."""
        return self.links + np.diag(self.links.sum(axis=1))

    def inputs(self, *, centred: bool) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the known nodes' kernel."""
        K, inner = self.centred if centred else self.K, np.ix_(self.known, self.known)
        e, Q = self.keep(("inputs", centred), lambda: np.linalg.eigh(K[inner]))
        return np.maximum(e, 0.0), Q

    @cached_property
    def centred(self) -> Array:
        """(n, n) kernel of inputs centred at the mean of the known ones."""
        mean = self.K[:, self.known].mean(axis=1)
        return np.asarray(self.K - mean - mean[:, None] + self.K[np.ix_(self.known, self.known)].mean())

    def among(self, part: Any) -> LinkProblem:
        """The problem on some of the nodes, with those in `part` (positions in known) known."""
        inner = np.ix_(self.known, self.known)
        return LinkProblem(self.K[inner], self.X[self.known], self.truth[inner], part)

    def aucs(self, scores: Array) -> dict[str, float]:
        """Areas under the curves by kind of pair."""
        return link_aucs(self.truth, scores, self.new)


Scores = Callable[..., Array]
COMPONENTS = [5, 20, 100]
#: With fewer known nodes than this, every quarter of them is held out in turn.
FEW = 500
#: Graph kernels of IOKR, and whether features are centred: time of the diffusion and whether its Laplacian is
#: normalised, or the links, made positive by dropping negative eigenvalues or by degrees on the diagonal.
GRAPHS: dict[str, tuple[str | tuple[float, bool], bool]] = {
    "diffusion, beta 2, centred": ((2.0, False), True),
    "normalised diffusion, beta 6, centred": ((6.0, True), True),
    "normalised diffusion, beta 3": ((3.0, True), False),
    "links": ("adjacency", False),
    "links and degrees": ("signless", False),
}
DIFFUSION = [(2.0, False), (6.0, True)]
#: Lower bound of eigenvalues relative to their mean, so that M_vv stays regular.
LEAST = 1e-6


def iokr(problem: LinkProblem, alpha: float, graph: str, cosine: bool, observed: bool | str) -> Array:
    """`LinkPredictor`, with one of the graph kernels in `GRAPHS`."""

    def fitted() -> LinkPredictor:
        kind, centre = GRAPHS[graph]
        features: Any = kind
        if kind != "adjacency":
            features = problem.signless if isinstance(kind, str) else problem.graph_kernel(*kind)
        model = LinkPredictor(Precomputed(problem.K), features, alpha=alpha, centre=centre)
        return model.fit(np.asarray(problem.known)[:, None], problem.links)

    model = problem.keep(("iokr", alpha, graph), fitted)
    H = problem.keep(("embedded", alpha, graph), lambda: model.embed(np.arange(len(problem.K))[:, None]))
    there = model.embedding_
    if cosine:
        H, there = unit(H), unit(there)
    # Pairs of known nodes are not scored.
    scores, new = np.zeros((len(H), len(H))), H[problem.new]
    scores[problem.new] = new @ H.T
    if observed:
        places = there if observed is True else 0.5 * (there + H[problem.known])
        scores[np.ix_(problem.new, problem.known)] = new @ places.T
    return scores


def naive(problem: LinkProblem) -> Array:
    """Similar nodes are linked."""
    return problem.K


def kernel_cca(problem: LinkProblem, ridge: float, components: int, diffusion: tuple[float, bool]) -> Array:
    """Kernel canonical correlation analysis between inputs and graph (Yamanishi, Vert and Kanehisa 2004).

    Directions a in the inputs that correlate most with the graph: singular vectors of
    (K + r I)^-1 K G (G + r I)^-1, both kernels centred, r = ridge n. Pairs are scored by their cosine there.
    """
    x, P = problem.inputs(centred=True)

    def directions() -> Array:
        G = problem.graph_kernel(*diffusion)
        mean = G.mean(axis=0)
        g, R = np.linalg.eigh(G - mean - mean[:, None] + mean.mean())
        g = np.maximum(g, 0.0)
        r_x, r_g = ridge * x.sum(), ridge * g.sum()
        M = (x / (x + r_x))[:, None] * (P.T @ R) * (g / (g + r_g))
        count = min(COMPONENTS[-1], len(M))
        squares, U = eigh(M @ M.T, subset_by_index=[len(M) - count, len(M) - 1])
        weights = np.sqrt(np.maximum(squares, 0.0)) / (x + r_x)[:, None]
        return np.asarray(P @ (U * weights))[:, ::-1]

    found = problem.keep(("cca", ridge, diffusion), directions)
    return cosines(problem.centred[:, problem.known] @ found[:, :components])


def metric_learning(problem: LinkProblem, ridge: float, components: int) -> Array:
    """Kernel metric learning (Vert and Yamanishi 2005): features in which linked nodes are close.

    The smallest solutions of (K L K + ridge K) a = mu K K a, centred; pairs are scored by minus their distance.
    """
    x, P = problem.inputs(centred=True)
    rank = x > 1e-8 * x[-1]
    x, P = x[rank], P[:, rank]
    L = laplacian(problem.links)

    def directions() -> Array:
        # With b = diag(x) P'a the problem is (P'LP + ridge / x) b = mu b.
        M = P.T @ (L @ P)
        M[np.diag_indices_from(M)] += ridge * x.sum() / x
        _, B = eigh(M, subset_by_index=[0, min(COMPONENTS[-1], len(x)) - 1])
        return np.asarray(P @ (B / x[:, None]))

    found = problem.keep(("metric", ridge), directions)
    places = problem.centred[:, problem.known] @ found[:, :components]
    square = np.einsum("ij,ij->i", places, places)
    return np.asarray(2.0 * places @ places.T - square - square[:, None])


def local(problem: LinkProblem, ridge: float) -> Array:
    """A kernel ridge classifier of links for each known node (Bleakley, Biau and Vert 2007).

    New nodes have no classifier, so pairs of two new nodes are scored by the mean agreement of the classifiers of known
    nodes on both.
    """
    e, Q = problem.inputs(centred=False)
    C = (Q / (e + ridge)) @ (Q.T @ (problem.links - problem.links.mean()))
    found = problem.K[:, problem.known] @ C
    scores = np.asarray(found @ found.T)
    scores[:, problem.known] = found
    scores[problem.known] = scores[:, problem.known].T
    return scores


def pairwise(problem: LinkProblem, ridge: float) -> Array:
    """Ridge regression of links under the Kronecker kernel of pairs, k((u, v), (u', v')) = k(u, u') k(v, v')."""
    e, Q = problem.inputs(centred=False)
    C = Q @ ((Q.T @ problem.links @ Q) / (np.multiply.outer(e, e) + ridge)) @ Q.T
    cross = problem.K[:, problem.known]
    return np.asarray(cross @ C @ cross.T)


def trees(problem: LinkProblem, diffusion: tuple[float, bool], leaf: int, estimators: int = 60) -> Array:
    """Output kernel trees with an extremely randomised ensemble, OK3+ET (Geurts et al. 2007)."""
    G = problem.graph_kernel(*diffusion)
    model = OutputKernelTrees(estimators, max_features="sqrt", min_samples_leaf=leaf, random_state=0)
    W = model.fit(problem.X[problem.known], G).weights(problem.X)
    return np.asarray(W @ G @ W.T)


def kernel_matrix_regression(problem: LinkProblem, ridge: float, diffusion: tuple[float, bool]) -> Array:
    """Penalised kernel matrix regression (Yamanishi and Vert 2007): the graph kernel as k(., u) B k(u, .).

    The minimiser of |G - K B K|^2 + 2 ridge tr(K B) is B = K^-1 (G - ridge K^-1) K^-1.
    """
    e, Q = problem.inputs(centred=False)
    e = np.maximum(e, 1e-3 * e.mean())
    M = Q.T @ problem.graph_kernel(*diffusion) @ Q
    M[np.diag_indices_from(M)] -= ridge / e
    cross = (problem.K[:, problem.known] @ Q) / e
    return np.asarray(cross @ M @ cross.T)


def spectral_em(V: Array, start: Array, known: Any, G: Array, steps: int) -> Array:
    """Eigenvalues mu of the model V diag(mu) V' nearest to the completions of a partly known matrix, (n,).

    Tsuda, Akaho and Asai (2003): the divergence KL(D, M) = tr(M^-1 D) - log det (M^-1 D) - n is minimised in turn over
    the completions D of G (e-step) and over the models M with eigenvectors V (m-step: mu_j = v_j' D v_j). With A = V
    [known] and M_vv = A diag(mu) A' the completion is known in the eigenvectors, and both steps are one:

        mu_j <- mu_j - mu_j^2 a_j' M_vv^-1 a_j + mu_j^2 a_j' M_vv^-1 G M_vv^-1 a_j.
    """
    A, mu = V[known], start
    for _ in range(steps):
        solved = np.linalg.solve(model_block(A, mu), A)
        explained = np.einsum("vj,vj->j", A, solved) - np.einsum("vj,vj->j", solved, G @ solved)
        mu = np.maximum(mu - mu**2 * explained, LEAST * mu.mean())
    return np.asarray(mu)


def model_block(A: Array, mu: Array) -> Array:
    """M_vv = A diag(mu) A'."""
    return np.asarray((A * mu) @ A.T)


def em_completion(problem: LinkProblem, diffusion: tuple[float, bool], steps: int) -> Array:
    """The graph kernel completed by em, with the eigenvectors of the inputs' kernel (Tsuda, Akaho and Asai 2003).

    D = R G R' + M - R M_v., with R = M_.v M_vv^-1.
    """
    G = problem.graph_kernel(*diffusion)
    e, V = problem.keep("all inputs", lambda: np.linalg.eigh(problem.K))
    e = np.maximum(e, LEAST * e.mean())
    A = V[problem.known]
    start = e * np.trace(G) / np.trace(model_block(A, e))
    mu = spectral_em(V, start, problem.known, G, steps)
    model = (V * mu) @ V.T
    R = np.linalg.solve(model_block(A, mu), model[problem.known]).T
    return np.asarray(R @ G @ R.T + model - R @ model[problem.known])


def unit(F: Array) -> Array:
    """Rows scaled to length 1; zero rows stay zero."""
    norms = np.linalg.norm(F, axis=1, keepdims=True)
    return np.asarray(np.divide(F, norms, out=np.zeros_like(F), where=norms > 0))


def cosines(F: Array) -> Array:
    """Cosines between rows."""
    U = unit(F)
    return np.asarray(U @ U.T)


@dataclass(frozen=True)
class Method:
    """A method that scores pairs.

    Attributes
    ----------
    name, scores : its name, and the scoring function
    grid : the candidate settings
    quick : settings that make it faster during selection
    by_kernel : whether it uses the kernel of the inputs
    """

    name: str
    scores: Scores
    grid: Mapping[str, list[Any]]
    quick: Mapping[str, Any] = field(default_factory=dict)
    by_kernel: bool = True

    def settings(self) -> Iterator[dict[str, Any]]:
        """All combinations."""
        for values in product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))

    def choose(self, problem: LinkProblem, seed: int = 0) -> dict[str, Any]:
        """The setting with the largest mean AUC-ROC when a quarter of the known nodes is held out.

        For few nodes, each quarter is held out in turn.
        """
        return self.chosen([problem], seed)[1]

    def chosen(self, problems: Sequence[LinkProblem], seed: int = 0) -> tuple[int, dict[str, Any]]:
        """The best setting and problem, among the same nodes with different kernels."""
        every = list(self.settings())
        if len(every) == len(problems) == 1:
            return 0, every[0]
        l = len(problems[0].known)  # noqa: E741 - the number of labelled nodes
        quarters = np.array_split(np.random.default_rng(seed).permutation(l), 4)
        best, worth = (0, every[0]), -np.inf
        for number, problem in enumerate(problems):
            inner = [problem.among(np.setdiff1d(np.arange(l), held)) for held in quarters[: 4 if l < FEW else 1]]
            for setting in every:
                value = float(np.mean([self._worth(part, setting) for part in inner]))
                if value > worth:
                    best, worth = (number, setting), value
            if not self.by_kernel:
                break
        return best

    def _worth(self, problem: LinkProblem, setting: dict[str, Any]) -> float:
        """Mean AUC-ROC of both kinds of pairs."""
        scores = self.scores(problem, **setting, **self.quick)
        return float(np.nanmean(list(link_aucs(problem.truth, scores, problem.new, curves=["roc"]).values())))


METHODS = [
    Method(
        "IOKR-ridge",
        iokr,
        {
            "alpha": [0.3, 3.0, 30.0, 300.0],
            "graph": list(GRAPHS),
            "cosine": [False, True],
            "observed": [False, True, "both"],
        },
    ),
    Method("naive similarity", naive, {}),
    Method("kernel CCA", kernel_cca, {"ridge": [1e-4, 1e-3, 1e-2], "components": COMPONENTS, "diffusion": DIFFUSION}),
    Method("kernel metric learning", metric_learning, {"ridge": [1e-3, 1e-2, 1e-1, 1.0], "components": COMPONENTS}),
    Method("local", local, {"ridge": [0.1, 1.0, 10.0, 100.0]}),
    Method("Kronecker ridge", pairwise, {"ridge": [0.1, 1.0, 10.0, 100.0, 1000.0]}),
    Method("OK3 + extra-trees", trees, {"diffusion": DIFFUSION, "leaf": [2, 6]}, {"estimators": 10}, False),
]
PKMR = Method(
    "kernel matrix regression", kernel_matrix_regression, {"ridge": [0.0, 1e-3, 1e-2], "diffusion": DIFFUSION}
)
EM = Method("EM", em_completion, {"diffusion": DIFFUSION, "steps": [3, 30]})
