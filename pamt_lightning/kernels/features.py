"""A sparse feature matrix that keeps its transpose, and its product with a weight matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pamt_lightning.functional.normalize import sum_of_rows, transpose_pattern

# Share of stored entries from which on the dense products of an epoch are faster: the two meet at
# 0.4 to 0.5 for 128 to 2,000 attributes and 64 or 128 hidden units.
_MAX_DENSITY = 0.4
# Of a transpose: so many rows of a gradient stay in a cache, ...
_ROWS_PER_BLOCK = 1024
# ... if a sum over so many of them pays for adding up one more row of the result.
_MIN_ENTRIES_PER_SUM = 40


@dataclass(frozen=True, eq=False)
class CsrPattern:
    """Where the stored entries of a CSR matrix are; its transpose is made once, when asked for.

    Autograd through ``csr @ weight`` transposes the matrix anew at every backward pass; keeping the
    transpose makes forward plus backward about three times faster.

    Attributes:
        crow: Row pointers, shape ``[N + 1]``.
        col: Column of each stored entry, shape ``[nnz]``.
        num_columns: Number of columns F.
    """

    crow: Tensor
    col: Tensor
    num_columns: int

    @property
    def num_blocks(self) -> int:
        """In how many blocks of rows the transpose is kept."""
        by_cache = (len(self.crow) - 1) // _ROWS_PER_BLOCK
        by_sums = len(self.col) // (self.num_columns * _MIN_ENTRIES_PER_SUM)
        return max(1, min(by_cache, by_sums))

    @cached_property
    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row pointers and columns of the transpose, and the stored entry that each of its is.

        In `num_blocks` blocks, one below the other.
        """
        ones = torch.ones(1, device=self.col.device).expand(len(self.col))
        shape = (len(self.crow) - 1, self.num_columns)
        matrix = torch.sparse_csr_tensor(self.crow, self.col, ones, shape, check_invariants=False)
        return transpose_pattern(matrix, self.num_blocks)


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """Sparse features: a pattern, and the values at it.

    Attributes:
        pattern: Where the stored entries are; shared by all features with the same entries.
        values: The stored entries, shape ``[nnz]``.
        first_entry: How many entries stand before them, if these are rows of a larger whole.
        masked_from: What `masked` made them from, if that has been used before.
    """

    pattern: CsrPattern
    values: Tensor
    first_entry: int = 0
    masked_from: tuple[SparseFeatures, Tensor, float] | None = None

    @classmethod
    def from_csr(cls, x: Tensor, dtype: torch.dtype | None = None) -> SparseFeatures:
        """Take over a CSR tensor ``x`` of shape ``[N, F]``.

        Args:
            x: The features.
            dtype: Floating type of the values; that of ``x`` unless given.
        """
        if x.layout != torch.sparse_csr or x.dim() != 2:
            raise ValueError(
                f"`x` must be a sparse CSR matrix [N, F], got {x.layout} of shape {tuple(x.shape)}."
            )
        pattern = CsrPattern(x.crow_indices(), x.col_indices(), int(x.shape[1]))
        return cls(pattern, x.values().to(dtype or x.dtype))

    @property
    def crow(self) -> Tensor:
        """Row pointers, shape ``[N + 1]``."""
        return self.pattern.crow

    @property
    def col(self) -> Tensor:
        """Column of each stored entry, shape ``[nnz]``."""
        return self.pattern.col

    def to_dense(self) -> Tensor:
        """The same as a dense matrix."""
        return torch.sparse_csr_tensor(
            self.crow, self.col, self.values, self.shape, check_invariants=False
        ).to_dense()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes and of features."""
        return len(self.crow) - 1, self.pattern.num_columns

    @cached_property
    def t_values(self) -> Tensor:
        """The stored entries in the order of the transpose."""
        order = self.pattern.transposed[2]
        if self.masked_from is None:
            return self.values.index_select(0, order)  # [...] takes 4 times as long
        whole, kept, scale = self.masked_from
        # Bytes are put in order in a third of the time that numbers take.
        return _masked(whole.t_values, kept.index_select(0, order), scale)

    def with_values(self, values: Tensor) -> SparseFeatures:
        """The same sparsity with other values."""
        return SparseFeatures(self.pattern, values, self.first_entry)

    def masked(self, kept: Tensor, scale: float) -> SparseFeatures:
        """The values where ``kept`` is one, times ``scale``; zeros where it is zero.

        Args:
            kept: Bytes, shape ``[nnz]``.
            scale: A factor.
        """
        values = _masked(self.values, kept, scale)
        # The first time, the values are put in order as they are: there may be no second time.
        used_before = "transposed" in self.pattern.__dict__
        source = (self, kept, scale) if used_before else None
        return SparseFeatures(self.pattern, values, self.first_entry, source)

    def to(self, device: torch.device) -> SparseFeatures:
        """The same on ``device``; itself if it is there already."""
        if self.values.device == device:
            return self
        crow, col = self.crow.to(device), self.col.to(device)
        pattern = CsrPattern(crow, col, self.pattern.num_columns)
        return SparseFeatures(pattern, self.values.to(device), self.first_entry)

    def take_rows(self, nodes: Tensor | slice) -> SparseFeatures:
        """Some rows as a matrix of their own; those of a slice share the memory of this one."""
        if isinstance(nodes, slice):
            first, last, _ = nodes.indices(self.shape[0])
            crow = self.crow[first : last + 1]
            entries: Tensor | slice = slice(int(crow[0]), int(crow[-1]))
            crow = crow - crow[0]
        else:
            counts = self.crow.diff()[nodes]
            crow = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(self.crow.dtype)
            first_entry = (self.crow[:-1][nodes] - crow[:-1]).repeat_interleave(counts)
            entries = torch.arange(int(crow[-1]), device=crow.device) + first_entry
        pattern = CsrPattern(crow, self.col[entries], self.pattern.num_columns)
        before = entries.start if isinstance(entries, slice) else 0
        return SparseFeatures(pattern, self.values[entries], before)


def _masked(values: Tensor, kept: Tensor, scale: float) -> Tensor:
    # Not `values * kept`: with two types at once it takes three times as long.
    return kept.to(values.dtype).mul_(values).mul_(scale)


def is_sparse_enough(stored: int, rows: int, columns: int) -> bool:
    """Whether a network is faster on sparse features with so many entries than on dense ones."""
    return stored <= _MAX_DENSITY * rows * columns


def take_rows(x: Tensor | SparseFeatures, nodes: Tensor | slice) -> Tensor | SparseFeatures:
    """Some rows of dense or sparse features; those of a slice share their memory."""
    return x.take_rows(nodes) if isinstance(x, SparseFeatures) else x[nodes]


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
        crow, col, _ = x.pattern.transposed
        by_block = sum_of_rows(crow, col, grads[0], x.t_values)
        blocks = x.pattern.num_blocks
        return by_block if blocks == 1 else by_block.view(blocks, x.shape[1], -1).sum(0), None
