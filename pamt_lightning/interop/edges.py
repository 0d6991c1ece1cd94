"""Edges between nodes with ids of any kind, as an undirected graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.errors import InputError, require_one_of

Array: TypeAlias = npt.NDArray[Any]
Repeated: TypeAlias = Literal["sum", "max", "count", "ignore"]
Opposite: TypeAlias = Literal["max", "sum"]


@dataclass(frozen=True)
class EdgeReport:
    """What was found in a list of edges.

    Attributes:
        rows: Rows of the list, or stored entries of a matrix.
        loops: Rows that join a node with itself, which are dropped.
        zeros: Rows of weight 0, which are dropped.
        repeated: Rows that repeat another one in the same direction.
        one_way: Edges that are listed in one direction only.
        edges: Undirected edges that are left.
        is_weighted: Whether they differ in weight.
    """

    rows: int
    loops: int
    zeros: int
    repeated: int
    one_way: int
    edges: int
    is_weighted: bool

    def __str__(self) -> str:
        facts = {
            "self-loops dropped": self.loops,
            "of weight 0 dropped": self.zeros,
            "repeated": self.repeated,
        }
        found = [f"{count:,} {what}" for what, count in facts.items() if count]
        kind = "weighted " if self.is_weighted else ""
        rest = f" ({', '.join(found)})" if found else ""
        return f"{self.edges:,} undirected {kind}edges from {self.rows:,} rows{rest}"


def adjacency_of(sources: Array, targets: Array, num_nodes: int) -> sp.csr_array:
    """The adjacency of a simple graph from the ends of its edges; see `simple_graph`."""
    ones = np.ones(len(sources), dtype=np.float32)
    return simple_graph(sp.coo_array((ones, (sources, targets)), shape=(num_nodes, num_nodes)))


def simple_graph(adjacency: sp.csr_array | sp.coo_array) -> sp.csr_array:
    """Make an adjacency undirected, unweighted and free of self-loops and duplicates."""
    coo = sp.coo_array(adjacency)
    ends = np.stack([coo.row, coo.col])[:, (coo.row != coo.col) & (coo.data != 0)]
    both = np.concatenate([ends, ends[::-1]], axis=1)
    ones = np.ones(both.shape[1], dtype=np.float32)
    simple = sp.csr_array(sp.coo_array((ones, (both[0], both[1])), shape=coo.shape))
    simple.sum_duplicates()
    simple.data[:] = 1.0
    return simple


def undirected_graph(
    matrix: Any, repeated: Repeated = "sum", opposite: Opposite = "max"
) -> tuple[sp.csr_array, EdgeReport]:
    r"""Make any square matrix the adjacency of an undirected graph without self-loops.

    Args:
        matrix: Sparse or dense; an entry is the weight of an edge from row to column, and must be
            finite and not negative. A COO matrix may hold an edge several times.
        repeated: What becomes of an edge that is repeated in the same direction: the ``sum`` or the
            ``max`` of the weights, their ``count``, or ``ignore`` weights, so that all edges weigh
            one.
        opposite: What becomes of :math:`w_{ij}` and :math:`w_{ji}`: their ``max``, which is the
            weight itself if an undirected edge is listed in one direction or in both, or their
            ``sum``, as for flows; a symmetric matrix is taken as it is.
    """
    require_one_of(get_args(Repeated), repeated=repeated)
    require_one_of(get_args(Opposite), opposite=opposite)
    coo = sp.coo_array(matrix)
    weights = np.asarray(coo.data, dtype=np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise InputError(
            f"Edge weights must be finite and not negative, got {weights[wrong[0]]} for the edge "
            f"from node {coo.row[wrong[0]]} to {coo.col[wrong[0]]}."
        )
    is_loop, is_zero = coo.row == coo.col, weights == 0
    keep = ~(is_loop | is_zero)
    row, col, weights = coo.row[keep], coo.col[keep], weights[keep]
    if repeated in ("count", "ignore"):
        weights = np.ones_like(weights)
    directed = _combined(row, col, weights, coo.shape, repeated)
    num_repeated = len(row) - directed.nnz
    if repeated == "ignore":
        directed.data[:] = 1.0
    transposed = sp.csr_array(directed.T)
    both_ways = int(directed.multiply(transposed.astype(bool)).nnz)
    difference = sp.csr_array(directed - transposed)
    is_symmetric = both_ways == directed.nnz and not difference.data.any()
    if opposite == "sum" and not is_symmetric and repeated != "ignore":
        joined = sp.csr_array(directed + transposed)
    else:
        joined = sp.csr_array(directed.maximum(transposed))
    if joined.data.max(initial=0.0) > np.finfo(np.float32).max:
        raise InputError("Edge weights must sum to at most 3.4e38: divide them by their mean.")
    joined = joined.astype(np.float32)
    joined.sort_indices()
    return joined, EdgeReport(
        rows=len(coo.row),
        loops=int(np.count_nonzero(is_loop)),
        zeros=int(np.count_nonzero(is_zero & ~is_loop)),
        repeated=num_repeated,
        one_way=directed.nnz - both_ways,
        edges=joined.nnz // 2,
        is_weighted=bool(len(joined.data)) and bool((joined.data != joined.data[0]).any()),
    )


def _combined(
    row: Array, col: Array, weights: Array, shape: tuple[int, ...], repeated: Repeated
) -> sp.csr_array:
    if repeated == "max" and len(row):
        order = np.lexsort((weights, col, row))
        row, col, weights = row[order], col[order], weights[order]
        last = np.append((np.diff(row) != 0) | (np.diff(col) != 0), True)  # the largest of equals
        row, col, weights = row[last], col[last], weights[last]
    combined = sp.csr_array(sp.coo_array((weights, (row, col)), shape=shape))
    combined.sum_duplicates()
    return combined


def id_array(ids: Iterable[Any]) -> Array:
    """Ids as an array: whole numbers, texts, or Python objects that can be hashed.

    >>> id_array([("a", 1), ("b", 2)]).tolist()
    [('a', 1), ('b', 2)]
    """
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iuU":
        return ids
    listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    kinds = {type(each) for each in listed}
    if kinds <= {int, bool} and bool not in kinds and _fits_int64(listed):
        return np.array(listed, dtype=np.int64)
    if kinds == {str}:
        return np.array(listed)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def positions_of(ids: Array, node_ids: Array, what: str) -> npt.NDArray[np.int64]:
    """The position of each id among those of the nodes; an error names the first unknown one."""
    if _is_range(node_ids) and ids.dtype.kind in "iu":
        unknown = np.flatnonzero((ids < 0) | (ids >= len(node_ids)))
        found = ids.astype(np.int64)
    else:
        import pandas as pd  # a quarter of a second

        listed = ids.astype(object) if ids.dtype.kind != node_ids.dtype.kind else ids
        index = pd.Index(node_ids, tupleize_cols=False)
        found = np.asarray(index.get_indexer(pd.Index(listed, tupleize_cols=False)), dtype=np.int64)
        unknown = np.flatnonzero(found < 0)
    if len(unknown):
        bad = ids[unknown[0]]
        shown = repr(bad.item() if hasattr(bad, "item") else bad)
        hint = f"{len(unknown):,} such in all; nodes are {_some(node_ids)}"
        raise InputError(f"{what} must be among the nodes, got {shown} ({hint}).")
    return found


def _fits_int64(values: list[int]) -> bool:
    return not values or (min(values) >= -(2**63) and max(values) < 2**63)


def _is_range(ids: Array) -> bool:
    return ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids)))


def _some(ids: Array) -> str:
    shown = ", ".join(repr(each) for each in ids[:3].tolist())
    return shown + (", …" if len(ids) > 3 else "")
