"""Networks only: no loss, no optimiser, no data."""

from pamt_lightning.nn.appnp import APPNP
from pamt_lightning.nn.gat import GAT
from pamt_lightning.nn.gcn import GCN
from pamt_lightning.nn.mlp import MLP, InputLinear
from pamt_lightning.nn.robust_gcn import RobustGCN
from pamt_lightning.nn.sgc import SGC

__all__ = [
    "APPNP",
    "GAT",
    "GCN",
    "MLP",
    "SGC",
    "InputLinear",
    "RobustGCN",
]
