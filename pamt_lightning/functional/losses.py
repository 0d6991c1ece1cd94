"""Soft labels in training: their cross entropy, its weights in PTD and PTA, their update."""

from __future__ import annotations

from torch import Tensor

from pamt_lightning.errors import require_in, require_shape
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
    """
    log_probs = row_log_softmax(logits)
    nodes, classes = logits.shape
    require_shape("soft_labels", soft_labels.shape, "N C", N=nodes, C=classes)
    target = soft_labels
    if weights is not None:
        require_shape("weights", weights.shape, "N C", N=nodes, C=classes)
        target = soft_labels * weights
    return -(target * log_probs).sum() / classes


def blend_soft_labels(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    r"""Move the soft labels towards newly propagated ones (PAMT, Eq. 11).

    .. math:: Y_{soft} \leftarrow \beta Y_{soft} + (1 - \beta) Y^t_{soft}

    A momentum :math:`\beta` of 0 replaces the soft labels (PAMT_1).
    """
    require_in("[0, 1)", momentum=momentum)
    require_shape("new", new.shape, "N C", N=len(old), C=old.shape[1])
    if momentum == 0.0:
        return new
    return momentum * old + (1.0 - momentum) * new


def confidence_weights(logits: Tensor, gamma: float) -> Tensor:
    r"""The network's own confidence in each label: the loss weights of PTD and PTA.

    .. math:: w = \mathrm{softmax}(f_\theta(X))^{\gamma}

    A :math:`\gamma` of 0 gives ones (PTS), 1 the probabilities (PTD), and PTA lets it grow with
    `adaptive_gamma`. No gradient flows through the weights ``[N, C]``.
    """
    require_in("[0, inf)", gamma=gamma)
    return row_softmax(logits.detach()) ** gamma
