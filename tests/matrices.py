"""Matrices for tests of kernels, equations and networks."""

from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.functional import normalize_adjacency
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.operator import SparseOperator


def operator(matrix: Tensor) -> SparseOperator:
    """A dense or CSR matrix as an operator."""
    return SparseOperator.from_csr(
        matrix if matrix.layout == torch.sparse_csr else matrix.to_sparse_csr()
    )


def normalized(graph: Graph, dtype: torch.dtype = torch.float64) -> SparseOperator:
    """Â of a graph."""
    return normalize_adjacency(SparseOperator.from_csr(graph.adjacency, dtype))


def with_index_type(csr: Tensor, index_type: torch.dtype) -> Tensor:
    """The same CSR tensor with other index types; torch checks it."""
    crow, col = csr.crow_indices().to(index_type), csr.col_indices().to(index_type)
    return torch.sparse_csr_tensor(crow, col, csr.values(), csr.shape, check_invariants=True)
