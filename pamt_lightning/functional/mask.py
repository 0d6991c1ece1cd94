"""The adaptive mask: how alike the two ends of each stored edge look to the classifier."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from pamt_lightning.functional.normalize import (
    require_csr_rows,
    row_indices,
    scale_symmetric,
    sum_by_row,
    with_values,
)
from pamt_lightning.kernels.columns import row_softmax
from pamt_lightning.kernels.sharding import RowShare

Representation = Literal["softmax", "cosine", "logits"]
MaskNormalization = Literal["none", "row", "sym"]


def mask_representation(
    logits: Tensor, kind: Representation = "softmax", temperature: float = 1.0
) -> Tensor:
    r"""The matrix :math:`H` whose rows the mask compares (PAMT, Eq. 5).

    The paper writes :math:`H = f_\theta(X)` and leaves open what is read off the network:
    ``softmax`` makes an entry of :math:`H H^\top` the chance that both ends have the same class,
    ``cosine`` divides those rows by their length, ``logits`` takes the output as it is.

    Args:
        logits: :math:`f_\theta(X)`, shape ``[N, C]``.
        kind: What a row of :math:`H` is.
        temperature: Logits are divided by it before the softmax; above 1 softens an overconfident
            classifier. Not used by ``logits``.

    Returns:
        :math:`H`, shape ``[N, C]``.
    """
    if not temperature > 0:
        raise ValueError(f"`temperature` must be greater than 0, got {temperature}.")
    if kind == "logits":
        return logits
    probs = row_softmax(logits / temperature).contiguous()
    if kind == "softmax":
        return probs
    if kind == "cosine":
        # A softmax row is never zero: its largest entry is at least 1 / C.
        return probs / probs.square().sum(dim=-1, keepdim=True).sqrt()
    raise ValueError(f"`kind` must be one of softmax, cosine, logits, got {kind!r}.")


def edge_similarity(adj: Tensor, h: Tensor, first: int | None = None) -> Tensor:
    r"""Entries of :math:`A_s = H H^\top` at the stored entries of ``adj`` (PAMT, Eq. 6).

    Only these are computed: :math:`O(|E| C)` time and :math:`O(|E|)` memory; the ``[N, N]`` product
    never exists.

    Args:
        adj: CSR matrix that says which entries are wanted, shape ``[N, N]``, or some of its rows.
        h: :math:`H`, shape ``[N, C]``.
        first: Number of the first row of ``adj``; none if it has all.

    Returns:
        One value per stored entry, in the order of ``adj``, shape ``[nnz]``.
    """
    first = require_csr_rows(adj, first, "adj")
    if h.dim() != 2 or h.shape[0] != adj.shape[1]:
        raise ValueError(
            f"`h` must be [N, C] with N={adj.shape[1]} (rows of `adj`), got {tuple(h.shape)}."
        )
    pattern = with_values(adj, adj.values().to(h.dtype))
    own = h[first : first + adj.shape[0]]
    similarity: Tensor = torch.sparse.sampled_addmm(pattern, own, h.t(), beta=0.0).values()
    return similarity


def mask_adjacency(
    adj_norm: Tensor, h: Tensor, *, floor: float = 0.0, first: int | None = None
) -> Tensor:
    r"""Weigh every edge by how alike its two ends are (PAMT, Eq. 7).

    .. math:: A_p = \hat{A} \odot \left( \phi + (1 - \phi)\, H H^\top \right)

    Args:
        adj_norm: :math:`\hat{A}`, CSR, shape ``[N, N]``, or some of its rows.
        h: :math:`H` of Eq. 5, shape ``[N, C]``.
        floor: :math:`\phi` in ``[0, 1]``: no edge falls below this share of its weight. 0 is the
            paper's equation, 1 switches the mask off.
        first: Number of the first row of ``adj_norm``; none if it has all.

    Returns:
        :math:`A_p`, CSR with the sparsity of ``adj_norm``.
    """
    if not 0.0 <= floor <= 1.0:
        raise ValueError(f"`floor` must lie in [0, 1], got {floor}.")
    similarity = edge_similarity(adj_norm, h, first)
    if floor:
        similarity = floor + (1.0 - floor) * similarity
    return with_values(adj_norm, adj_norm.values() * similarity)


def renormalize_mask(
    adj_mask: Tensor, kind: MaskNormalization = "none", share: RowShare | None = None
) -> Tensor:
    r"""Give the mass that the mask took from a row back to it, or leave it as Eq. 7 writes it.

    Args:
        adj_mask: :math:`A_p`, CSR with non-negative values, shape ``[N, N]``.
        kind: ``none`` (the paper's equation), ``row`` (:math:`D_p^{-1} A_p`) or ``sym``
            (:math:`D_p^{-1/2} A_p D_p^{-1/2}`).
        share: The rows of this process, which are all that ``adj_mask`` has, if several work
            together: all must make this call.

    Returns:
        CSR with the sparsity of ``adj_mask``; empty rows stay empty.
    """
    require_csr_rows(adj_mask, share.first if share else None, "adj_mask")
    if kind == "none":
        return adj_mask
    if bool((adj_mask.values() < 0).any()):
        raise ValueError(
            f"`kind`={kind!r} needs a mask without negative weights; logits as representation give "
            "some: use softmax or cosine, or kind 'none'."
        )
    if kind == "sym":
        return scale_symmetric(adj_mask, share)
    if kind == "row":
        mass = sum_by_row(adj_mask, adj_mask.values())
        # Clamped, as one by a mass below the smallest normal number would be infinite.
        tiny = torch.finfo(mass.dtype).tiny
        inverse = torch.where(mass > 0, mass.clamp(min=tiny), 1).reciprocal()
        return with_values(adj_mask, inverse[row_indices(adj_mask)] * adj_mask.values())
    raise ValueError(f"`kind` must be one of none, row, sym, got {kind!r}.")
