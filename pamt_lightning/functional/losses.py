"""Soft labels in training: their cross entropy, its weights in PTD and PTA, their update."""

from __future__ import annotations

import math

from torch import Tensor

from pamt_lightning.kernels.columns import row_log_softmax, row_softmax


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
    return -(target * row_log_softmax(logits)).sum() / logits.shape[1]


def blend_soft_labels(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    r"""Move the soft labels towards newly propagated ones (PAMT, Eq. 11).

    .. math:: Y_{soft} \leftarrow \beta Y_{soft} + (1 - \beta) Y^t_{soft}

    Args:
        old: :math:`Y_{soft}`, shape ``[N, C]``.
        new: :math:`Y^t_{soft}`, shape ``[N, C]``.
        momentum: :math:`\beta` in ``[0, 1)``; 0 replaces the soft labels (PAMT_1).

    Returns:
        The updated soft labels, shape ``[N, C]``.
    """
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"`momentum` must lie in [0, 1), got {momentum}.")
    if old.shape != new.shape:
        raise ValueError(
            f"`old` and `new` must have one shape, got {tuple(old.shape)} and {tuple(new.shape)}."
        )
    if momentum == 0.0:
        return new
    return momentum * old + (1.0 - momentum) * new


def confidence_weights(logits: Tensor, gamma: float) -> Tensor:
    r"""The network's own confidence in each label: the loss weights of PTD and PTA.

    .. math:: w = \mathrm{softmax}(f_\theta(X))^{\gamma}

    Args:
        logits: :math:`f_\theta(X)`, shape ``[N, C]``.
        gamma: :math:`\gamma \ge 0`; 0 gives ones (PTS), 1 the probabilities (PTD), and PTA lets
            it grow with `adaptive_gamma`.

    Returns:
        :math:`w`, shape ``[N, C]``, detached from the graph of gradients.
    """
    if not gamma >= 0:
        raise ValueError(f"`gamma` must be 0 or more, got {gamma}.")
    return row_softmax(logits.detach()) ** gamma


def adaptive_gamma(epoch: int, epsilon: float = 100.0) -> float:
    r"""PTA's exponent: the longer the network was trained, the more its confidence counts.

    .. math:: \gamma = \ln(1 + t / \epsilon)

    Args:
        epoch: Number of finished epochs :math:`t`; at 0 the exponent is 0.
        epsilon: How slowly :math:`\gamma` grows.
    """
    if epoch < 0:
        raise ValueError(f"`epoch` must be 0 or more, got {epoch}.")
    if not epsilon > 0:
        raise ValueError(f"`epsilon` must be greater than 0, got {epsilon}.")
    return math.log1p(epoch / epsilon)
