"""Convolution of Gaussian node states, and their distance to the standard normal (Robust GCN)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pamt_lightning.functional.normalize import require_square_csr, with_values
from pamt_lightning.functional.symmetric import symmetric_product

VARIANCE_FLOOR = 1e-8
"""Smallest variance that a logarithm or a root is taken of: ReLU gives exact zeros."""


def square_entries(adj: Tensor) -> Tensor:
    r"""Square every stored entry: :math:`A \circ A`, not the matrix product :math:`A A`.

    For :math:`\hat{A} = \tilde{D}^{-1/2} \tilde{A} \tilde{D}^{-1/2}` of an unweighted graph this
    is :math:`\tilde{D}^{-1} \tilde{A} \tilde{D}^{-1}`.

    Args:
        adj: :math:`A`, CSR, shape ``[N, N]``.

    Returns:
        CSR, shape ``[N, N]``, with the index arrays of ``adj``.
    """
    require_square_csr(adj, "adj")
    return with_values(adj, adj.values().square())


def gaussian_convolution(
    mean: Tensor, variance: Tensor, adj_norm: Tensor, adj_norm_squared: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    r"""Sum independent Gaussians over neighbours, uncertain ones with less weight (Robust GCN).

    .. math:: a = \exp(-\gamma \Sigma), \qquad M' = \hat{A} (M \odot a), \qquad
        \Sigma' = (\hat{A} \circ \hat{A}) (\Sigma \odot a \odot a)

    A weight on a Gaussian multiplies its variance by the square of that weight; hence the squares.

    Args:
        mean: Means :math:`M`, shape ``[N, D]``.
        variance: Variances :math:`\Sigma`, 0 or more (not checked), shape ``[N, D]``.
        adj_norm: :math:`\hat{A}`, CSR and symmetric (not checked), shape ``[N, N]``.
        adj_norm_squared: :math:`\hat{A} \circ \hat{A}` of `square_entries`, which a caller keeps.
        gamma: Strength :math:`\gamma` of the attention, 0 or more; 0 weighs all alike.

    Returns:
        :math:`M'` and :math:`\Sigma'`, each ``[N, D]``.
    """
    if mean.dim() != 2:
        raise ValueError(f"`mean` must be [N, D], got {tuple(mean.shape)}.")
    if variance.shape != mean.shape:
        raise ValueError(
            f"`variance` must have the shape of `mean`, {tuple(mean.shape)}, "
            f"got {tuple(variance.shape)}."
        )
    for name, adj in (("adj_norm", adj_norm), ("adj_norm_squared", adj_norm_squared)):
        require_square_csr(adj, name)
        if len(adj) != len(mean):
            raise ValueError(
                f"`{name}` must be [N, N] with N={len(mean)} (rows of `mean`), "
                f"got {tuple(adj.shape)}."
            )
    require_gamma(gamma)
    attention = torch.exp(-gamma * variance)
    return (
        symmetric_product(adj_norm, mean * attention),
        symmetric_product(adj_norm_squared, variance * attention.square()),
    )


def require_gamma(gamma: float) -> None:
    """Raise a ``ValueError`` unless ``gamma`` is finite and 0 or more."""
    if not 0.0 <= gamma < math.inf:
        raise ValueError(f"`gamma` must be finite and 0 or more, got {gamma}.")


def kl_to_standard_normal(mean: Tensor, variance: Tensor) -> Tensor:
    r"""How far each node's Gaussian is from the standard normal, per dimension (Robust GCN).

    .. math:: \frac{1}{D} \mathrm{KL}\big(N(\mu, \mathrm{diag}\,\sigma) \,\|\, N(0, I)\big)
        = \frac{1}{2D} \sum_{d=1}^{D} \big( \mu_d^2 + \sigma_d - \ln \sigma_d - 1 \big)

    with variances :math:`\sigma`. The mean over dimensions is that of the authors' code, where
    the sum over nodes has the weight 5e-4; they leave out the constant -1. A variance below
    ``VARIANCE_FLOOR`` (1e-8) counts as 1e-8, so the result is finite and never negative.

    Args:
        mean: Means :math:`\mu`, shape ``[N, D]``.
        variance: Variances :math:`\sigma`, 0 or more (not checked), shape ``[N, D]``.

    Returns:
        Shape ``[N]``.
    """
    if mean.dim() != 2 or variance.shape != mean.shape:
        raise ValueError(
            "`mean` and `variance` must both be [N, D], "
            f"got {tuple(mean.shape)} and {tuple(variance.shape)}."
        )
    variance = variance.clamp(min=VARIANCE_FLOOR)
    return 0.5 * (mean.square() + variance - variance.log() - 1.0).mean(dim=1)
