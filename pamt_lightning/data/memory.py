"""A graph in memory as the data module takes it: as if it had been read from a file."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from pamt_lightning.data.raw import RawGraph
from pamt_lightning.graph import SPLIT_FIELDS, Graph
from pamt_lightning.interop.features import pack_features
from pamt_lightning.interop.table import AttributeTable
from pamt_lightning.kernels.csr import scipy_csr

_HASHED = ("x", "adjacency", "y")


def raw_of(graph: Graph) -> RawGraph:
    """The graph before split, noise and scaling; a split that it has is a given one."""
    graph = graph.to("cpu")
    sparse = graph.x.layout == torch.sparse_csr
    features = scipy_csr(graph.x).astype(np.float32) if sparse else pack_features(graph.x.numpy())
    splits = {name: getattr(graph, name) for name in SPLIT_FIELDS}
    has_split = all(index is not None for index in splits.values())
    return RawGraph(
        adjacency=scipy_csr(graph.adjacency).astype(np.float32),
        features=features,
        labels=graph.y.numpy(),
        node_ids=np.asarray(graph.node_ids),
        class_names=graph.class_names,
        hashes={"graph": content_hash(graph)},
        feature_names=graph.feature_names,
        table=graph.table if graph.table is not None and _made(graph.table, features) else None,
        given_splits={name.removesuffix("_index"): index.numpy() for name, index in splits.items()}
        if has_split
        else {},
    )


def _made(table: AttributeTable, features: Any) -> bool:
    """Whether the attributes are still those of the table: a graph is copied with other ones."""
    own: Any = table.features
    if own.shape != features.shape or sp.issparse(own) != sp.issparse(features):
        return False
    if not sp.issparse(own):
        return bool(np.array_equal(own, features))
    difference = sp.csr_array(own - features)
    return not difference.data.any()


def content_hash(graph: Graph) -> str:
    """SHA-256 of attributes, edges and labels; ids and names do not affect what is learned."""
    digest = hashlib.sha256()
    for name in _HASHED:
        tensor = getattr(graph, name)
        sparse = tensor.layout == torch.sparse_csr
        parts = (
            (tensor.crow_indices(), tensor.col_indices(), tensor.values()) if sparse else (tensor,)
        )
        digest.update(repr((name, tuple(tensor.shape))).encode())
        for part in parts:
            digest.update(np.ascontiguousarray(part.numpy()).data)
    return digest.hexdigest()
