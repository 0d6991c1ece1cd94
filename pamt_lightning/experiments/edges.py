"""Which edges lie: how well a mask, or the attributes alone, tell those that join two classes.

An evaluation that reads the labels of all nodes; no part of any training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.experiments.statistics import auc

_EDGES_AT_ONCE = 1 << 16


def bad_edge_metrics(model: Any, datamodule: GraphDataModule) -> dict[str, float]:
    """Area under the ROC curve with which low similarity finds the edges between two classes.

    ``mask_auc`` is that of PAMT's mask as it is when training has ended, ``feature_auc`` that of
    the plain cosine of the attributes. ``_planted`` counts the edges that structure noise has
    moved, ``_original`` those between classes that the graph had before; both are told from the
    edges inside a class. Empty for other methods, and without labels for all nodes.
    """
    graph = datamodule.graph
    labels = graph.y.numpy()
    if not getattr(model, "mask", False) or labels.min() < 0:
        return {}
    crow = graph.adjacency.crow_indices().numpy()
    cols = graph.adjacency.col_indices().numpy()
    rows = np.repeat(np.arange(len(labels)), np.diff(crow))
    once = rows < cols
    rows, cols = rows[once], cols[once]
    across = labels[rows] != labels[cols]
    there = datamodule.raw.adjacency
    is_old = np.asarray(there[rows, cols]).ravel() != 0
    similarity = model.mask_similarity(datamodule.graph_on(model.device)).double().cpu().numpy()
    scores = {"mask": similarity[once], "feature": _cosine(graph.x, rows, cols)}
    metrics = {}
    for name, score in scores.items():
        for kind, positive in (("planted", across & ~is_old), ("original", across & is_old)):
            counted = positive | ~across
            value = auc(-score[counted], positive[counted])
            if not np.isnan(value):
                metrics[f"{name}_auc_{kind}"] = value
    return metrics


def _cosine(
    x: torch.Tensor, rows: npt.NDArray[np.integer], cols: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    """Cosine of the attributes of both ends of each edge; 0 where an end has none."""
    if x.layout == torch.sparse_csr:
        parts = (x.values(), x.col_indices(), x.crow_indices())
        values, indices, indptr = (part.numpy() for part in parts)
        matrix = sp.csr_array(
            (values.astype(np.float64), indices, indptr), shape=(x.shape[0], x.shape[1])
        )
    else:
        matrix = sp.csr_array(x.double().numpy())
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    products = np.empty(len(rows))
    for start in range(0, len(rows), _EDGES_AT_ONCE):
        part = slice(start, start + _EDGES_AT_ONCE)
        both = matrix[rows[part]].multiply(matrix[cols[part]])
        products[part] = np.asarray(both.sum(axis=1)).ravel()
    lengths = np.maximum(norms[rows] * norms[cols], np.finfo(np.float64).tiny)
    return np.asarray(np.round(products / lengths, 9))  # equal but for the order of a sum is equal
