"""Prediction of the links of new nodes from the inputs of all nodes and the links of known ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial, reduce
from operator import add
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.utils.validation import check_is_fitted

from ovk._extras import required
from ovk.base import Array, Indices, Mask, Parameters, as_adjacency, check_inputs
from ovk.kernels import Gaussian, ScalarKernel, Scaled, as_kernel
from ovk.solvers import factored_leave_one_out
from ovk.structured.iokr import IOKR
from ovk.structured.nodes import node_features


def link_aucs(truth: Any, scores: Any, new: Any, curves: Sequence[str] = ("roc", "pr")) -> dict[str, float]:
    """Areas under the ROC and precision-recall curves, by the kind of pair: {"roc new-known": ..., "pr new-new": ...}.

    `truth` and `scores` are (n, n) and symmetric, an entry of `truth` other than 0 is a link; `new`, (n,) booleans,
    marks nodes that were not in the training graph. The area is nan for a kind of pair with no link or only links.
    """
    links = np.asarray(truth.toarray() if hasattr(truth, "toarray") else truth) != 0
    values, mask = np.asarray(scores, dtype=np.float64), np.asarray(new)
    if links.shape != values.shape or links.ndim != 2 or links.shape != (len(mask), len(mask)):
        shapes = f"{links.shape}, {values.shape} and {mask.shape}"
        raise ValueError(f"truth, scores and new must have shapes (n, n), (n, n) and (n,), got {shapes}")
    if mask.dtype != bool:
        raise ValueError(f"new must contain booleans, got dtype {mask.dtype}")
    one, two = np.flatnonzero(~mask), np.flatnonzero(mask)
    upper = np.triu_indices(len(two), 1)
    kinds = {
        "new-known": (links[np.ix_(two, one)].ravel(), values[np.ix_(two, one)].ravel()),
        "new-new": (links[np.ix_(two, two)][upper], values[np.ix_(two, two)][upper]),
    }
    areas = {"roc": roc_auc_score, "pr": average_precision_score}
    return {
        f"{curve} {kind}": float(areas[curve](there, score)) if there.any() and not there.all() else float("nan")
        for kind, (there, score) in kinds.items()
        for curve in curves
    }


def best_threshold(there: Any, scores: Array) -> float:
    """The threshold with the largest F1 score; inf if no pair is a link."""
    there = np.asarray(there, dtype=bool)
    if not there.any():
        return float("inf")
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(there[order]), scores[order]
    f1 = 2.0 * hits / (np.arange(1, len(order) + 1) + hits[-1])
    # A threshold cannot separate equal scores.
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0
    best = int(f1.argmax())
    after = ranked[best + 1] if best + 1 < len(ranked) else ranked[best] - 1.0
    return float(0.5 * (ranked[best] + after))


#: Largest number of known nodes on whose pairs (eight million) the threshold is chosen.
MAX_THRESHOLD_NODES = 4000


@dataclass(eq=False, repr=False)
class LinkPredictor(Parameters):
    """Predicts which pairs of nodes are linked: f(u, u') = <h(u), h(u')> > threshold.

    Nodes that are close in the known graph have similar features phi under a kernel of its nodes. Input-output kernel
    regression learns h(u) near phi(u) from the inputs of the nodes, which also embeds new nodes.

    Parameters
    ----------
    kernel : scalar kernel or list of scalar kernels, optional
        Kernel of the nodes' inputs; a list is averaged. For kernel matrices, use `Precomputed(matrix)` with indices as
        inputs. Default ``Gaussian()``.
    graph_kernel : "diffusion", "regularized_laplacian", "adjacency", or an (l, l) kernel matrix of the known nodes
        "adjacency" is the positive part of the adjacency matrix, the nearest kernel: for dense graphs, in which the
        number of links of a node matters more than distances.
    beta : float >= 0, or sequence of floats
        Parameter of the graph kernel; a larger value makes distant nodes more similar. Of several candidates, the one
        with the largest area under the ROC curve of the known links is selected, by leave-one-out embeddings (errors in
        features of different graph kernels are not comparable).
    alpha : float > 0, or sequence of floats
        Weight of the penalty, or candidates to choose from by leave-one-out.
    normalised : bool
        Use the normalised Laplacian, so that nodes with many links have no more weight than others.
    centre : bool
        Subtract the mean features of the known nodes, and learn with an intercept. The mean carries no information
        about links, but with a large alpha it dominates h.
    cosine : bool
        Score a pair by the cosine of h(u) and h(u') instead of their inner product, so that nodes with long embeddings
        are not linked to all others.
    observed : bool or "both"
        In pairs of a new and a known node, use the observed features phi(u') of the known node instead of h(u'), or the
        mean of the two ("both").
    alpha_graph, n_neighbors
        As in `IOKR`: a penalty that uses nodes with known inputs and unknown links.

    Attributes
    ----------
    model_ : the fitted `IOKR`
    embedding_ : (l, r) features phi of the known nodes
    threshold_ : the score above which a pair is predicted to be a link
        It maximises F1 on the pairs of known nodes with leave-one-out embeddings, since new nodes are embedded less
        accurately than training nodes.
    alpha_, loo_errors_ : as in `IOKR`
    beta_ : the beta used
    names_ : names of the known nodes, None if they are indices

    See Also
    --------
    IOKR, Diffusion, RegularizedLaplacian

    Examples
    --------
    Nodes on a line, linked to their neighbours:

    >>> import numpy as np
    >>> from ovk import LinkPredictor
    >>> from ovk.kernels import Gaussian
    >>> x = np.arange(0.0, 10.0, 0.5)[:, None]
    >>> A = abs(x - x.T) == 0.5
    >>> model = LinkPredictor(Gaussian(0.5), alpha=0.01).fit(x, A)
    >>> model.score_pairs([[3.2], [8.1]], [[3.6]]).round(2)
    array([[ 0.19],
           [-0.05]])
    """

    _stored = {"X_known_": "n * any | other", "embedding_": "n k", "loo_errors_": "* inf", "model_": IOKR}

    _default_factories = {"kernel": Gaussian}

    kernel: Any = None
    graph_kernel: Any = "diffusion"
    beta: Any = 1.0
    alpha: Any = 1.0
    _: KW_ONLY
    normalised: bool = False
    centre: bool = True
    cosine: bool = False
    observed: Any = False
    alpha_graph: float = 0.0
    n_neighbors: int = 10

    def fit(self, X: Any, graph: Any, *, known: Any = None, input_graph: Any = None) -> Self:
        """Learn from the inputs of nodes and a known graph.

        Parameters
        ----------
        X : (n, p) array
            Inputs of the nodes.
        graph : networkx graph, (n, n) array or sparse matrix
            Links among the nodes, in the order of X; symmetric, weights >= 0. Self-loops are ignored.
        known : (l,) indices or (n,) booleans, optional
            Nodes with known links; the other rows of the graph are ignored. The graph may also be that of the known
            nodes alone, (l, l). With `alpha_graph` > 0 the inputs of the other nodes are used too.
        input_graph : (n, n) array, sparse matrix or networkx graph, optional
            Weights between the inputs of all nodes, in the order of X, for the penalty of `alpha_graph`; similarities
            of nearest neighbours by default.
        """
        with self._fitting(X):
            X = check_inputs(self, X, accept_sparse="csr", dtype=np.float64)
            n = X.shape[0]
            rows = _known_rows(known, n)
            A, names = as_adjacency(graph)
            if A.shape[0] == n and len(rows) < n:
                A = sparse.csr_array(A[rows][:, rows])
                names = None if names is None else [names[i] for i in rows]
            if A.shape[0] != len(rows):
                raise ValueError(f"graph has {A.shape[0]} nodes but X has {n} rows, {len(rows)} of them known")
            betas = np.atleast_1d(np.asarray(self.beta, dtype=np.float64))
            if betas.ndim != 1 or len(betas) == 0:
                raise ValueError(f"beta must be a number or a sequence of numbers, got {self.beta!r}")
            others = np.setdiff1d(np.arange(n), rows)
            penalty: dict[str, Any] = {"alpha_graph": self.alpha_graph, "n_neighbors": self.n_neighbors}
            unlabelled = X[others] if len(others) else None
            self.names_, self.adjacency_, self.X_known_ = names, A, X[rows]
            input_graph = _known_first(input_graph, rows, others)

            def learn(beta: float) -> None:
                features = node_features(A, self.graph_kernel, beta, normalised=self.normalised, centre=self.centre)
                model = IOKR(self._kernel(), alpha=self.alpha, fit_intercept=self.centre, **penalty)
                model.fit(X[rows], features, unlabelled=unlabelled, graph=input_graph)
                self.model_, self.embedding_, self.beta_ = model, features, beta
                self.alpha_, self.loo_errors_ = model.alpha_, model.loo_errors_

            areas = []
            for beta in betas if len(betas) > 1 else []:
                learn(float(beta))
                there, scores = self._left_out_pairs()
                areas.append(roc_auc_score(there, scores) if 0 < there.sum() < len(there) else 0.5)
            best = int(np.argmax(areas)) if areas else 0
            if best < len(betas) - 1 or not areas:
                learn(float(betas[best]))
            self.__dict__.pop("_memo", None)
        return self

    def _kernel(self) -> ScalarKernel:
        if not isinstance(self.kernel, (list, tuple)):
            return Gaussian() if self.kernel is None else as_kernel(self.kernel)
        if not self.kernel:
            raise ValueError("kernel must contain at least one kernel, got an empty list")
        kernels = [as_kernel(kernel) for kernel in self.kernel]
        average: ScalarKernel = reduce(add, kernels)
        return average if len(kernels) == 1 else Scaled(1.0 / len(kernels), average)

    @property
    def threshold_(self) -> float:
        """The score above which a pair is predicted to be a link; computed on first use."""
        check_is_fitted(self)
        return self._cached(("threshold", self.cosine), lambda: best_threshold(*self._left_out_pairs()))

    def _left_out_pairs(self) -> tuple[Mask, Array]:
        """Whether pairs of known nodes are linked, and their scores with leave-one-out embeddings."""
        rows = np.unique(np.linspace(0, self.adjacency_.shape[0] - 1, MAX_THRESHOLD_NODES).astype(np.intp))
        embedded = self._scaled(self._leave_one_out(self.X_known_)[rows])
        pairs = np.triu_indices(len(rows), 1)
        there = self.adjacency_[rows][:, rows].toarray()[pairs] != 0
        return there, (embedded @ embedded.T)[pairs]

    def _leave_one_out(self, X: Any) -> Array:
        """h of each known node, learned without it (and without the graph penalty, which changes little)."""
        constant = np.ones(X.shape[0]) if self.centre else None
        gram = partial(self.model_.kernel_, X)
        return self.embedding_ - factored_leave_one_out(gram, self.alpha_, self.embedding_, constant)[0]

    def embed(self, X: Any) -> Array:
        """h(u), (m, r): embeddings of nodes, whose inner products are the scores of links."""
        check_is_fitted(self)
        X = check_inputs(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return np.asarray(self.model_.predict(X)).reshape(X.shape[0], -1)

    def score_pairs(self, X: Any, Z: Any = None) -> Array:
        """Scores <h(u), h(u')>, (m, k), of all pairs of a node in X, (m, p), and a node in Z, (k, p), by default X.

        The nodes are new or known; ``model.X_known_`` are the inputs of the training nodes.
        """
        left = self._scaled(self.embed(X))
        return np.asarray(left @ (left if Z is None else self._scaled(self.embed(Z))).T)

    def score_known(self, X: Any) -> Array:
        """Scores of all pairs of a new node in X and a known node, (m, l)."""
        return np.asarray(self._scaled(self.embed(X)) @ self._known_features().T)

    def _known_features(self) -> Array:
        """Features of the known nodes, (l, r), for pairs of a new and a known node."""
        both = isinstance(self.observed, str)
        if both and self.observed != "both":
            raise ValueError(f"observed must be True, False or 'both', got {self.observed!r}")
        if not both and self.observed:
            return self._scaled(self.embedding_)
        placed = self._scaled(self.embed(self.X_known_))
        return 0.5 * (placed + self._scaled(self.embedding_)) if both else placed

    def _scaled(self, H: Array) -> Array:
        """Features whose inner products are the scores: of length one with `cosine`."""
        if not self.cosine:
            return H
        norms = np.linalg.norm(H, axis=1, keepdims=True)
        return np.asarray(np.divide(H, norms, out=np.zeros_like(H), where=norms > 0))

    def predict_graph(self, X: Any, names: Sequence[Any] | None = None, *, with_known: bool = False) -> Any:
        """The links among new nodes as a networkx graph, with scores as weights.

        Parameters
        ----------
        X : (m, p) array
            Inputs of the new nodes.
        names : m names, optional
            By default integers, from 0, or after those of the known nodes.
        with_known : bool
            Also add the known nodes with their links, and the predicted links between new and known nodes.
        """
        with required("predict_graph", "graph"):
            import networkx
        new = self._scaled(self.embed(X))
        known = list(range(len(self.embedding_))) if self.names_ is None else list(self.names_)
        first = len(known) if with_known else 0
        labels = list(range(first, first + len(new))) if names is None else list(names)
        if len(labels) != len(new) or len(set(labels)) != len(labels):
            raise ValueError(f"names must contain {len(new)} different names, one for each row of X")
        if with_known and set(labels) & set(known):
            raise ValueError("names must differ from those of the known nodes")
        found = networkx.Graph()
        found.add_nodes_from(labels)
        among = new @ new.T
        self._add_links(found, labels, labels, among, np.triu(among > self.threshold_, 1))
        if with_known:
            found.add_nodes_from(known)
            i, j = sparse.triu(self.adjacency_, 1).coords
            found.add_edges_from((known[a], known[b]) for a, b in zip(i, j, strict=True))
            scores = new @ self._known_features().T
            self._add_links(found, labels, known, scores, scores > self.threshold_)
        return found

    def _add_links(self, graph: Any, left: list[Any], right: list[Any], scores: Array, linked: Mask) -> None:
        for i, j in np.argwhere(linked):
            graph.add_edge(left[i], right[j], weight=float(scores[i, j]))

    def evaluate(self, X: Any, graph: Any, new: Any) -> dict[str, float]:
        """Areas under the ROC and precision-recall curves for pairs of a new and a known node, and of two new nodes.

        Parameters
        ----------
        X : (n, p) array
            Inputs of all nodes, the known ones in the training order.
        graph : networkx graph, (n, n) array or sparse matrix
            The true links.
        new : (n,) booleans
            True for nodes that were not in the training set.

        Returns
        -------
        dict
            Areas by name, such as "roc new-known"; nan for a kind of pair with no link or only links.
        """
        mask = np.asarray(new, dtype=bool)
        if np.count_nonzero(~mask) != len(self.embedding_):
            found = np.count_nonzero(~mask)
            raise ValueError(f"new must be False for the {len(self.embedding_)} training nodes, got {found}")
        scores = self.score_pairs(X)
        scores[np.ix_(mask, ~mask)] = self.score_known(np.asarray(X)[mask] if not sparse.issparse(X) else X[mask])
        return link_aucs(as_adjacency(graph)[0], scores, mask)


def _known_first(graph: Any, rows: Indices, others: Indices) -> Any:
    if graph is None:
        return None
    W, _ = as_adjacency(graph)
    n = len(rows) + len(others)
    if W.shape[0] != n:
        raise ValueError(f"input_graph must have a row for each of the {n} nodes, got {W.shape[0]}")
    order = np.concatenate([rows, others])
    return sparse.csr_array(W[order][:, order])


def _known_rows(known: Any, n: int) -> Indices:
    if known is None:
        return np.arange(n)
    rows = np.asarray(known)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) == 0 or rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"known must contain indices of nodes from 0 to {n - 1}, or a boolean for each, at least one")
    if len(np.unique(rows)) < len(rows):
        raise ValueError("known must contain each node at most once")
    return rows.astype(np.intp)
