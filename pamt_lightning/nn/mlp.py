"""The classifier f_θ: a multi-layer perceptron whose first layer takes sparse attributes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from pamt_lightning.errors import require_in
from pamt_lightning.kernels.columns import linear_by_column
from pamt_lightning.kernels.features import Features, as_features

# Mean of Σx² over the nodes of Cora_ML, Citeseer and MS_Academic when each row sums to one: the
# scale for which the published learning rates and weight decays were chosen.
ROW_ENERGY = 0.036
# The share of it that is left there, on average, if Â averages the attributes over 0, 1, 2 hops.
HOP_SHARES = (1.0, 0.34, 0.22)


class InputLinear(nn.Module):
    """Dropout and a linear map on dense or sparse attributes, whatever their unit.

    Attributes are multiplied by the buffer ``scale``, which a training sets (`fit_scale`): what a
    learning rate and a weight decay mean does not depend on the data.
    """

    scale: Tensor

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
        self.register_buffer("scale", torch.ones(()))
        self.register_load_state_dict_pre_hook(_add_scale)  # type: ignore[no-untyped-call]

    def fit_scale(self, row_energy: float) -> None:
        """Bring attributes whose Σx² has this mean over the nodes to `ROW_ENERGY`."""
        self.scale.fill_(_scale(row_energy))

    def forward(self, x: Tensor | Features) -> Tensor:
        """Map attributes ``[N, F]`` to ``[N, D]``."""
        weight = self.scale * self.weight  # smaller than the attributes
        out = as_features(x).dropout(self.dropout, self.training).linear(weight)
        return out if self.bias is None else out.add_(self.bias)


def _scale(row_energy: float) -> float:
    return math.sqrt(ROW_ENERGY / row_energy) if row_energy > 0 else 1.0


def _add_scale(_: nn.Module, state: dict[str, Any], prefix: str, *__: Any) -> None:
    """Checkpoints of version 0.1 have no scale: they multiplied by nothing."""
    state.setdefault(f"{prefix}scale", torch.ones(()))


class MLP(nn.Module):
    """One hidden layer with ReLU; dropout before both linear maps.

    ``input_dropout`` is the rate before the first one, if it is another.
    """

    def __init__(
        self,
        num_features: int,
        hidden_dim: int,
        num_classes: int,
        dropout: float = 0.0,
        bias: bool = True,
        input_dropout: float | None = None,
    ) -> None:
        super().__init__()
        require_in("[1, inf)", hidden_dim=hidden_dim, num_classes=num_classes)
        self.dropout = dropout
        before = dropout if input_dropout is None else input_dropout
        self.input = InputLinear(num_features, hidden_dim, before, bias)
        self.output = nn.Linear(hidden_dim, num_classes, bias)

    def forward(self, x: Tensor | Features) -> Tensor:
        """Logits ``[N, C]`` of attributes ``[N, F]``."""
        x = as_features(x)
        hidden, scale = x.relu_dropout(self.input(x), self.dropout, self.training)
        return linear_by_column(hidden, scale * self.output.weight, self.output.bias)
