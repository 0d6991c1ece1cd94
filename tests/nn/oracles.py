"""What tests of graph networks share: PyTorch Geometric, and small inputs for it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from pamt_lightning.functional import normalize_adjacency, row_indices
from pamt_lightning.graph import Graph
from pamt_lightning.nn import SparseFeatures


def pyg() -> Any:
    """``torch_geometric.nn``; it takes seconds to import, so only where it is needed."""
    return import_module("torch_geometric.nn")  # of the extra `dev`: missing is an error


def inputs(graph: Graph) -> tuple[SparseFeatures, Tensor, Tensor, Tensor]:
    """Sparse attributes, the same dense, Â, and the edges without self-loops as PyG has them."""
    x = graph.x.to(torch.float64)
    adj_norm = normalize_adjacency(graph.adjacency.to(torch.float64))
    adjacency = graph.adjacency
    edges = torch.stack([row_indices(adjacency), adjacency.col_indices()]).long()
    return SparseFeatures.from_csr(x), x.to_dense(), adj_norm, edges


def gradients(module: torch.nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """Gradient of each parameter."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
