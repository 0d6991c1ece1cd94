"""A sparse feature matrix with its transpose stored, and its product with a weight matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pamt_lightning.functional.normalize import sum_of_rows, transpose_pattern


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """CSR features together with the CSR form of their transpose.

    Autograd through ``csr @ weight`` transposes the matrix anew at every backward pass; storing the
    transpose once makes forward plus backward about three times faster.

    Attributes:
        crow: Row pointers, shape ``[N + 1]``.
        col: Column of each stored entry, shape ``[nnz]``.
        values: The stored entries.
        t_crow: Row pointers of the transpose, shape ``[F + 1]``.
        t_col: Column (that is, node) of each entry of the transpose.
        t_order: Position in ``values`` of each entry of the transpose.
    """

    crow: Tensor
    col: Tensor
    values: Tensor
    t_crow: Tensor
    t_col: Tensor
    t_order: Tensor

    @classmethod
    def from_csr(cls, x: Tensor, dtype: torch.dtype | None = None) -> SparseFeatures:
        """Store the transpose of a CSR tensor ``x`` of shape ``[N, F]``; O(nnz log nnz), once.

        Args:
            x: The features.
            dtype: Floating type of the values; that of ``x`` unless given.
        """
        if x.layout != torch.sparse_csr or x.dim() != 2:
            raise ValueError(
                f"`x` must be a sparse CSR matrix [N, F], got {x.layout} of shape {tuple(x.shape)}."
            )
        crow, col, values = x.crow_indices(), x.col_indices(), x.values()
        t_crow, t_col, t_order = transpose_pattern(x)
        return cls(crow, col, values.to(dtype or values.dtype), t_crow, t_col, t_order)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes and of features."""
        return len(self.crow) - 1, len(self.t_crow) - 1

    @cached_property
    def t_values(self) -> Tensor:
        """The stored entries in the order of the transpose."""
        return self.values[self.t_order]

    def with_values(self, values: Tensor) -> SparseFeatures:
        """The same sparsity with other values."""
        return SparseFeatures(self.crow, self.col, values, self.t_crow, self.t_col, self.t_order)

    def take_rows(self, index: Tensor) -> SparseFeatures:
        """The rows ``index`` as a matrix of their own."""
        counts = self.crow.diff()[index]
        crow = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(self.crow.dtype)
        first = (self.crow[:-1][index] - crow[:-1]).repeat_interleave(counts)
        entries = torch.arange(int(crow[-1]), device=crow.device) + first
        rows = torch.sparse_csr_tensor(
            crow,
            self.col[entries],
            self.values[entries],
            (len(index), self.shape[1]),
            check_invariants=False,
        )
        return SparseFeatures.from_csr(rows)


def take_rows(x: Tensor | SparseFeatures, index: Tensor) -> Tensor | SparseFeatures:
    """The rows ``index`` of dense or sparse features."""
    return x.take_rows(index) if isinstance(x, SparseFeatures) else x[index]


def sparse_linear(x: SparseFeatures, weight: Tensor) -> Tensor:
    """``x @ weight`` for sparse ``x`` ``[N, F]`` and dense ``weight`` ``[F, D]``.

    Gradients flow to ``weight`` only.
    """
    if weight.dim() != 2 or weight.shape[0] != x.shape[1]:
        raise ValueError(
            f"`weight` must be [F, D] with F={x.shape[1]} (columns of `x`), "
            f"got {tuple(weight.shape)}."
        )
    result: Tensor = _SparseLinear.apply(weight, x)  # type: ignore[no-untyped-call]
    return result


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: SparseFeatures) -> Tensor:
        ctx.x = x  # no gradient flows to it, so its tensors need not be saved one by one
        return sum_of_rows(x.crow, x.col, weight, x.values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        x: SparseFeatures = ctx.x
        return sum_of_rows(x.t_crow, x.t_col, grads[0], x.t_values), None
