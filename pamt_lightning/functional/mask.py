"""The adaptive mask: how similar the two ends of each stored edge are to the classifier."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from pamt_lightning.errors import require_in, require_one_of, require_shape
from pamt_lightning.functional.normalize import normalize_symmetric, safe_degree
from pamt_lightning.kernels.columns import row_softmax, unit_rows
from pamt_lightning.kernels.operator import SparseOperator

Representation = Literal["softmax", "cosine", "logits"]
MaskNormalization = Literal["none", "row", "sym"]


def mask_representation(
    logits: Tensor, kind: Representation = "softmax", temperature: float = 1.0
) -> Tensor:
    r"""The matrix :math:`H` whose rows the mask compares (PAMT, Eq. 5).

    The paper writes :math:`H = f_\theta(X)` and leaves open which output of the network is meant:
    ``softmax`` makes an entry of :math:`H H^\top` the probability that both ends have the same
    class, ``cosine`` divides those rows by their length, ``logits`` takes the raw output.

    Before the softmax, logits ``[N, C]`` are divided by ``temperature``; above 1 softens an
    overconfident classifier.
    """
    require_in("(0, inf)", temperature=temperature)
    require_one_of(get_args(Representation), kind=kind)
    if kind == "logits":
        return logits
    probs = row_softmax(logits / temperature)
    return probs if kind == "softmax" else unit_rows(probs)


def mask_adjacency(adj_norm: SparseOperator, h: Tensor, *, floor: float = 0.0) -> SparseOperator:
    r"""Weigh every edge by the similarity of its two ends (PAMT, Eq. 6 and 7).

    .. math:: A_p = \hat{A} \odot \left( \phi + (1 - \phi)\, H H^\top \right)

    Args:
        adj_norm: :math:`\hat{A}`, shape ``[N, N]``.
        h: :math:`H` of Eq. 5, shape ``[N, C]``.
        floor: :math:`\phi` in ``[0, 1]``: no edge falls below this share of its weight. 0 is the
            paper's equation, 1 switches the mask off.
    """
    require_in("[0, 1]", floor=floor)
    require_shape("h", h.shape, "N C", N=adj_norm.num_nodes)
    similarity = adj_norm.sample(h)
    if floor:
        similarity = floor + (1.0 - floor) * similarity
    return adj_norm.with_values(adj_norm.values * similarity)


def renormalize_mask(adj_mask: SparseOperator, kind: MaskNormalization = "none") -> SparseOperator:
    r"""Give each row back the mass that the mask took from it, or leave it as Eq. 7 writes it.

    Args:
        adj_mask: :math:`A_p` with non-negative values, shape ``[N, N]``.
        kind: ``none`` (the paper's equation), ``row`` (:math:`D_p^{-1} A_p`) or ``sym``
            (:math:`D_p^{-1/2} A_p D_p^{-1/2}`); empty rows stay empty.
    """
    require_one_of(get_args(MaskNormalization), kind=kind)
    if kind == "none":
        return adj_mask
    if bool((adj_mask.values < 0).any()):
        raise ValueError(
            f"`kind`={kind!r} needs a mask without negative weights; logits as representation give "
            "some: use softmax or cosine, or kind 'none'."
        )
    if kind == "sym":
        return normalize_symmetric(adj_mask)
    return adj_mask.scale(safe_degree(adj_mask.row_sums()).reciprocal())
