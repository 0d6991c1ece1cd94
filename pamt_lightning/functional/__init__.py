"""The equations of the methods: tensors in, tensors out; no state, no files, no hidden seeds."""

from pamt_lightning.functional.attention import attention_sum, edge_scores, edge_softmax
from pamt_lightning.functional.consistency import (
    consistency_loss,
    drop_nodes,
    mean_of_hops,
    sharpen,
)
from pamt_lightning.functional.gaussian import gaussian_convolution, kl_to_standard_normal
from pamt_lightning.functional.losses import (
    blend_soft_labels,
    confidence_weights,
    soft_cross_entropy,
)
from pamt_lightning.functional.mask import mask_adjacency, mask_representation, renormalize_mask
from pamt_lightning.functional.neighbours import (
    attribute_neighbours,
    inverse_document_frequency,
    join_graphs,
)
from pamt_lightning.functional.normalize import normalize_adjacency, normalize_symmetric
from pamt_lightning.functional.pooling import fit_pool, fit_sharpness, log_probabilities, pool
from pamt_lightning.functional.propagation import (
    one_hot_rows,
    propagate,
    propagate_labels,
    smooth,
)
from pamt_lightning.functional.reduction import principal_directions
from pamt_lightning.functional.schedules import adaptive_gamma, rising_weight_decay
from pamt_lightning.functional.trust import edge_trust, pair_cosine

__all__ = [
    "adaptive_gamma",
    "attention_sum",
    "attribute_neighbours",
    "blend_soft_labels",
    "confidence_weights",
    "consistency_loss",
    "drop_nodes",
    "edge_scores",
    "edge_softmax",
    "edge_trust",
    "fit_pool",
    "fit_sharpness",
    "gaussian_convolution",
    "inverse_document_frequency",
    "join_graphs",
    "kl_to_standard_normal",
    "log_probabilities",
    "mask_adjacency",
    "mask_representation",
    "mean_of_hops",
    "normalize_adjacency",
    "normalize_symmetric",
    "one_hot_rows",
    "pair_cosine",
    "pool",
    "principal_directions",
    "propagate",
    "propagate_labels",
    "renormalize_mask",
    "rising_weight_decay",
    "sharpen",
    "smooth",
    "soft_cross_entropy",
]
