"""GAT: a network whose nodes attend to their neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, leaky_relu

from pamt_lightning.errors import require_in
from pamt_lightning.functional import attention_sum, edge_scores, edge_softmax
from pamt_lightning.kernels.dropout import dropout
from pamt_lightning.kernels.features import Features
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.nn.mlp import InputLinear

_NEGATIVE_SLOPE = 0.2  # of the LeakyReLU, as in the paper


class GraphAttention(nn.Module):
    r"""One attention per head over the neighbours of each node (GAT, Eq. 3 and 4).

    .. math:: o_i = \sum_j \alpha_{ij} h_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}(a_r^\top h_i + a_c^\top h_j)

    The paper's :math:`a^\top [h_i \Vert h_j]` is the sum of the two halves, so it is computed
    per node and not per edge.
    """

    def __init__(self, num_heads: int, dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.row = nn.Parameter(torch.empty(num_heads, dim))
        self.col = nn.Parameter(torch.empty(num_heads, dim))
        nn.init.xavier_uniform_(self.row)
        nn.init.xavier_uniform_(self.col)

    def forward(self, adj: SparseOperator, h: Tensor) -> Tensor:
        """Map ``h`` ``[N, H, D]`` to ``[N, H, D]``."""
        scores = edge_scores(adj, (h * self.row).sum(dim=-1), (h * self.col).sum(dim=-1))
        weights = edge_softmax(adj, leaky_relu(scores, _NEGATIVE_SLOPE))
        return attention_sum(adj, dropout(weights, self.dropout, self.training), h)


class GAT(nn.Module):
    r"""Two layers of attention (Velickovic et al., 2018, Graph Attention Networks, Eq. 5 and 6).

    The heads of the first layer stand side by side, those of the second are averaged:

    .. math:: H = \mathrm{ELU}\left(\Vert_k A_k X W_k + b\right), \qquad
        Z = \frac{1}{K'} \sum_{k=1}^{K'} A'_k H W'_k + b'

    with the attention weights :math:`A_k` of :class:`GraphAttention`. Dropout falls on the input of
    both layers and on the attention weights. ``hidden_dim`` is the size of one head.
    """

    def __init__(
        self,
        num_features: int,
        hidden_dim: int,
        num_classes: int,
        num_heads: int = 8,
        num_output_heads: int = 1,
        dropout: float = 0.6,
        attention_dropout: float = 0.6,
    ) -> None:
        super().__init__()
        require_in("[1, inf)", hidden_dim=hidden_dim, num_classes=num_classes)
        require_in("[1, inf)", num_heads=num_heads, num_output_heads=num_output_heads)
        require_in("[0, 1)", attention_dropout=attention_dropout)
        self.num_heads, self.num_output_heads = num_heads, num_output_heads
        self.dropout = dropout
        width = num_heads * hidden_dim
        self.input = InputLinear(num_features, width, dropout, bias=False)
        self.input_attention = GraphAttention(num_heads, hidden_dim, attention_dropout)
        self.input_bias = nn.Parameter(torch.zeros(width))
        self.output = nn.Linear(width, num_output_heads * num_classes, bias=False)
        self.output_attention = GraphAttention(num_output_heads, num_classes, attention_dropout)
        self.output_bias = nn.Parameter(torch.zeros(num_classes))
        nn.init.xavier_uniform_(self.input.weight)
        nn.init.xavier_uniform_(self.output.weight)

    def forward(self, x: Tensor | Features, adj: SparseOperator) -> Tensor:
        """Logits ``[N, C]`` of attributes ``[N, F]`` on a graph with a self-loop on each node.

        The values of ``adj`` ``[N, N]`` are not used.
        """
        if adj.neighbourhood.num_loops != adj.num_nodes:
            raise ValueError(
                "`adj` must have one self-loop on each node, "
                f"got {adj.neighbourhood.num_loops} on {adj.num_nodes} nodes."
            )
        h = self.input(x).unflatten(1, (self.num_heads, -1))
        hidden = elu(self.input_attention(adj, h).flatten(1) + self.input_bias)
        h = self.output(dropout(hidden, self.dropout, self.training))
        heads = self.output_attention(adj, h.unflatten(1, (self.num_output_heads, -1)))
        logits: Tensor = heads.mean(dim=1) + self.output_bias
        return logits
