"""Graphs from and to pandas tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from pamt_lightning.errors import InputError
from pamt_lightning.interop.arrays import GraphArrays, arrays_from_ends
from pamt_lightning.interop.columns import Columns, find_column, other_labels
from pamt_lightning.interop.edges import Array, Opposite, Repeated, id_array
from pamt_lightning.interop.table import AttributeTable

if TYPE_CHECKING:
    import pandas as pd


def arrays_from_frames(
    nodes: pd.DataFrame | None,
    edges: pd.DataFrame,
    *,
    id: str | None = None,
    label: str | None = None,
    features: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    repeated: Repeated | None = None,
    opposite: Opposite = "max",
) -> tuple[GraphArrays, str]:
    """The arrays of a graph from two tables, and what was taken from which column."""
    edges = edges.rename(columns=str)
    nodes = None if nodes is None else nodes.rename(columns=str)
    ends = [
        find_column("source", edges.columns, source, "`edges`"),
        find_column("target", edges.columns, target, "`edges`"),
    ]
    if None in ends:
        role = ("source", "target")[ends.index(None)]
        shown = ", ".join(map(str, edges.columns))
        raise InputError(f"`edges` has no column `{role}`: name it, {role}=… (columns: {shown}).")
    weighted = find_column("weight", edges.columns, weight, "`edges`")
    for name in ends:
        missing = np.flatnonzero(edges[name].isna())
        if len(missing):
            raise InputError(f"`edges`, row {missing[0]}: `{name}` is missing. Remove the row.")
    pairs = [id_array(edges[name].to_numpy()) for name in ends]
    taken = [f"edges from `{ends[0]}` and `{ends[1]}`"]
    taken += [f"weights from `{weighted}`"] if weighted else []
    options: dict[str, Any] = {"repeated": repeated, "opposite": opposite}
    weights = None if weighted is None else edges[weighted].to_numpy()
    if nodes is None:
        found = arrays_from_ends(*pairs, weights=weights, **options)
        return found, "; ".join(taken)
    id_column = find_column("id", nodes.columns, id, "`nodes`")
    label_column = find_column("label", nodes.columns, label, "`nodes`")
    ids = nodes.index if id_column is None else nodes[id_column]
    if ids.isna().any():
        raise InputError(f"`nodes`: `{id_column or 'index'}` has missing ids. Give each node one.")
    others = [name for name in nodes.columns if name not in (id_column, label_column)]
    columns = list(others) if features is None else list(features)
    for name in columns:
        find_column("features", nodes.columns, name, "`nodes`")  # each must be there
    Columns(kinds=kinds or {}).check_kinds(list(nodes.columns), "`nodes`")
    taken.insert(0, f"ids from {'the index' if id_column is None else f'`{id_column}`'}")
    taken.insert(1, f"labels from `{label_column}`" if label_column else "no labels")
    taken.insert(2, _listed(columns))
    table = AttributeTable.fit(nodes[columns], kinds or {}) if columns else None
    found = arrays_from_ends(
        pairs[0],
        pairs[1],
        None if table is None else table.features,
        None if label_column is None else nodes[label_column],
        node_ids=ids.to_numpy(),
        weights=weights,
        feature_names=None if table is None else table.encoder.feature_names,
        **options,
    )
    notes = [] if table is None else list(table.encoder.notes)
    for name in other_labels(columns, label_column):
        notes.append(f"warning: `{name}` is an attribute but looks like a label")
    return replace(found, table=table), "; ".join([*taken, *notes])


def frames_of(
    node_ids: Array,
    labels: Array,
    features: sp.csr_array | Array,
    feature_names: Sequence[str],
    adjacency: sp.csr_array,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table of nodes and one of edges, each edge once."""
    import pandas as pd

    names = list(feature_names) or [f"feature_{n}" for n in range(features.shape[1])]
    nodes = pd.DataFrame({"node_id": node_ids, "label": labels})
    accessor: Any = pd.DataFrame.sparse
    columns = (
        accessor.from_spmatrix(features, columns=names)
        if sp.issparse(features)
        else pd.DataFrame(features, columns=names)
    )
    upper = sp.coo_array(sp.triu(adjacency, 1))
    edges = pd.DataFrame({"source": node_ids[upper.row], "target": node_ids[upper.col]})
    if len(upper.data) and (upper.data != 1).any():
        edges["weight"] = upper.data
    return pd.concat([nodes, columns], axis=1), edges


def _listed(columns: Sequence[str]) -> str:
    if not columns:
        return "no attributes"
    shown = ", ".join(f"`{name}`" for name in columns[:5])
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    return f"attributes from {shown}{more}"
