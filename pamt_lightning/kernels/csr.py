"""Sums, products and transposes on the index arrays of a sparse matrix in CSR form."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

_ROWS_AT_ONCE = 1 << 16


def csr_tensor(crow: Tensor, col: Tensor, values: Tensor, num_columns: int) -> Tensor:
    """The CSR tensor with these arrays, which are not checked or copied."""
    shape = (len(crow) - 1, num_columns)
    return torch.sparse_csr_tensor(crow, col, values, shape, check_invariants=False)


def scipy_csr(x: Tensor) -> sp.csr_array:
    """A CSR tensor as a SciPy array in double precision, which may share its memory."""
    arrays = (x.values().double(), x.col_indices(), x.crow_indices())
    shape = (x.shape[0], x.shape[1])
    return sp.csr_array(tuple(array.cpu().numpy() for array in arrays), shape=shape)


def gram_product(x: Tensor, dense: Tensor) -> Tensor:
    """``x.T @ (x @ dense)`` of a dense or CSR matrix, in blocks of rows: it may be on disk.

    Takes O(F · D) memory on the CPU beside ``x [N, F]`` and ``dense [F, D]``, and returns the type
    of ``dense``.
    """
    total = torch.zeros_like(dense)
    for start in range(0, x.shape[0], _ROWS_AT_ONCE):
        rows = slice(start, min(start + _ROWS_AT_ONCE, x.shape[0]))
        if x.layout == torch.sparse_csr:
            # SciPy multiplies by the transpose without making it.
            block = _block_of_rows(x, rows, dense.dtype)
            total += torch.from_numpy(block.T @ (block @ dense.numpy()))
        else:
            matrix = x[rows].cpu().to(dense.dtype)
            total += matrix.T @ (matrix @ dense)
    return total


def _block_of_rows(x: Tensor, rows: slice, dtype: torch.dtype) -> sp.csr_array:
    crow = x.crow_indices()[rows.start : rows.stop + 1]
    entries = slice(int(crow[0]), int(crow[-1]))
    arrays = (x.values()[entries].to(dtype), x.col_indices()[entries], crow - crow[0])
    shape = (rows.stop - rows.start, x.shape[1])
    return sp.csr_array(tuple(array.cpu().numpy() for array in arrays), shape=shape)


def symmetric_pattern(rows: Tensor, cols: Tensor, size: int) -> Tensor:
    """The CSR tensor ``[size, size]`` of ones at these positions and their transposes."""
    entries = torch.unique(torch.cat([rows * size + cols, cols * size + rows]))
    kind = torch.int32 if max(len(entries), size) < torch.iinfo(torch.int32).max else torch.int64
    per_row = torch.bincount(entries // size, minlength=size)
    crow = torch.cat([per_row.new_zeros(1), per_row.cumsum(0)]).to(kind)
    ones = torch.ones(len(entries), device=entries.device)
    return csr_tensor(crow, (entries % size).to(kind), ones, size)


def entrywise_maximum(first: Tensor, second: Tensor) -> Tensor:
    """The larger of two CSR matrices at each entry, stored where either is not zero."""
    larger = scipy_csr(first).maximum(scipy_csr(second)).tocsr()
    larger.sort_indices()
    parts = [torch.from_numpy(part) for part in (larger.indptr, larger.indices, larger.data)]
    crow, col, values = (part.to(first.device) for part in parts)
    kind = first.crow_indices().dtype if len(col) < 2**31 else torch.int64
    return csr_tensor(crow.to(kind), col.to(kind), values.to(first.dtype), first.shape[1])


def row_of_entries(crow: Tensor, num_entries: int) -> Tensor:
    """Row number of every stored entry, shape ``[nnz]``."""
    rows = torch.arange(len(crow) - 1, device=crow.device, dtype=crow.dtype)
    return rows.repeat_interleave(crow.diff(), output_size=num_entries)


def sum_of_rows(crow: Tensor, col: Tensor, dense: Tensor, weights: Tensor | None = None) -> Tensor:
    """The product of a CSR matrix ``[N, M]`` and a dense one ``[M, D]``; ones without ``weights``.

    Uses ``embedding_bag``: on a CPU two to three times faster than a CSR product, and one thread
    sums each output row in one order, so the bits do not depend on the number of threads.
    """
    rows = dense.contiguous()  # strided rows take nine times as long
    # Not `torch.nn.functional.embedding_bag`: its checks take a third of its time on a small graph.
    # The arguments: scale_grad_by_freq, mode (0 is sum), sparse, weights, last offset.
    result: Tensor = torch.embedding_bag(rows, col, crow, False, 0, False, weights, True)[0]
    return result


def products_at_entries(csr: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The entries of ``left @ right.T`` at the stored entries of ``csr``, shape ``[nnz]``.

    The dense product is never formed: O(nnz · D) time and O(nnz) memory.
    """
    result: Tensor = torch.sparse.sampled_addmm(csr, left, right.mT, beta=0.0).values()
    return result


def transpose_pattern(
    crow: Tensor, col: Tensor, num_columns: int, num_blocks: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """Where the stored entries of a CSR matrix ``[N, M]`` are in its transpose.

    With several blocks, the rows are divided into blocks of similar size and their transposes are
    stacked: the sum of the stacked blocks is the transpose.

    Returns:
        Row pointers of the transpose ``[num_blocks * M + 1]``, the column of each of its entries
        ``[nnz]``, and the number of that entry in the matrix ``[nnz]``, sorted by row and column.
    """
    num_rows = len(crow) - 1
    if num_blocks > 1:
        col = col.to(torch.int64, copy=True)
        ends = crow[[num_rows * block // num_blocks for block in range(num_blocks + 1)]].tolist()
        for block, (first, last) in enumerate(pairwise(ends)):
            col[first:last] += block * num_columns
    shape = (num_rows, num_blocks * num_columns)
    if col.device.type == "cpu":  # SciPy counts, which is ten times as fast as a sort
        by_row = sp.csr_array((np.arange(len(col)), col.numpy(), crow.numpy()), shape=shape)
        found = by_row.tocsc()
        parts = [torch.from_numpy(part) for part in (found.indptr, found.indices, found.data)]
    else:
        order = torch.argsort(col, stable=True)  # stable: rows stay sorted inside a column
        counts = torch.bincount(col, minlength=shape[1])
        t_crow = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        parts = [t_crow, row_of_entries(crow, len(col))[order], order]
    t_crow, t_col, order = (part.to(crow.dtype) for part in parts)
    return t_crow, t_col, order
