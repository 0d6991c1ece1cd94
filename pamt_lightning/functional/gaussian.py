"""Convolution of Gaussian node states, and their distance to the standard normal (Robust GCN)."""

from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.errors import require_in, require_shape
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.symmetric import symmetric_product

VARIANCE_FLOOR = 1e-8
"""Lower bound of a variance in logarithms and roots, because ReLU gives exact zeros."""


def gaussian_convolution(
    mean: Tensor, variance: Tensor, adj_norm: SparseOperator, gamma: float
) -> tuple[Tensor, Tensor]:
    r"""Sum independent Gaussians over neighbours, uncertain ones with less weight (Robust GCN).

    .. math:: a = \exp(-\gamma \Sigma), \qquad M' = \hat{A} (M \odot a), \qquad
        \Sigma' = (\hat{A} \circ \hat{A}) (\Sigma \odot a \odot a)

    A weight on a Gaussian multiplies its variance by the square of that weight; hence the squares.

    Args:
        mean: Means :math:`M`, shape ``[N, D]``.
        variance: Variances :math:`\Sigma`, 0 or more (not checked), shape ``[N, D]``.
        adj_norm: :math:`\hat{A}`, symmetric (not checked), shape ``[N, N]``.
        gamma: Strength :math:`\gamma` of the attention, 0 or more; 0 weighs all alike.
    """
    require_shape("mean", mean.shape, "N D", N=adj_norm.num_nodes)
    require_shape("variance", variance.shape, "N D", N=adj_norm.num_nodes, D=mean.shape[1])
    require_in("[0, inf)", gamma=gamma)
    attention = torch.exp(-gamma * variance)
    return (
        symmetric_product(adj_norm, mean * attention),
        symmetric_product(adj_norm.squared, variance * attention.square()),
    )


def kl_to_standard_normal(mean: Tensor, variance: Tensor) -> Tensor:
    r"""Divergence of each node's Gaussian from the standard normal, per dimension (Robust GCN).

    .. math:: \frac{1}{D} \mathrm{KL}\big(N(\mu, \mathrm{diag}\,\sigma) \,\|\, N(0, I)\big)
        = \frac{1}{2D} \sum_{d=1}^{D} \big( \mu_d^2 + \sigma_d - \ln \sigma_d - 1 \big)

    with variances :math:`\sigma`. The mean over dimensions is that of the authors' code, where
    the sum over nodes has the weight 5e-4; they leave out the constant -1. A variance below
    ``VARIANCE_FLOOR`` (1e-8) counts as 1e-8, so the result ``[N]`` is finite and never negative.
    """
    require_shape("mean", mean.shape, "N D")
    require_shape("variance", variance.shape, "N D", N=len(mean), D=mean.shape[1])
    variance = variance.clamp(min=VARIANCE_FLOOR)
    return 0.5 * (mean.square() + variance - variance.log() - 1.0).mean(dim=1)
