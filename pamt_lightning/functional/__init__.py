"""The equations of the methods: tensors in, tensors out; no state, no files, no hidden seeds."""

from pamt_lightning.functional.attention import attention_sum, edge_scores, edge_softmax
from pamt_lightning.functional.gaussian import gaussian_convolution, kl_to_standard_normal
from pamt_lightning.functional.losses import (
    adaptive_gamma,
    blend_soft_labels,
    confidence_weights,
    soft_cross_entropy,
)
from pamt_lightning.functional.mask import mask_adjacency, mask_representation, renormalize_mask
from pamt_lightning.functional.neighbours import attribute_neighbours, inverse_document_frequency
from pamt_lightning.functional.normalize import normalize_adjacency
from pamt_lightning.functional.propagation import (
    one_hot_rows,
    propagate,
    propagate_labels,
    smooth,
)
from pamt_lightning.functional.trust import pair_cosine, trust_edges

__all__ = [
    "adaptive_gamma",
    "attention_sum",
    "attribute_neighbours",
    "blend_soft_labels",
    "confidence_weights",
    "edge_scores",
    "edge_softmax",
    "gaussian_convolution",
    "inverse_document_frequency",
    "kl_to_standard_normal",
    "mask_adjacency",
    "mask_representation",
    "normalize_adjacency",
    "one_hot_rows",
    "pair_cosine",
    "propagate",
    "propagate_labels",
    "renormalize_mask",
    "smooth",
    "soft_cross_entropy",
    "trust_edges",
]
