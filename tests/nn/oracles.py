"""Shared by tests of networks: PyTorch Geometric, small inputs, gradients."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import SparseFeatures
from pamt_lightning.kernels.operator import SparseOperator
from tests.matrices import normalized, operator


def pyg() -> Any:
    """``torch_geometric.nn``; it takes seconds to import, so only where it is needed."""
    return import_module("torch_geometric.nn")  # of the extra `dev`: missing is an error


def inputs(graph: Graph) -> tuple[SparseFeatures, Tensor, SparseOperator, Tensor]:
    """Sparse attributes, the same dense, Â, and the edges without self-loops as PyG has them."""
    x = graph.x.to(torch.float64)
    adjacency = operator(graph.adjacency)
    edges = torch.stack([adjacency.row_index, adjacency.col]).long()
    return SparseFeatures.from_csr(x), x.to_dense(), normalized(graph), edges


def gradients(module: torch.nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """Gradient of each parameter."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
