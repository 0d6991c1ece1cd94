"""Attention over the stored entries of a sparse matrix: scores, softmax by row, weighted sums."""

from __future__ import annotations

from torch import Tensor

from pamt_lightning.kernels.operator import SparseOperator


def edge_scores(adj: SparseOperator, at_row: Tensor, at_col: Tensor) -> Tensor:
    r"""A score per stored entry, the sum of one per row and one per column.

    .. math:: s_{ij} = r_i + c_j

    Args:
        adj: The matrix; only its stored positions count.
        at_row: :math:`r`, one score per node and head, shape ``[N, H]``.
        at_col: :math:`c`, shape ``[N, H]``.

    Returns:
        :math:`s`, in the order of the stored entries, shape ``[nnz, H]``.
    """
    for name, value in (("at_row", at_row), ("at_col", at_col)):
        if value.dim() != 2 or value.shape[0] != adj.num_nodes:
            raise ValueError(
                f"`{name}` must be [N, H] with N={adj.num_nodes}, got {tuple(value.shape)}."
            )
    if at_row.shape != at_col.shape:
        raise ValueError(
            "`at_row` and `at_col` must have the same number of heads, "
            f"got {at_row.shape[1]} and {at_col.shape[1]}."
        )
    return adj.neighbourhood.pair_sum(at_row, at_col)


def edge_softmax(adj: SparseOperator, scores: Tensor) -> Tensor:
    r"""Softmax of the scores over the stored entries of each row (GAT, Eq. 2).

    .. math:: \alpha_{ij} = \frac{\exp(s_{ij} - m_i)}{\sum_k \exp(s_{ik} - m_i)}, \qquad
        m_i = \max_k s_{ik}

    The sum and the maximum run over the stored entries of row i only. The maximum cancels out, so
    no gradient flows through it; without it a score above 88 would overflow.

    Args:
        adj: The matrix; only its stored positions count.
        scores: :math:`s`, one per stored entry and head, shape ``[nnz, H]``.

    Returns:
        :math:`\alpha`, shape ``[nnz, H]``; each row with an entry sums to 1.
    """
    _require_entries(adj, scores, "scores")
    return adj.neighbourhood.softmax(scores)


def attention_sum(adj: SparseOperator, weights: Tensor, h: Tensor) -> Tensor:
    r"""Weighted sum of the rows of the neighbours, for each head separately (GAT, Eq. 4).

    .. math:: o_{i,k} = \sum_j w_{ij,k}\, h_{j,k}

    Gradients flow to ``weights`` and ``h``.

    Args:
        adj: The matrix; only its stored positions count.
        weights: :math:`w`, one per stored entry and head, shape ``[nnz, H]``.
        h: :math:`h`, shape ``[N, H, D]``.

    Returns:
        :math:`o`, shape ``[N, H, D]``; zero where a row has no entry.
    """
    _require_entries(adj, weights, "weights")
    if h.dim() != 3 or h.shape[:2] != (adj.num_nodes, weights.shape[1]):
        raise ValueError(
            f"`h` must be [N, H, D] with N={adj.num_nodes} and H={weights.shape[1]} "
            f"(columns of `weights`), got {tuple(h.shape)}."
        )
    return adj.neighbourhood.weighted_sum(weights, h)


def _require_entries(adj: SparseOperator, values: Tensor, name: str) -> None:
    if values.dim() != 2 or values.shape[0] != len(adj.col):
        raise ValueError(
            f"`{name}` must be [nnz, H] with nnz={len(adj.col)} (stored entries), "
            f"got {tuple(values.shape)}."
        )
