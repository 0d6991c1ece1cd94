"""Attribute matrices, dense or sparse, as the first layer of a network uses them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pamt_lightning.errors import require_shape
from pamt_lightning.kernels.csr import csr_tensor, sum_of_rows, transpose_pattern
from pamt_lightning.kernels.dropout import draw_kept, dropout, relu_dropout

# Density above which dense products are faster: the measured break-even is 0.4 to 0.5 for 128 to
# 2,000 attributes and 64 or 128 hidden units.
_MAX_DENSITY = 0.4
# A transpose is divided into blocks: this many rows of a gradient stay in a cache, ...
_ROWS_PER_BLOCK = 1024
# ... which pays if each sum has at least this many entries.
_MIN_ENTRIES_PER_SUM = 40


def is_sparse_enough(stored: int, rows: int, columns: int) -> bool:
    """Whether sparse features with this many stored entries are faster than dense ones."""
    return stored <= _MAX_DENSITY * rows * columns


@dataclass(frozen=True, eq=False)
class _Rows:
    """Attributes ``[n, F]`` of nodes that may be a part of a larger whole."""

    first_row: int = field(default=0, kw_only=True)  # rows of the whole before these, for dropout

    def relu_dropout(self, hidden: Tensor, rate: float, training: bool) -> tuple[Tensor, float]:
        """`pamt_lightning.kernels.dropout.relu_dropout` of a layer that was computed from these."""
        return relu_dropout(hidden, rate, training, self.first_row * hidden.shape[1])


@dataclass(frozen=True, eq=False)
class DenseFeatures(_Rows):
    """A dense attribute matrix."""

    matrix: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes n and of attributes F."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the matrix is."""
        return self.matrix.device

    def dropout(self, rate: float, training: bool) -> DenseFeatures:
        """Set a share ``rate`` of the entries to zero and scale the others up, in training only."""
        if not training or rate == 0.0:
            return self
        first = self.first_row * self.shape[1]
        return replace(self, matrix=dropout(self.matrix, rate, training, first))

    def linear(self, weight: Tensor) -> Tensor:
        """The product with ``weight`` ``[F, D]``."""
        require_shape("weight", weight.shape, "F D", F=self.shape[1])
        return self.matrix @ weight

    def take_rows(self, nodes: Tensor | slice) -> DenseFeatures:
        """Some rows; those of a slice share the memory of this matrix."""
        first = 0
        if isinstance(nodes, slice):
            first = self.first_row + nodes.indices(self.shape[0])[0]
        return DenseFeatures(self.matrix[nodes], first_row=first)

    def starting_at(self, first_row: int, first_entry: int) -> DenseFeatures:
        """The same rows, after so many rows and stored entries of the whole."""
        return replace(self, first_row=first_row)

    def to(self, target: torch.device | torch.dtype) -> DenseFeatures:
        """The same matrix on another device or of another type; itself if nothing changes."""
        matrix = self.matrix.to(target)
        return self if matrix is self.matrix else replace(self, matrix=matrix)


@dataclass(frozen=True, eq=False)
class CsrPattern:
    """The stored positions of a CSR matrix ``[n, F]``; the transpose is computed once, on demand.

    Autograd through ``csr @ weight`` transposes the matrix in every backward pass; keeping the
    transpose makes forward plus backward about three times faster.
    """

    crow: Tensor
    col: Tensor
    num_columns: int

    @property
    def num_blocks(self) -> int:
        """Number of blocks of rows in the transpose."""
        by_cache = (len(self.crow) - 1) // _ROWS_PER_BLOCK
        by_sums = len(self.col) // (self.num_columns * _MIN_ENTRIES_PER_SUM)
        return max(1, min(by_cache, by_sums))

    @cached_property
    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """The transpose in `num_blocks` stacked blocks; see `transpose_pattern`."""
        return transpose_pattern(self.crow, self.col, self.num_columns, self.num_blocks)


@dataclass(frozen=True, eq=False)
class SparseFeatures(_Rows):
    """A sparse attribute matrix: stored positions, and the values there."""

    pattern: CsrPattern
    values: Tensor
    first_entry: int = 0  # stored entries of the whole before these, for dropout
    # The matrix, mask and factor that dropout made this one from, if the transpose is known.
    masked_from: tuple[SparseFeatures, Tensor, float] | None = None

    @classmethod
    def from_csr(cls, x: Tensor) -> SparseFeatures:
        """Take over a CSR tensor ``[n, F]``, sharing its memory."""
        if x.layout != torch.sparse_csr or x.dim() != 2:
            raise ValueError(
                f"`x` must be a sparse CSR matrix [N, F], got {x.layout} of shape {tuple(x.shape)}."
            )
        pattern = CsrPattern(x.crow_indices(), x.col_indices(), int(x.shape[1]))
        return cls(pattern, x.values())

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes n and of attributes F."""
        return len(self.pattern.crow) - 1, self.pattern.num_columns

    @property
    def device(self) -> torch.device:
        """Where the values are."""
        return self.values.device

    @cached_property
    def t_values(self) -> Tensor:
        """The stored entries in the order of the transpose."""
        order = self.pattern.transposed[2]
        if self.masked_from is None:
            return self.values.index_select(0, order)  # [...] takes 4 times as long
        whole, kept, scale = self.masked_from
        # Bytes are reordered in a third of the time of floating-point numbers.
        return _masked(whole.t_values, kept.index_select(0, order), scale)

    def to_dense(self) -> DenseFeatures:
        """The same as a dense matrix."""
        csr = csr_tensor(self.pattern.crow, self.pattern.col, self.values, self.shape[1])
        return DenseFeatures(csr.to_dense(), first_row=self.first_row)

    def dropout(self, rate: float, training: bool) -> SparseFeatures:
        """Dropout of the stored entries, which is the same: a dropped zero stays zero."""
        if not training or rate == 0.0:
            return self
        kept, scale = draw_kept(self.values, rate, self.first_entry, torch.uint8)
        # In the first step there is no transpose yet, and in batches there is never a second step.
        source = (self, kept, scale) if "transposed" in vars(self.pattern) else None
        values = _masked(self.values, kept, scale)
        return replace(self, values=values, masked_from=source)

    def linear(self, weight: Tensor) -> Tensor:
        """The product with ``weight`` ``[F, D]``; gradients flow to ``weight`` only."""
        require_shape("weight", weight.shape, "F D", F=self.shape[1])
        result: Tensor = _SparseLinear.apply(weight, self)  # type: ignore[no-untyped-call]
        return result

    def take_rows(self, nodes: Tensor | slice) -> SparseFeatures:
        """Some rows; those of a slice share the memory of this matrix."""
        crow = self.pattern.crow
        if isinstance(nodes, slice):
            first, last, _ = nodes.indices(self.shape[0])
            crow = crow[first : last + 1]
            entries: Tensor | slice = slice(int(crow[0]), int(crow[-1]))
            first_row, first_entry = self.first_row + first, self.first_entry + int(crow[0])
            crow = crow - crow[0]
        else:
            counts = crow.diff()[nodes]
            starts = crow[:-1][nodes]
            crow = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(crow.dtype)
            shift = (starts - crow[:-1]).repeat_interleave(counts)
            entries = torch.arange(int(crow[-1]), device=crow.device) + shift
            first_row = first_entry = 0
        pattern = CsrPattern(crow, self.pattern.col[entries], self.shape[1])
        return SparseFeatures(pattern, self.values[entries], first_entry, first_row=first_row)

    def starting_at(self, first_row: int, first_entry: int) -> SparseFeatures:
        """The same rows, after so many rows and stored entries of the whole."""
        return replace(self, first_row=first_row, first_entry=first_entry)

    def to(self, target: torch.device | torch.dtype) -> SparseFeatures:
        """The same matrix on another device or of another type; itself if nothing changes."""
        values, pattern = self.values.to(target), self.pattern
        if values is self.values:
            return self
        if values.device != self.device:
            crow, col = pattern.crow.to(values.device), pattern.col.to(values.device)
            pattern = CsrPattern(crow, col, pattern.num_columns)
        return replace(self, pattern=pattern, values=values, masked_from=None)


Features = DenseFeatures | SparseFeatures


def as_features(x: Tensor | Features) -> Features:
    """Dense tensors as `DenseFeatures`, CSR tensors as `SparseFeatures`; features as they are."""
    if isinstance(x, Tensor):
        return SparseFeatures.from_csr(x) if x.layout == torch.sparse_csr else DenseFeatures(x)
    return x


def _masked(values: Tensor, kept: Tensor, scale: float) -> Tensor:
    # Not `values * kept`: with mixed types it takes three times as long.
    return kept.to(values.dtype).mul_(values).mul_(scale)


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: SparseFeatures) -> Tensor:
        ctx.x = x  # no gradient flows to it, so its tensors need not be saved one by one
        return sum_of_rows(x.pattern.crow, x.pattern.col, weight, x.values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        x: SparseFeatures = ctx.x
        crow, col, _ = x.pattern.transposed
        by_block = sum_of_rows(crow, col, grads[0], x.t_values)
        blocks = x.pattern.num_blocks
        return by_block if blocks == 1 else by_block.view(blocks, x.shape[1], -1).sum(0), None
