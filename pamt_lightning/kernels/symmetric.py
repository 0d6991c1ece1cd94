"""Symmetric linear maps, whose backward pass is the map itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pamt_lightning.kernels.operator import SparseOperator


def apply_symmetric(linear: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
    r"""``linear(h)``, where ``linear`` is a constant, symmetric linear map of matrices ``[N, D]``.

    The gradient of :math:`P H` is :math:`P^\top G = P G`, and no intermediate result is stored.
    Autograd's own backward pass transposes the matrix and takes two to nine times as long.
    """
    result: Tensor = _Symmetric.apply(h, linear)  # type: ignore[no-untyped-call]
    return result


def symmetric_product(adj: SparseOperator, h: Tensor) -> Tensor:
    """``adj @ h`` for a symmetric ``adj`` (not checked), with gradients to ``h`` only."""
    return apply_symmetric(adj.__matmul__, h)


class _Symmetric(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, linear: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.linear = linear
        return linear(h)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return ctx.linear(grads[0].contiguous()), None
