"""Networks only: no loss, no optimiser, no data."""

from pamt_lightning.nn.mlp import MLP, InputLinear
from pamt_lightning.nn.sparse import SparseFeatures, sparse_linear

__all__ = ["MLP", "InputLinear", "SparseFeatures", "sparse_linear"]
