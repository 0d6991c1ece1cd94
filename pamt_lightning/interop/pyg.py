"""Graphs from and to PyTorch Geometric."""

from __future__ import annotations

from typing import Any

import numpy as np

from pamt_lightning.errors import InputError
from pamt_lightning.interop.arrays import GraphArrays, arrays_from_edges
from pamt_lightning.interop.edges import Opposite, Repeated

_PARTS = ("train", "val", "test")


def arrays_from_pyg(
    data: Any, *, repeated: Repeated | None = None, opposite: Opposite = "max"
) -> tuple[GraphArrays, str]:
    """The arrays of a graph from a ``torch_geometric.data.Data``, and what was taken."""
    if getattr(data, "edge_index", None) is None:
        raise InputError(
            "`data` must have `edge_index` [2, edges], as torch_geometric.data.Data has; for a "
            "HeteroData or a transposed adjacency convert it first."
        )
    edge_index, x, y = data.edge_index, getattr(data, "x", None), getattr(data, "y", None)
    weight = getattr(data, "edge_weight", None)
    name = "edge_weight"
    attributes: Any = getattr(data, "edge_attr", None)
    is_number = attributes is not None and attributes.numel() == edge_index.shape[1]
    if weight is None and is_number and attributes.is_floating_point():
        weight, name = attributes.reshape(-1), "edge_attr"
    num_nodes = int(data.num_nodes)
    if y is not None and y.dim() > 1 and y.shape[-1] != 1:
        raise InputError(f"`data.y` must hold one class per node, got shape {tuple(y.shape)}.")
    arrays = arrays_from_edges(
        edge_index.T,
        x,
        y,
        node_ids=np.arange(num_nodes),
        weights=weight,
        repeated=repeated,
        opposite=opposite,
    )
    masks: dict[str, Any] = {part: getattr(data, f"{part}_mask", None) for part in _PARTS}
    split = {}
    if all(mask is not None and mask.dim() == 1 for mask in masks.values()):
        unknown = arrays.labels < 0
        for part, mask in masks.items():
            inside = mask.cpu().numpy().astype(bool)
            inside[unknown] = False
            split[part] = np.flatnonzero(inside)
    taken = [
        "labels from `y`" if y is not None else "no labels",
        "attributes from `x`" if x is not None else "no attributes",
        *([f"weights from `{name}`"] if weight is not None else []),
        *(["the split from the masks"] if split else []),
    ]
    return GraphArrays(**{**vars(arrays), "split": split}), "; ".join(taken)
