"""Graphs from and to NetworkX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from pamt_lightning.errors import InputError, did_you_mean
from pamt_lightning.interop.arrays import GraphArrays, arrays_from_ends
from pamt_lightning.interop.columns import SPELLINGS
from pamt_lightning.interop.edges import Array, Opposite, Repeated, id_array

if TYPE_CHECKING:
    import networkx as nx


def arrays_from_networkx(
    graph: Any,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    repeated: Repeated | None = None,
    opposite: Opposite = "max",
) -> tuple[GraphArrays, str]:
    """The arrays of a graph from a NetworkX graph, and what was taken from which attribute."""
    nodes = dict(graph.nodes(data=True))
    found = dict.fromkeys(name for data in nodes.values() for name in data)
    label = _chosen("label", found, label)
    names = [name for name in found if name != label] if features is None else list(features)
    for name in names:
        _chosen("features", found, name)
    if features is None:
        names = [name for name in names if _is_numeric(nodes, name)]
    edge_names = dict.fromkeys(name for *_, data in graph.edges(data=True) for name in data)
    weight = _chosen("weight", edge_names, weight)
    edges = list(graph.edges(data=True))
    sources, targets = (id_array(edge[end] for edge in edges) for end in (0, 1))
    values = None if weight is None else np.array([data.get(weight, 1.0) for *_, data in edges])
    columns = [_column(nodes, name) for name in names]
    widths = [part.shape[1] for part in columns]
    arrays = arrays_from_ends(
        sources,
        targets,
        np.concatenate(columns, axis=1) if columns else None,
        None if label is None else [data.get(label) for data in nodes.values()],
        node_ids=id_array(nodes),
        weights=values,
        feature_names=[
            name if width == 1 else f"{name}_{number}"
            for name, width in zip(names, widths, strict=True)
            for number in range(width)
        ]
        or None,
        repeated=repeated,
        opposite=opposite,
    )
    shown = ", ".join(f"`{name}`" for name in names[:5]) + (", …" if len(names) > 5 else "")
    taken = [
        f"labels from `{label}`" if label else "no labels",
        f"attributes from {shown}" if names else "no attributes",
        *([f"weights from `{weight}`"] if weight else []),
    ]
    return arrays, "; ".join(taken)


def networkx_of(
    node_ids: Array,
    labels: Array,
    features: sp.csr_array | Array | None,
    adjacency: sp.csr_array,
) -> nx.Graph[Any]:
    """A NetworkX graph; nodes have ``label`` (unless unknown) and ``x``, edges ``weight``."""
    import networkx as nx

    graph: nx.Graph[Any] = nx.Graph()
    ids = node_ids.tolist()
    for number, (node, label) in enumerate(zip(ids, labels, strict=True)):
        graph.add_node(node, **({} if label is None else {"label": label}))
        if features is not None:
            row = features[[number]]
            graph.nodes[node]["x"] = row.toarray()[0] if sp.issparse(row) else row[0]
    upper = sp.coo_array(sp.triu(adjacency, 1))
    ends = zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True)
    weighted = bool((upper.data != 1).any())
    for one, other, value in ends:
        graph.add_edge(ids[one], ids[other], **({"weight": value} if weighted else {}))
    return graph


def _chosen(role: str, names: Mapping[str, object], given: str | None) -> str | None:
    if given is not None:
        if given not in names:
            known = did_you_mean(given, names) or f" There are: {', '.join(map(str, names))}."
            raise InputError(f"No {'edge' if role == 'weight' else 'node'} has {given!r}.{known}")
        return given
    return next((name for name in SPELLINGS.get(role, ()) if name in names), None)


def _is_numeric(nodes: Mapping[Any, Mapping[str, Any]], name: str) -> bool:
    return all(
        isinstance(data.get(name), Number | np.ndarray)
        or (
            (isinstance(data.get(name), (list, tuple)))
            and all(isinstance(each, Number) for each in data[name])
        )
        for data in nodes.values()
    )


def _column(nodes: Mapping[Any, Mapping[str, Any]], name: str) -> Array:
    """The values of an attribute as columns ``[n, width]``."""
    rows = []
    for node, data in nodes.items():
        if name not in data:
            raise InputError(f"The node {node!r} has no {name!r}. Give each node one, such as 0.")
        rows.append(np.atleast_1d(np.asarray(data[name])))
    widths = {row.shape for row in rows}
    if len(widths) > 1 or len(next(iter(widths))) != 1 or rows[0].dtype.kind not in "biuf":
        raise InputError(f"{name!r} must be a number, or a vector of one length, at each node.")
    return np.stack(rows)
