"""Sums over the stored entries of a sparse matrix, with backward passes that copy no row per edge.

The plain forms are gathers (``x[row]``) and ``index_add`` over the stored entries.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pamt_lightning.kernels.csr import (
    csr_tensor,
    products_at_entries,
    sum_of_rows,
    transpose_pattern,
)


class Neighbourhood:
    """The stored positions of a CSR matrix ``[N, N]`` and of its transpose."""

    def __init__(self, crow: Tensor, row: Tensor, col: Tensor) -> None:
        self.crow, self.row, self.col = crow, row, col
        self.entries = torch.arange(len(col), device=col.device, dtype=crow.dtype)
        self.t_crow, self.t_col, self.t_order = transpose_pattern(crow, col, len(crow) - 1)

    @cached_property
    def num_loops(self) -> int:
        """Number of nodes with a self-loop."""
        return int((self.row == self.col).sum())

    def sum_by_row(self, values: Tensor) -> Tensor:
        """Sum of ``values`` ``[nnz, H]`` over the entries of each row, shape ``[N, H]``."""
        return sum_of_rows(self.crow, self.entries, values)

    def pair_sum(self, at_row: Tensor, at_col: Tensor) -> Tensor:
        """``at_row[row] + at_col[col]``, shape ``[nnz, H]``."""
        result: Tensor = _PairSum.apply(at_row, at_col, self)  # type: ignore[no-untyped-call]
        return result

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax of ``scores`` ``[nnz, H]`` over the entries of each row."""
        result: Tensor = _RowSoftmax.apply(scores, self)  # type: ignore[no-untyped-call]
        return result

    def weighted_sum(self, weights: Tensor, h: Tensor) -> Tensor:
        """Sum of ``weights[e] * h[col[e]]`` over the entries e of each row, for each head."""
        result: Tensor = _WeightedSum.apply(weights, h, self)  # type: ignore[no-untyped-call]
        return result


def _by_head(h: Tensor) -> Tensor:
    return h.transpose(0, 1).contiguous()  # contiguous once, not once per head


def _sum_heads(crow: Tensor, col: Tensor, weights: Tensor, h: Tensor) -> Tensor:
    # One head at a time, as `sum_of_rows` takes one weight per entry.
    heads = zip(weights.mT.contiguous(), _by_head(h), strict=True)
    return torch.stack([sum_of_rows(crow, col, h_k, w_k) for w_k, h_k in heads], dim=1)


# The functions keep the pattern as an attribute: tensors of a test before the training, made in
# inference mode, cannot be saved for the backward pass.
class _PairSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, at_row: Tensor, at_col: Tensor, hood: Neighbourhood) -> Tensor:
        ctx.hood = hood
        return at_row.index_select(0, hood.row).add_(at_col.index_select(0, hood.col))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        hood: Neighbourhood = ctx.hood
        by_col = sum_of_rows(hood.t_crow, hood.t_order, grads[0])
        return hood.sum_by_row(grads[0]), by_col, None


class _RowSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, hood: Neighbourhood) -> Tensor:
        top = torch.segment_reduce(scores, "max", offsets=hood.crow, axis=0)
        weights = (scores - top.index_select(0, hood.row)).exp_()
        weights.div_(hood.sum_by_row(weights).index_select(0, hood.row))
        ctx.hood = hood
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        (weights,) = ctx.saved_tensors
        weighted = weights * grads[0]
        mean = ctx.hood.sum_by_row(weighted).index_select(0, ctx.hood.row)
        return weighted - mean.mul_(weights), None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, h: Tensor, hood: Neighbourhood) -> Tensor:
        ctx.hood = hood
        ctx.save_for_backward(weights, h)
        return _sum_heads(hood.crow, hood.col, weights, h)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        weights, h = ctx.saved_tensors
        hood: Neighbourhood = ctx.hood
        grad_weights = grad_h = None
        if ctx.needs_input_grad[0]:
            csr = csr_tensor(hood.crow, hood.col, h.new_zeros(len(hood.col)), len(h))
            heads = zip(_by_head(grad), _by_head(h), strict=True)
            products = [products_at_entries(csr, g_k, h_k) for g_k, h_k in heads]
            grad_weights = torch.stack(products, dim=1)
        if ctx.needs_input_grad[1]:
            transposed = weights.index_select(0, hood.t_order)
            grad_h = _sum_heads(hood.t_crow, hood.t_col, transposed, grad)
        return grad_weights, grad_h, None
