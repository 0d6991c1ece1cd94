"""Label propagation with restart: the soft labels and the propagated prediction."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from pamt_lightning.errors import require_in, require_shape
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.symmetric import apply_symmetric


def propagate(
    adj: SparseOperator | Tensor,
    y0: Tensor,
    *,
    num_steps: int,
    alpha: float,
    reset_index: Tensor | None = None,
) -> Tensor:
    r"""Smooth ``y0`` over the graph while pulling it back to its start (PAMT, Eq. 4, 8 and 9).

    .. math:: Y^{(k)} = (1 - \alpha)\, A Y^{(k-1)} + \alpha Y^{(0)}, \qquad k = 1, \dots, K

    which is :math:`\bar{A} Y^{(0)}` with :math:`\bar{A}` of Eq. 9, unrolled.

    Args:
        adj: :math:`\hat{A}` or :math:`A_p`, shape ``[N, N]``.
        y0: Start matrix :math:`Y^{(0)}`, shape ``[N, C]``; not modified.
        num_steps: Number of steps :math:`K`; 0 returns ``y0``.
        alpha: Teleport weight :math:`\alpha` in ``[0, 1]``; 1 ignores the graph.
        reset_index: Nodes whose rows are reset to those of ``y0`` after every step (the labelled
            nodes, as in the PT method).
    """
    require_in("[0, 1]", alpha=alpha)
    require_in("[0, inf)", num_steps=num_steps)
    require_shape("y0", y0.shape, "N C")
    require_shape("adj", adj.shape, "N N", N=len(y0))
    step = (1.0 - alpha) * adj
    restart = alpha * y0
    y = y0
    for _ in range(num_steps):
        y = step @ y
        y += restart
        if reset_index is not None:
            y[reset_index] = y0[reset_index]
    return y


def smooth(adj: SparseOperator, h: Tensor, *, num_steps: int, alpha: float) -> Tensor:
    r"""`propagate` over a symmetric matrix, to train through (APPNP, Eq. 4 to 6; SGC, Eq. 8).

    The result is :math:`P(A) H^{(0)}` with a polynomial :math:`P`, :math:`A^K` for ``alpha`` 0, so
    :math:`P(A)` is symmetric and its backward pass is the propagation itself. That ``adj`` is
    symmetric is not checked, and no gradient flows to it.
    """
    if num_steps == 0:
        return h
    return apply_symmetric(partial(propagate, adj, num_steps=num_steps, alpha=alpha), h)


def propagate_labels(
    adj: SparseOperator | Tensor,
    labels: Tensor,
    index: Tensor,
    num_classes: int,
    *,
    num_steps: int,
    alpha: float,
    reset: bool,
) -> Tensor:
    r"""Propagate the labels of the nodes ``index``: :math:`\bar{A} Y_L` (PAMT, Eq. 8).

    ``reset`` resets their rows to the one-hot form after every step. Rows are zero where no label
    arrives.
    """
    y0 = one_hot_rows(labels, index, num_classes, adj.dtype)
    reset_index = index if reset else None
    return propagate(adj, y0, num_steps=num_steps, alpha=alpha, reset_index=reset_index)


def one_hot_rows(labels: Tensor, index: Tensor, num_classes: int, dtype: torch.dtype) -> Tensor:
    r"""The start matrix :math:`Y_L` ``[N, C]``: one-hot rows at ``index``, zero rows elsewhere.

    Of ``labels`` ``[N]`` only those at ``index`` are read.
    """
    chosen = labels[index]
    if bool(((chosen < 0) | (chosen >= num_classes)).any()):
        raise ValueError(
            f"`labels` at `index` must lie in [0, {num_classes}), "
            f"got {int(chosen.min())} to {int(chosen.max())}."
        )
    y0 = torch.zeros(len(labels), num_classes, dtype=dtype, device=labels.device)
    y0[index, chosen] = 1
    return y0
