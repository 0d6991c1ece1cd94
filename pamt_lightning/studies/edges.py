"""How well a mask, or the attributes alone, find the edges that join two classes.

An evaluation that reads the labels of all nodes; never part of training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.functional import pair_cosine
from pamt_lightning.studies.statistics import auc


def bad_edge_metrics(model: Any, datamodule: GraphDataModule) -> dict[str, float]:
    """Area under the ROC curve with which low similarity finds the edges between two classes.

    ``mask_auc`` is that of PAMT's mask after training, ``feature_auc`` that of the plain cosine of
    the attributes. ``_planted`` is about the edges that structure noise moved, ``_original`` about
    those between classes that the graph had before; both against the edges inside a class. Empty
    for methods without a mask, and if a node has no label.
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
    is_old = np.asarray(datamodule.raw.adjacency[rows, cols]).ravel() != 0
    similarity = model.mask_similarity(datamodule.full_batch().to(model.device))
    likeness = pair_cosine(graph.x, torch.from_numpy(rows), torch.from_numpy(cols)).numpy()
    scores = {"mask": similarity.double().cpu().numpy()[once], "feature": likeness}
    metrics = {}
    for name, score in scores.items():
        for kind, positive in (("planted", across & ~is_old), ("original", across & is_old)):
            metrics[f"{name}_auc_{kind}"] = auc(-score[positive], -score[~across])
    return {name: value for name, value in metrics.items() if not np.isnan(value)}
