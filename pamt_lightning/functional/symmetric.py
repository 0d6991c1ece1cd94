"""Products with a symmetric sparse matrix whose backward pass is the same product again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pamt_lightning.functional.normalize import require_square_csr
from pamt_lightning.functional.propagation import propagate


def symmetric_product(adj: Tensor, h: Tensor) -> Tensor:
    r"""The product :math:`A H`, where :math:`A` is symmetric and constant.

    The gradient of :math:`A H` is :math:`A^\top G = A G`. Autograd's own backward pass transposes
    the matrix anew each time and takes two to nine times as long.

    Args:
        adj: :math:`A`, CSR and symmetric (not checked), shape ``[N, N]``; no gradient flows to it.
        h: :math:`H`, shape ``[N, D]``.

    Returns:
        Shape ``[N, D]``.
    """
    return smooth(adj, h, num_steps=1, alpha=0.0)


def smooth(adj: Tensor, h: Tensor, *, num_steps: int, alpha: float) -> Tensor:
    r"""`propagate` over a symmetric matrix, to train through (APPNP, Eq. 4 to 6; SGC, Eq. 8).

    .. math:: H^{(k)} = (1 - \alpha)\, A H^{(k-1)} + \alpha H^{(0)}, \qquad k = 1, \dots, K

    The result is :math:`P(A) H^{(0)}` with a polynomial :math:`P`, hence a symmetric
    :math:`P(A)`: the backward pass is the same propagation of the gradient, and no
    intermediate step is kept.

    Args:
        adj: :math:`A`, CSR and symmetric (not checked), shape ``[N, N]``; no gradient flows to it.
        h: :math:`H^{(0)}`, shape ``[N, D]``.
        num_steps: Number of steps :math:`K`; 0 returns ``h``.
        alpha: Teleport weight :math:`\alpha` in ``[0, 1]``; 0 gives :math:`A^K H^{(0)}`.

    Returns:
        :math:`H^{(K)}`, shape ``[N, D]``.
    """
    require_square_csr(adj, "adj")
    if num_steps == 0:
        return h
    result: Tensor = _Smooth.apply(h, adj, num_steps, alpha)  # type: ignore[no-untyped-call]
    return result


class _Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, adj: Tensor, num_steps: int, alpha: float) -> Tensor:
        ctx.adj, ctx.num_steps, ctx.alpha = adj, num_steps, alpha
        return propagate(adj, h, num_steps=num_steps, alpha=alpha)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        grad = propagate(ctx.adj, grads[0].contiguous(), num_steps=ctx.num_steps, alpha=ctx.alpha)
        return grad, None, None, None
