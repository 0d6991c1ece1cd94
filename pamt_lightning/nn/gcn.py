"""The graph convolutional network of Kipf and Welling."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pamt_lightning.errors import require_in
from pamt_lightning.kernels.dropout import dropout
from pamt_lightning.kernels.features import Features
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.symmetric import symmetric_product
from pamt_lightning.nn.mlp import InputLinear


class GCN(nn.Module):
    r"""Two graph convolutions (Kipf and Welling 2017, arXiv:1609.02907, Eq. 9).

    .. math:: Z = \hat{A}\, \mathrm{ReLU}(\hat{A} X W_1 + b_1)\, W_2 + b_2

    with dropout before both linear maps. :math:`X W_1` comes first: the graph is then multiplied
    with ``hidden_dim`` columns, not with all attributes.
    """

    def __init__(
        self, num_features: int, hidden_dim: int, num_classes: int, dropout: float = 0.5
    ) -> None:
        super().__init__()
        require_in("[1, inf)", hidden_dim=hidden_dim, num_classes=num_classes)
        self.dropout = dropout
        self.input = InputLinear(num_features, hidden_dim, dropout, bias=False)
        self.input_bias = nn.Parameter(torch.zeros(hidden_dim))
        self.output = nn.Linear(hidden_dim, num_classes, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(num_classes))
        nn.init.xavier_uniform_(self.input.weight)  # as its authors do
        nn.init.xavier_uniform_(self.output.weight)

    def forward(self, x: Tensor | Features, adj_norm: SparseOperator) -> Tensor:
        """Logits ``[N, C]`` of attributes ``[N, F]`` over Â ``[N, N]``."""
        hidden = torch.relu(symmetric_product(adj_norm, self.input(x)) + self.input_bias)
        hidden = dropout(hidden, self.dropout, self.training)
        return symmetric_product(adj_norm, self.output(hidden)) + self.output_bias
