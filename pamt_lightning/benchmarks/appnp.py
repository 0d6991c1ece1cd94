"""APPNP with layers of PyTorch Geometric on dense attributes, for comparison."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.operator import SparseOperator


def pyg_available() -> bool:
    """Whether PyTorch Geometric is installed (the extra `benchmark`)."""
    return find_spec("torch_geometric") is not None


class AppnpLoop:
    """Steps and validations of APPNP with K = 10 and α = 0.1, as in PAMT.

    Args:
        graph: The graph with its split.
        hidden_dim: Size of the hidden layer.
        rate: Dropout rate.
    """

    def __init__(self, graph: Graph, hidden_dim: int, rate: float) -> None:
        self.x = graph.x.to_dense() if graph.x.layout == torch.sparse_csr else graph.x
        adjacency = SparseOperator.from_csr(graph.adjacency)
        self.edge_index = torch.stack([adjacency.row_index.long(), adjacency.col.long()])
        self.y, self.train, self.val = graph.y, graph.train_index, graph.val_index
        torch.manual_seed(0)
        self.net = _Appnp(graph.num_features, hidden_dim, graph.num_classes, rate)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01, weight_decay=5e-4)

    def run(self, epochs: int) -> float:
        """Train for some epochs; returns the seconds per epoch."""
        start = time.perf_counter()
        for _ in range(epochs):
            self.net.train()
            self.optimizer.zero_grad()
            out = self.net(self.x, self.edge_index)
            cross_entropy(out[self.train], self.y[self.train]).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.net.eval()
            with torch.no_grad():
                out = self.net(self.x, self.edge_index)[self.val]
                float((out.argmax(1) == self.y[self.val]).float().mean())
                float(cross_entropy(out, self.y[self.val]))
        return (time.perf_counter() - start) / epochs


class _Appnp(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int, rate: float) -> None:
        super().__init__()
        from torch_geometric.nn import APPNP

        self.first, self.second = nn.Linear(features, hidden), nn.Linear(hidden, classes)
        self.propagate: Callable[..., Tensor] = APPNP(K=10, alpha=0.1)
        self.rate = rate

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of every node."""
        x = torch.relu(self.first(dropout(x, self.rate, self.training)))
        return self.propagate(self.second(dropout(x, self.rate, self.training)), edge_index)
