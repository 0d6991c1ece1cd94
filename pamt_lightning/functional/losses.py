"""The soft-label cross entropy and the weights that PT and PTA put on it."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def soft_cross_entropy(
    logits: Tensor, soft_labels: Tensor, weights: Tensor | None = None
) -> Tensor:
    r"""Cross entropy against soft labels (PAMT, Eq. 10), summed over nodes and divided by C.

    .. math:: \ell = -\frac{1}{C} \sum_i \sum_k Y_{ik}\, w_{ik} \log \mathrm{softmax}(f_i)_k

    The sum is not a mean over nodes: a row's mass is that node's weight, as in the PT method.

    Args:
        logits: :math:`f_\theta(X)`, shape ``[N, C]``.
        soft_labels: :math:`Y_{soft}`, shape ``[N, C]``; rows need not sum to one.
        weights: Optional :math:`w`, shape ``[N, C]``; see `confidence_weights`.

    Returns:
        A scalar.
    """
    if logits.dim() != 2:
        raise ValueError(f"`logits` must be [N, C], got {tuple(logits.shape)}.")
    if logits.shape != soft_labels.shape:
        raise ValueError(
            "`logits` and `soft_labels` must have one shape, "
            f"got {tuple(logits.shape)} and {tuple(soft_labels.shape)}."
        )
    if weights is not None and weights.shape != logits.shape:
        raise ValueError(
            "`logits` and `weights` must have one shape, "
            f"got {tuple(logits.shape)} and {tuple(weights.shape)}."
        )
    target = soft_labels if weights is None else soft_labels * weights
    return -(target * torch.log_softmax(logits, dim=-1)).sum() / logits.shape[1]


def confidence_weights(logits: Tensor, epoch: int, epsilon: float = 100.0) -> Tensor:
    r"""PTA's adaptive weights: trust the network more, the longer it has been trained.

    .. math:: w = \mathrm{softmax}(f_\theta(X))^{\gamma}, \qquad \gamma = \ln(1 + t / \epsilon)

    Args:
        logits: :math:`f_\theta(X)`, shape ``[N, C]``.
        epoch: Number of finished epochs :math:`t`; at 0 all weights are 1.
        epsilon: How slowly :math:`\gamma` grows.

    Returns:
        :math:`w`, shape ``[N, C]``, detached from the graph of gradients.
    """
    if epoch < 0:
        raise ValueError(f"`epoch` must be 0 or more, got {epoch}.")
    if not epsilon > 0:
        raise ValueError(f"`epsilon` must be greater than 0, got {epsilon}.")
    gamma = math.log1p(epoch / epsilon)
    return torch.softmax(logits.detach(), dim=-1) ** gamma
