"""Label propagation with restart: the soft labels and the propagated prediction."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pamt_lightning.functional.normalize import sum_of_rows
from pamt_lightning.kernels.sharding import RowShare


def propagate(
    adj: Tensor,
    y0: Tensor,
    *,
    num_steps: int,
    alpha: float,
    reset_index: Tensor | None = None,
    share: RowShare | None = None,
) -> Tensor:
    r"""Smooth ``y0`` over the graph while pulling it back to its start (PAMT, Eq. 4, 8 and 9).

    .. math:: Y^{(k)} = (1 - \alpha)\, A Y^{(k-1)} + \alpha Y^{(0)}, \qquad k = 1, \dots, K

    which is :math:`\bar{A} Y^{(0)}` with :math:`\bar{A}` of Eq. 9, unrolled.

    Args:
        adj: :math:`\hat{A}` or :math:`A_p`, dense or CSR, shape ``[N, N]``.
        y0: Start matrix :math:`Y^{(0)}`, shape ``[N, C]``; not modified.
        num_steps: Number of steps :math:`K`; 0 returns ``y0``.
        alpha: Teleport weight :math:`\alpha` in ``[0, 1]``; 1 ignores the graph.
        reset_index: Nodes whose rows go back to those of ``y0`` after every step (the labelled
            nodes, as in the PT method).
        share: The rows of this process, if several work together: ``adj`` has these alone,
            and all of them must make this call.

    Returns:
        :math:`Y^{(K)}`, shape ``[N, C]``.
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"`alpha` is a teleport weight and must lie in [0, 1], got {alpha}.")
    if num_steps < 0:
        raise ValueError(f"`num_steps` must be 0 or more, got {num_steps}.")
    if y0.dim() != 2:
        raise ValueError(f"`y0` must be [N, C], got {tuple(y0.shape)}.")
    share = share or RowShare.of(len(y0))
    if adj.shape != (len(y0[share.rows]), len(y0)):
        raise ValueError(
            f"`adj` must be [N, N] with N={len(y0)} (rows of `y0`), got {tuple(adj.shape)}."
        )
    y0 = y0.contiguous()  # rows are what is summed
    restart = alpha * y0[share.rows]
    smooth = _scaled_product(adj, 1.0 - alpha)
    fixed_rows = None if reset_index is None else y0[reset_index]
    y = y0
    for _ in range(num_steps):
        y = share.gather(smooth(y).add_(restart))
        if reset_index is not None and fixed_rows is not None:
            y[reset_index] = fixed_rows
    return y


def _scaled_product(adj: Tensor, factor: float) -> Callable[[Tensor], Tensor]:
    """The product of ``factor * adj`` and a matrix, for many matrices."""
    if adj.layout != torch.sparse_csr or adj.device.type != "cpu":
        return lambda y: (adj @ y).mul_(factor)
    crow, col, values = adj.crow_indices(), adj.col_indices(), factor * adj.values()
    return lambda y: sum_of_rows(crow, col, y, values)


def propagate_labels(
    adj: Tensor,
    labels: Tensor,
    index: Tensor,
    num_classes: int,
    *,
    num_steps: int,
    alpha: float,
    reset: bool,
    share: RowShare | None = None,
) -> Tensor:
    r"""Let known labels travel over the graph: :math:`\bar{A} Y_L` (PAMT, Eq. 8).

    Args:
        adj: :math:`\hat{A}` or :math:`A_p`, dense or CSR, shape ``[N, N]``.
        labels: Class of every node, shape ``[N]``; only those at ``index`` are read.
        index: The nodes whose labels are known.
        num_classes: Number of classes C.
        num_steps: Number of steps :math:`K`.
        alpha: Teleport weight :math:`\alpha` in ``[0, 1]``.
        reset: Whether known rows go back to their one-hot form after every step (the PT method).
        share: As in `propagate`.

    Returns:
        Shape ``[N, C]``; zero rows where no label arrives.
    """
    y0 = one_hot_rows(labels, index, num_classes, adj.dtype)
    reset_index = index if reset else None
    return propagate(
        adj, y0, num_steps=num_steps, alpha=alpha, reset_index=reset_index, share=share
    )


def one_hot_rows(labels: Tensor, index: Tensor, num_classes: int, dtype: torch.dtype) -> Tensor:
    r"""The start matrix :math:`Y_L`: one-hot rows at ``index``, zero rows elsewhere.

    Args:
        labels: Class of every node, shape ``[N]``; only those at ``index`` are read.
        index: The labelled nodes.
        num_classes: Number of classes C.
        dtype: Type of the result.

    Returns:
        :math:`Y_L`, shape ``[N, C]``.
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
