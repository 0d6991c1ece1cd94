"""Attention over the stored entries of a sparse matrix: scores, softmax by row, weighted sums.

Of the matrix only the stored positions count, not the values.
"""

from __future__ import annotations

from torch import Tensor

from pamt_lightning.errors import require_shape
from pamt_lightning.kernels.operator import SparseOperator


def edge_scores(adj: SparseOperator, at_row: Tensor, at_col: Tensor) -> Tensor:
    r"""A score per stored entry and head ``[nnz, H]``, from one per row and per column ``[N, H]``.

    .. math:: s_{ij} = r_i + c_j
    """
    require_shape("at_row", at_row.shape, "N H", N=adj.num_nodes)
    require_shape("at_col", at_col.shape, "N H", N=adj.num_nodes, H=at_row.shape[1])
    return adj.neighbourhood.pair_sum(at_row, at_col)


def edge_softmax(adj: SparseOperator, scores: Tensor) -> Tensor:
    r"""Softmax of the scores over the stored entries of each row (GAT, Eq. 2).

    .. math:: \alpha_{ij} = \frac{\exp(s_{ij} - m_i)}{\sum_k \exp(s_{ik} - m_i)}, \qquad
        m_i = \max_k s_{ik}

    Scores and weights have the shape ``[nnz, H]``. The maximum cancels out, so no gradient flows
    through it; without it a score above 88 would overflow.
    """
    require_shape("scores", scores.shape, "nnz H", nnz=len(adj.col))
    return adj.neighbourhood.softmax(scores)


def attention_sum(adj: SparseOperator, weights: Tensor, h: Tensor) -> Tensor:
    r"""Weighted sum of the rows of the neighbours, for each head separately (GAT, Eq. 4).

    .. math:: o_{i,k} = \sum_j w_{ij,k}\, h_{j,k}

    Maps weights ``[nnz, H]`` and ``h`` ``[N, H, D]`` to ``[N, H, D]``; zero where a row has no
    entry.
    """
    require_shape("weights", weights.shape, "nnz H", nnz=len(adj.col))
    require_shape("h", h.shape, "N H D", N=adj.num_nodes, H=weights.shape[1])
    return adj.neighbourhood.weighted_sum(weights, h)
