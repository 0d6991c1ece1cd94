"""The normalised adjacency Â."""

from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.kernels.operator import SparseOperator


def normalize_adjacency(adjacency: SparseOperator) -> SparseOperator:
    r"""Normalise the graph with a self-loop on each node (PAMT, below Eq. 1).

    .. math:: \hat{A} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}, \qquad
        \tilde{D}_{ii} = \sum_j \tilde{A}_{ij}

    :math:`A` is symmetric with an empty diagonal; a node without neighbours keeps its self-loop.
    """
    return normalize_symmetric(adjacency.add_identity())


def normalize_symmetric(adj: SparseOperator) -> SparseOperator:
    r"""Scale a non-negative matrix to :math:`D^{-1/2} A D^{-1/2}`; empty rows stay empty."""
    root = safe_degree(adj.row_sums()).rsqrt()
    return adj.scale(root, root)


def safe_degree(degree: Tensor) -> Tensor:
    """Degrees with a finite inverse: 1 for 0, and no less than the smallest normal number."""
    return torch.where(degree > 0, degree.clamp(min=torch.finfo(degree.dtype).tiny), 1)
