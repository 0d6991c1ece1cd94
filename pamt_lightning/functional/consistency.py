"""Random propagation and consistency (GRAND): networks that agree with themselves everywhere."""

from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.errors import require_in, require_shape
from pamt_lightning.kernels.operator import SparseOperator


def drop_nodes(x: Tensor, kept: Tensor, rate: float) -> Tensor:
    r"""Set the rows of dropped nodes to zero and scale the others up (GRAND, Eq. 1 and 2).

    .. math:: \tilde{X}_i = \frac{\epsilon_i}{1 - \delta} X_i

    Args:
        x: :math:`X`, shape ``[N, F]``.
        kept: :math:`\epsilon`, false for the dropped nodes, shape ``[N]``.
        rate: :math:`\delta` in ``[0, 1)``, the share of nodes that is dropped on average.
    """
    require_in("[0, 1)", rate=rate)
    require_shape("kept", kept.shape, "N", N=len(x))
    return x * (kept.to(x.dtype) / (1.0 - rate))[:, None]


def mean_of_hops(adj: SparseOperator, x: Tensor, num_hops: int) -> Tensor:
    r"""The mean of the attributes and of their averages over 1 to K hops (GRAND, Eq. 3).

    .. math:: \bar{X} = \frac{1}{K + 1} \sum_{k=0}^{K} A^k X

    Args:
        adj: :math:`A`, shape ``[N, N]``.
        x: :math:`X`, shape ``[N, F]``.
        num_hops: :math:`K`; 0 returns the attributes.
    """
    require_in("[0, inf)", whole=True, num_hops=num_hops)
    require_shape("x", x.shape, "N F", N=adj.num_nodes)
    total, hop = x.clone(), x
    for _ in range(num_hops):
        hop = adj @ hop
        total += hop
    return total / (num_hops + 1)


def sharpen(probs: Tensor, temperature: float) -> Tensor:
    r"""Make class probabilities ``[N, C]`` more certain (GRAND, Eq. 5).

    .. math:: q_{ik} = p_{ik}^{1/T} \Big/ \sum_l p_{il}^{1/T}

    A temperature :math:`T` of 1 changes nothing, smaller ones favour the likeliest class.
    """
    require_in("(0, inf)", temperature=temperature)
    return torch.softmax(probs.clamp(min=torch.finfo(probs.dtype).tiny).log() / temperature, dim=1)


def consistency_loss(probs: Tensor, temperature: float) -> Tensor:
    r"""How far several predictions of the same nodes are from agreeing (GRAND, Eq. 6).

    .. math:: \ell = \frac{1}{S N} \sum_s \sum_i \| p_{si} - q_i \|^2

    :math:`q` is the `sharpen`-ed mean of the predictions, through which no gradient flows: they
    are drawn towards each other and towards certainty.

    Args:
        probs: :math:`p`, class probabilities of S predictions, shape ``[S, N, C]``.
        temperature: :math:`T` of the sharpening.
    """
    require_shape("probs", probs.shape, "S N C")
    target = sharpen(probs.detach().mean(0), temperature)
    return (probs - target).square().sum(2).mean()
