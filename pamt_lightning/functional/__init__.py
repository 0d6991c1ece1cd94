"""The equations of the methods: tensors in, tensors out; no state, no files, no hidden seeds."""

from pamt_lightning.functional.attention import (
    Neighbourhood,
    attention_sum,
    edge_scores,
    edge_softmax,
)
from pamt_lightning.functional.gaussian import (
    gaussian_convolution,
    kl_to_standard_normal,
    square_entries,
)
from pamt_lightning.functional.losses import (
    adaptive_gamma,
    confidence_weights,
    soft_cross_entropy,
)
from pamt_lightning.functional.mask import (
    edge_similarity,
    mask_adjacency,
    mask_representation,
    renormalize_mask,
)
from pamt_lightning.functional.momentum import blend_soft_labels
from pamt_lightning.functional.normalize import add_self_loops, normalize_adjacency, row_indices
from pamt_lightning.functional.propagation import one_hot_rows, propagate, propagate_labels
from pamt_lightning.functional.symmetric import smooth, symmetric_product
from pamt_lightning.functional.trust import (
    falling_regression,
    local_false_discovery_rate,
    pair_cosine,
    random_pairs,
    trust_edges,
)
from pamt_lightning.kernels.columns import by_column, row_softmax, take_rows_by_column
from pamt_lightning.kernels.sharding import RowShare

__all__ = [
    "Neighbourhood",
    "RowShare",
    "adaptive_gamma",
    "add_self_loops",
    "attention_sum",
    "blend_soft_labels",
    "by_column",
    "confidence_weights",
    "edge_scores",
    "edge_similarity",
    "edge_softmax",
    "falling_regression",
    "gaussian_convolution",
    "kl_to_standard_normal",
    "local_false_discovery_rate",
    "mask_adjacency",
    "mask_representation",
    "normalize_adjacency",
    "one_hot_rows",
    "pair_cosine",
    "propagate",
    "propagate_labels",
    "random_pairs",
    "renormalize_mask",
    "row_indices",
    "row_softmax",
    "smooth",
    "soft_cross_entropy",
    "square_entries",
    "symmetric_product",
    "take_rows_by_column",
    "trust_edges",
]
