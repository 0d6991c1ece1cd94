"""Self-loops, degrees and the normalised adjacency Â, all on CSR tensors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from pamt_lightning.kernels.sharding import RowShare


def require_square_csr(adj: Tensor, name: str) -> None:
    """Raise a ``ValueError`` unless ``adj`` is a square CSR tensor."""
    if adj.layout != torch.sparse_csr or adj.dim() != 2 or adj.shape[0] != adj.shape[1]:
        raise ValueError(
            f"`{name}` must be a square sparse CSR tensor [N, N], "
            f"got layout {adj.layout} and shape {tuple(adj.shape)}."
        )


def require_csr_rows(adj: Tensor, first: int | None, name: str) -> int:
    """Raise a ``ValueError`` unless ``adj`` is a square CSR tensor, or rows of one.

    Args:
        adj: The tensor.
        first: Number of its first row in the square one; none if it is that.
        name: Of the argument.

    Returns:
        The number of the first row.
    """
    if first is None:
        require_square_csr(adj, name)
        return 0
    if adj.layout != torch.sparse_csr or not 0 <= first <= adj.shape[1] - adj.shape[0]:
        raise ValueError(
            f"`{name}` must be rows of a square sparse CSR tensor [N, N] from {first} on, "
            f"got layout {adj.layout} and shape {tuple(adj.shape)}."
        )
    return first


def take_csr_rows(adj: Tensor, rows: slice) -> Tensor:
    """Consecutive rows of a CSR tensor, sharing the memory of their entries."""
    first, last, _ = rows.indices(adj.shape[0])
    crow = adj.crow_indices()[first : last + 1]
    entries = slice(int(crow[0]), int(crow[-1]))
    return torch.sparse_csr_tensor(
        crow - crow[0],
        adj.col_indices()[entries],
        adj.values()[entries],
        (last - first, adj.shape[1]),
        check_invariants=False,
    )


def with_values(adj: Tensor, values: Tensor) -> Tensor:
    """The CSR tensor with the sparsity of ``adj`` and other values, sharing the index arrays."""
    return torch.sparse_csr_tensor(
        adj.crow_indices(), adj.col_indices(), values, adj.shape, check_invariants=False
    )


def row_indices(adj: Tensor) -> Tensor:
    """Row number of every stored entry of a CSR tensor, shape ``[nnz]``."""
    crow = adj.crow_indices()
    rows = torch.arange(adj.shape[0], device=crow.device, dtype=crow.dtype)
    return rows.repeat_interleave(crow.diff(), output_size=adj.col_indices().numel())


def transpose_pattern(matrix: Tensor, num_blocks: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Where the stored entries of a CSR tensor ``[N, M]`` stand in its transpose.

    Args:
        matrix: The tensor.
        num_blocks: Cut the rows into so many blocks of like size and put the transposes of these
            one below the other: their sum is the transpose.

    Returns:
        Row pointers of the transpose ``[num_blocks * M + 1]``, the column of each of its entries
        ``[nnz]``, and the number that entry has in ``matrix`` ``[nnz]``, all of them sorted by row
        and column.
    """
    crow, col = matrix.crow_indices(), matrix.col_indices()
    num_rows, num_columns = matrix.shape
    if num_blocks > 1:
        col = col.to(torch.int64, copy=True)
        ends = crow[[num_rows * block // num_blocks for block in range(num_blocks + 1)]].tolist()
        for block, (first, last) in enumerate(pairwise(ends)):
            col[first:last] += block * num_columns
    shape = (num_rows, num_blocks * num_columns)
    if col.device.type == "cpu":  # by counting: ten times as fast as a sort
        entries = np.arange(len(col))
        by_row = sp.csr_array((entries, col.numpy(), crow.numpy()), shape=shape)
        found = by_row.tocsc()
        parts = [torch.from_numpy(part) for part in (found.indptr, found.indices, found.data)]
    else:
        order = torch.argsort(col, stable=True)  # stable: rows stay sorted inside a column
        counts = torch.bincount(col, minlength=shape[1])
        t_crow = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        parts = [t_crow, row_indices(matrix)[order], order]
    t_crow, t_col, order = (part.to(crow.dtype) for part in parts)
    return t_crow, t_col, order


def sum_of_rows(crow: Tensor, col: Tensor, dense: Tensor, weights: Tensor | None = None) -> Tensor:
    """Sum, for each row of a CSR pattern, of the rows of ``dense`` that its entries point to.

    By ``embedding_bag``: on a CPU two to three times faster than a CSR product, and each output
    row is summed by one thread in one order, so the bits do not depend on the number of threads.

    Args:
        crow: Row pointers ``[N + 1]``.
        col: Row of ``dense`` that each entry points to, shape ``[nnz]``.
        dense: Shape ``[M, D]``.
        weights: One factor per entry, shape ``[nnz]``.

    Returns:
        Shape ``[N, D]``; a zero row where there is no entry.
    """
    rows = dense.contiguous()  # strided rows take nine times as long
    # What `torch.nn.functional.embedding_bag` calls after checks that take a third of its time on a
    # small graph. The arguments: scale_grad_by_freq, mode (0 is sum), sparse, weights, last offset.
    result: Tensor = torch.embedding_bag(rows, col, crow, False, 0, False, weights, True)[0]
    return result


def sum_by_row(adj: Tensor, values: Tensor) -> Tensor:
    """Sum of ``values`` (one per stored entry of ``adj``) over each row, shape ``[N]``."""
    ones = torch.ones(adj.shape[1], 1, dtype=values.dtype, device=values.device)
    return (with_values(adj, values) @ ones).squeeze(1)


def add_self_loops(adjacency: Tensor, first: int | None = None) -> Tensor:
    r"""Add one entry of value 1 to the diagonal of every row: :math:`\tilde{A} = A + I`.

    Args:
        adjacency: :math:`A`, CSR with sorted columns and an empty diagonal, shape ``[N, N]``; or
            some of its rows, one after the other.
        first: Number of the first row that is there; none if all are.

    Returns:
        :math:`\tilde{A}`, CSR with sorted columns and the index type of ``adjacency``.
    """
    first = require_csr_rows(adjacency, first, "adjacency")
    crow, col, values = adjacency.crow_indices(), adjacency.col_indices(), adjacency.values()
    num_nodes, nnz = adjacency.shape[0], col.numel()
    row = row_indices(adjacency)
    right_of = col.sub(first).sub_(row)  # how far right of the diagonal
    if bool((right_of == 0).any()):
        raise ValueError("`adjacency` must have an empty diagonal, got self-loops.")
    nodes = torch.arange(num_nodes, device=col.device, dtype=crow.dtype)
    # An entry moves up by one place for each diagonal entry stored before it.
    entries = torch.arange(nnz, device=col.device, dtype=crow.dtype)
    target = entries + row + (right_of > 0)
    left_of_diagonal = torch.zeros(num_nodes, device=col.device, dtype=crow.dtype)
    left_of_diagonal.index_add_(0, row, (right_of < 0).to(crow.dtype))
    diagonal = crow[:-1] + nodes + left_of_diagonal

    new_col = torch.empty(nnz + num_nodes, device=col.device, dtype=col.dtype)
    new_values = torch.empty(nnz + num_nodes, device=col.device, dtype=values.dtype)
    new_col[target], new_values[target] = col, values
    new_col[diagonal], new_values[diagonal] = first + nodes.to(col.dtype), 1.0
    new_crow = crow + torch.arange(num_nodes + 1, device=col.device, dtype=crow.dtype)
    return torch.sparse_csr_tensor(
        new_crow, new_col, new_values, adjacency.shape, check_invariants=False
    )


def normalize_adjacency(adjacency: Tensor, share: RowShare | None = None) -> Tensor:
    r"""Normalise the graph with a self-loop on each node (PAMT, below Eq. 1).

    .. math:: \hat{A} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}, \qquad
        \tilde{D}_{ii} = \sum_j \tilde{A}_{ij}

    Args:
        adjacency: :math:`A`, CSR, symmetric, empty diagonal, shape ``[N, N]``.
        share: The rows of this process, if several work together: all must make this call.

    Returns:
        :math:`\hat{A}`, CSR, shape ``[N, N]``, or the rows of this process; a node without
        neighbours keeps its self-loop.
    """
    if share is None:
        return scale_symmetric(add_self_loops(adjacency))
    return scale_symmetric(add_self_loops(take_csr_rows(adjacency, share.rows), share.first), share)


def scale_symmetric(adj: Tensor, share: RowShare | None = None) -> Tensor:
    r"""Scale a non-negative CSR matrix to :math:`D^{-1/2} A D^{-1/2}`; empty rows stay empty.

    Args:
        adj: :math:`A`, shape ``[N, N]``, or the rows of this process.
        share: The rows of this process, if several work together: all must make this call.
    """
    values = adj.values()
    degree = sum_by_row(adj, values)
    own = torch.where(degree > 0, degree.clamp(min=torch.finfo(degree.dtype).tiny), 1).rsqrt()
    everywhere = own if share is None else share.gather(own)
    return with_values(adj, own[row_indices(adj)] * values * everywhere[adj.col_indices()])
