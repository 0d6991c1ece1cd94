"""The classifier f_θ: a multi-layer perceptron whose first layer takes sparse attributes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pamt_lightning.errors import require_in
from pamt_lightning.kernels.columns import linear_by_column
from pamt_lightning.kernels.features import Features, as_features


class InputLinear(nn.Module):
    """Dropout and a linear map on dense or sparse attributes."""

    def __init__(
        self, num_features: int, out_dim: int, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        require_in("[1, inf)", num_features=num_features)
        require_in("[0, 1)", dropout=dropout)
        self.dropout = dropout
        # [F, D], not [D, F] as in nn.Linear: the sparse product reads whole rows.
        self.weight = nn.Parameter(torch.empty(num_features, out_dim))
        self.bias = nn.Parameter(torch.empty(out_dim)) if bias else None
        bound = 1.0 / math.sqrt(num_features)  # the default of nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor | Features) -> Tensor:
        """Map attributes ``[N, F]`` to ``[N, D]``."""
        out = as_features(x).dropout(self.dropout, self.training).linear(self.weight)
        return out if self.bias is None else out.add_(self.bias)


class MLP(nn.Module):
    """One hidden layer with ReLU; dropout before both linear maps."""

    def __init__(
        self,
        num_features: int,
        hidden_dim: int,
        num_classes: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        require_in("[1, inf)", hidden_dim=hidden_dim, num_classes=num_classes)
        self.dropout = dropout
        self.input = InputLinear(num_features, hidden_dim, dropout, bias)
        self.output = nn.Linear(hidden_dim, num_classes, bias)

    def forward(self, x: Tensor | Features) -> Tensor:
        """Logits ``[N, C]`` of attributes ``[N, F]``."""
        x = as_features(x)
        hidden, scale = x.relu_dropout(self.input(x), self.dropout, self.training)
        return linear_by_column(hidden, scale * self.output.weight, self.output.bias)
