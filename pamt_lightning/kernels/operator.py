"""A square sparse matrix that is multiplied with node matrices: ``adj @ y``."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from pamt_lightning.kernels.csr import (
    csr_tensor,
    products_at_entries,
    row_of_entries,
    sum_of_rows,
)
from pamt_lightning.kernels.neighbourhood import Neighbourhood
from pamt_lightning.kernels.sharding import RowShare


class SparseOperator:
    """A square sparse matrix ``[N, N]`` in CSR form; several processes may share its rows.

    Products, sums and scalings take and return whole vectors and matrices in every process, so an
    equation reads the same for one process and for several; with several, all must make each call.
    ``crow``, ``col`` (ascending within a row) and ``values`` are those of the ``rows`` of this one.
    """

    def __init__(self, crow: Tensor, col: Tensor, values: Tensor, rows: RowShare) -> None:
        self.crow, self.col, self.values, self.rows = crow, col, values, rows

    @classmethod
    def from_csr(
        cls, csr: Tensor, dtype: torch.dtype | None = None, rows: RowShare | None = None
    ) -> SparseOperator:
        """Take over the rows of this process, by default all, and share memory if possible."""
        if csr.layout != torch.sparse_csr or csr.dim() != 2 or csr.shape[0] != csr.shape[1]:
            raise ValueError(
                "`csr` must be a square sparse CSR tensor [N, N], "
                f"got layout {csr.layout} and shape {tuple(csr.shape)}."
            )
        crow, col, values = csr.crow_indices(), csr.col_indices(), csr.values()
        rows = rows or RowShare.of(len(crow) - 1)
        if rows.world_size > 1:
            crow = crow[rows.first : rows.first + rows.size + 1]
            entries = slice(int(crow[0]), int(crow[-1]))
            crow, col, values = crow - crow[0], col[entries], values[entries]
        return cls(crow, col, values.to(dtype or values.dtype), rows)

    @property
    def num_nodes(self) -> int:
        """Number of rows and columns N of the whole matrix."""
        return self.rows.num_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Shape ``(N, N)`` of the whole matrix."""
        return self.num_nodes, self.num_nodes

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of the values."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """Where the values are."""
        return self.values.device

    def to_csr(self) -> Tensor:
        """The rows of this process as a CSR tensor."""
        return csr_tensor(self.crow, self.col, self.values, self.num_nodes)

    def to_dense(self) -> Tensor:
        """The rows of this process as a dense tensor."""
        return self.to_csr().to_dense()

    def to(self, device: torch.device | str) -> SparseOperator:
        """The same matrix on ``device``; itself if it is there already."""
        if self.device == torch.device(device):
            return self
        crow, col, values = (part.to(device) for part in (self.crow, self.col, self.values))
        return SparseOperator(crow, col, values, self.rows)

    # Products ----------------------------------------------------------------------------------

    def __matmul__(self, y: Tensor) -> Tensor:
        """The product with a dense matrix ``[N, C]``, shape ``[N, C]``."""
        if self.device.type == "cpu":
            return self.rows.gather(sum_of_rows(self.crow, self.col, y, self.values))
        return self.rows.gather(self.to_csr() @ y)

    def __rmul__(self, factor: float) -> SparseOperator:
        """The matrix times a number."""
        return self.with_values(factor * self.values)

    def row_sums(self) -> Tensor:
        """Sum of each row, shape ``[N]``."""
        ones = torch.ones(self.num_nodes, 1, dtype=self.dtype, device=self.device)
        return self.rows.gather((self.to_csr() @ ones).squeeze(1))

    def sample(self, h: Tensor) -> Tensor:
        """The entries of ``h @ h.T`` at the stored entries, shape ``[nnz]``; only these exist."""
        h = h.contiguous()  # copied once, not once for each side
        csr = csr_tensor(self.crow, self.col, self.values.to(h.dtype), self.num_nodes)
        return products_at_entries(csr, h[self.rows.local], h)

    # Other matrices ----------------------------------------------------------------------------

    def with_values(self, values: Tensor) -> SparseOperator:
        """The matrix with the same stored positions and other values, sharing the index arrays."""
        return SparseOperator(self.crow, self.col, values, self.rows)

    def scale(self, left: Tensor, right: Tensor | None = None) -> SparseOperator:
        """Multiply row i by ``left[i]`` and column j by ``right[j]``, both of shape ``[N]``."""
        values = left[self.row_index] * self.values
        return self.with_values(values if right is None else values * right[self.col])

    def add_identity(self) -> SparseOperator:
        """The matrix plus the identity; its diagonal must be empty."""
        crow, col, first = self.crow, self.col, self.rows.first
        row = row_of_entries(crow, len(col))
        right_of = col.sub(first).sub_(row)  # distance to the right of the diagonal
        if bool((right_of == 0).any()):
            raise ValueError("the matrix must have an empty diagonal, got self-loops.")
        size, nnz = self.rows.size, len(col)
        nodes = torch.arange(size, device=col.device, dtype=crow.dtype)
        # Every entry moves up by one place for each diagonal entry stored before it.
        entries = torch.arange(nnz, device=col.device, dtype=crow.dtype)
        target = entries + row + (right_of > 0)
        left_of_diagonal = torch.zeros(size, device=col.device, dtype=crow.dtype)
        left_of_diagonal.index_add_(0, row, (right_of < 0).to(crow.dtype))
        diagonal = crow[:-1] + nodes + left_of_diagonal

        new_col = torch.empty(nnz + size, device=col.device, dtype=col.dtype)
        new_values = torch.empty(nnz + size, device=col.device, dtype=self.dtype)
        new_col[target], new_values[target] = col, self.values
        new_col[diagonal], new_values[diagonal] = first + nodes.to(col.dtype), 1.0
        new_crow = crow + torch.arange(size + 1, device=col.device, dtype=crow.dtype)
        return SparseOperator(new_crow, new_col, new_values, self.rows)

    # Computed once -----------------------------------------------------------------------------

    @cached_property
    def row_index(self) -> Tensor:
        """Row of each stored entry in the whole matrix, shape ``[nnz]``."""
        return row_of_entries(self.crow, len(self.col)).add_(self.rows.first)

    @cached_property
    def neighbourhood(self) -> Neighbourhood:
        """The stored positions and their transpose, for attention; in one process only."""
        if self.rows.world_size > 1:
            raise ValueError("attention needs all rows in one process.")
        return Neighbourhood(self.crow, self.row_index, self.col)

    @cached_property
    def squared(self) -> SparseOperator:
        """The matrix of the squared entries (not the square of the matrix)."""
        return self.with_values(self.values.square())
