"""A graph as arrays, made from edges between nodes with ids of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from pamt_lightning.errors import InputError
from pamt_lightning.interop.edges import (
    Array,
    EdgeReport,
    Opposite,
    Repeated,
    id_array,
    positions_of,
    undirected_graph,
)
from pamt_lightning.interop.features import (
    Features,
    as_matrix,
    check_names,
    structural_features,
)
from pamt_lightning.interop.labels import IntArray, encode_labels
from pamt_lightning.interop.table import AttributeTable


@dataclass(frozen=True)
class GraphArrays:
    """What a graph is made from.

    Attributes:
        adjacency: ``[n, n]``, symmetric, positive weights, no self-loops.
        features: ``[n, d]`` float32, sparse CSR or dense.
        labels: ``[n]`` class numbers, -1 where the class is unknown.
        class_names: Name of class 0, 1, ...
        node_ids: ``[n]`` ids, as given.
        feature_names: Names of the columns of the features, if they have any.
        table: The columns that the features were made from, if there was a table.
        split: Positions of the nodes in ``train``, ``val`` and ``test``, if there is a split.
        report: What was found in the list of edges.
    """

    adjacency: sp.csr_array
    features: Features
    labels: IntArray
    class_names: tuple[str, ...]
    node_ids: Array
    feature_names: tuple[str, ...]
    report: EdgeReport
    table: AttributeTable | None = None
    split: Mapping[str, IntArray] = field(default_factory=dict)


def arrays_from_edges(edges: Any, *args: Any, **options: Any) -> GraphArrays:
    """The arrays of a graph from its edges ``[m, 2]`` or pairs; see `arrays_from_ends`."""
    return arrays_from_ends(*_ends(edges), *args, **options)


def arrays_from_ends(
    sources: Array,
    targets: Array,
    features: Any = None,
    labels: Any = None,
    *,
    node_ids: Any = None,
    weights: Any = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    repeated: Repeated | None = None,
    opposite: Opposite = "max",
) -> GraphArrays:
    """The arrays of a graph from the ids of the ends of its edges; see `Graph.from_edges`."""
    values = None if weights is None else _weights(weights, len(sources))
    if hasattr(labels, "to_dict") and not _counts_rows(labels):
        labels = labels.to_dict()  # a pandas Series with ids in its index
    sizes = {
        "node_ids": None if node_ids is None else len(node_ids),
        "features": None if features is None else int(np.shape(features)[0]),
        "labels": None if labels is None or isinstance(labels, Mapping) else len(labels),
    }
    given = {name: size for name, size in sizes.items() if size is not None}
    if len({*given.values()}) > 1:
        shown = ", ".join(f"{size:,} `{name}`" for name, size in given.items())
        raise InputError(f"There must be one of each for a node, got {shown}.")
    if node_ids is not None:
        ids = id_array(node_ids)
    elif given:
        ids = np.arange(next(iter(given.values())))
    else:
        ids = _distinct([sources, targets, *([id_array(labels)] if labels else [])])
    if len(ids) == 0:
        raise InputError("A graph must have at least one node, got none.")
    ends = [positions_of(part, ids, "Ends of edges") for part in (sources, targets)]
    data = np.ones(len(sources)) if values is None else values
    matrix = sp.coo_array((data, tuple(ends)), shape=(len(ids), len(ids)))
    return arrays_from_matrix(
        matrix,
        features,
        _in_order(labels, ids) if isinstance(labels, Mapping) else labels,
        node_ids=ids,
        class_names=class_names,
        feature_names=feature_names,
        repeated=repeated or ("ignore" if values is None else "sum"),
        opposite=opposite,
    )


def arrays_from_matrix(
    adjacency: Any,
    features: Any = None,
    labels: Any = None,
    *,
    node_ids: Any = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    repeated: Repeated = "sum",
    opposite: Opposite = "max",
) -> GraphArrays:
    """The arrays of a graph from any square matrix of edge weights."""
    shape = np.shape(adjacency)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"`adjacency` must be a square matrix, got shape {tuple(shape)}.")
    num_nodes = int(shape[0])
    joined, report = undirected_graph(adjacency, repeated, opposite)
    names = check_names(feature_names, 0 if features is None else int(np.shape(features)[-1]))
    if features is None:
        matrix, names = structural_features(joined)
    else:
        matrix = as_matrix(features)
        names = names or tuple(str(name) for name in getattr(features, "columns", ()))
    if matrix.shape[0] != num_nodes:
        raise InputError(f"`features` must have {num_nodes:,} rows, got {matrix.shape[0]:,}.")
    numbers, classes = np.full(num_nodes, -1), tuple(str(name) for name in class_names or ())
    if labels is not None:
        numbers, classes = encode_labels(labels, class_names)
    if len(numbers) != num_nodes:
        raise InputError(
            f"`labels` must be one for each of {num_nodes:,} nodes, got {len(numbers):,}."
        )
    return GraphArrays(
        adjacency=joined,
        features=matrix,
        labels=numbers,
        class_names=classes,
        node_ids=np.arange(num_nodes) if node_ids is None else id_array(node_ids),
        feature_names=names,
        report=report,
    )


def _counts_rows(labels: Any) -> bool:
    index = getattr(labels, "index", None)
    return type(index).__name__ == "RangeIndex" or not hasattr(index, "is_unique")


def _ends(edges: Any) -> tuple[Array, Array]:
    if hasattr(edges, "detach"):  # torch
        edges = edges.detach().cpu().numpy()
    if not hasattr(edges, "shape"):
        edges = list(edges)
        if any(not isinstance(edge, (tuple, list)) or len(edge) != 2 for edge in edges):
            raise InputError("`edges` must be pairs of node ids, such as [(0, 1), ('a', 'b')].")
        return id_array(one for one, _ in edges), id_array(other for _, other in edges)
    array = np.asarray(edges)
    if array.ndim != 2 or array.shape[1] != 2:
        hint = " Use edges.T." if array.ndim == 2 and array.shape[0] == 2 else ""
        raise InputError(f"`edges` must have shape [edges, 2], got {array.shape}.{hint}")
    if array.dtype.kind == "f" and (array == np.round(array)).all():
        array = array.astype(np.int64)
    return id_array(array[:, 0]), id_array(array[:, 1])


def _weights(weights: Any, count: int) -> Array:
    values = np.asarray(weights.detach().cpu() if hasattr(weights, "detach") else weights)
    if values.shape == (count, 1):
        values = values[:, 0]
    if values.shape != (count,) or values.dtype.kind not in "biuf":
        raise InputError(
            f"`weights` must be {count:,} numbers, one for each edge, got {values.dtype} of shape "
            f"{values.shape}."
        )
    return values.astype(np.float64)


def _distinct(parts: Sequence[Array]) -> Array:
    """The ids that occur, in order if they can be ordered, else as they come."""
    if all(part.dtype.kind in "iu" for part in parts) or all(p.dtype.kind == "U" for p in parts):
        return np.unique(np.concatenate(parts))
    return id_array(dict.fromkeys(each for part in parts for each in part.tolist()))


def _in_order(labels: Mapping[Any, Any], ids: Array) -> list[Any]:
    """Labels by id as a list, ``None`` for nodes without one."""
    known = set(ids.tolist())
    unknown = [each for each in labels if each not in known]
    if unknown:
        raise InputError(f"`labels` has the id {unknown[0]!r}, which is not that of a node.")
    return [labels.get(each) for each in ids.tolist()]
