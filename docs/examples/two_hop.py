"""A method of one's own: a network that sees a node beside the mean of its neighbours.

Run it from the folder of this file:
    PYTHONPATH=. pamt fit --config configs/cora_ml.yaml --model two_hop.TwoHopModule
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pamt_lightning.functional import smooth
from pamt_lightning.kernels.features import Features
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.methods.supervised import SupervisedModule
from pamt_lightning.nn.mlp import InputLinear


class TwoHop(nn.Module):
    """Logits from a hidden layer and its average over one and two hops."""

    def __init__(
        self, num_features: int, hidden_dim: int, num_classes: int, dropout: float
    ) -> None:
        super().__init__()
        self.input = InputLinear(num_features, hidden_dim, dropout)
        self.output = nn.Linear(3 * hidden_dim, num_classes)

    def forward(self, x: Tensor | Features, adj_norm: SparseOperator) -> Tensor:
        """Logits ``[N, C]`` of attributes ``[N, F]`` over Â."""
        hidden = torch.relu(self.input(x))
        hops = [smooth(adj_norm, hidden, num_steps=k, alpha=0.0) for k in (1, 2)]
        logits: Tensor = self.output(torch.cat([hidden, *hops], dim=1))
        return logits


class TwoHopModule(SupervisedModule):
    """Trains `TwoHop` with cross-entropy on the labelled nodes."""

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 32,
        dropout: float = 0.5,
        **options: Any,
    ) -> None:
        super().__init__(num_features, num_classes, **options)
        self.net = TwoHop(num_features, hidden_dim, num_classes, dropout)
