"""What a method is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pamt_lightning.errors import InputError
from pamt_lightning.functional import normalize_adjacency
from pamt_lightning.graph import Graph
from pamt_lightning.nn import SparseFeatures, take_rows


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is computed from a graph once and used in every step."""

    graph: Graph
    x: Tensor | SparseFeatures
    adj_norm: Tensor

    @classmethod
    def from_graph(cls, graph: Graph, dtype: torch.dtype) -> Prepared:
        """Normalise the adjacency, and store the transpose of sparse attributes."""
        sparse = graph.x.layout == torch.sparse_csr
        x = SparseFeatures.from_csr(graph.x, dtype) if sparse else graph.x.to(dtype)
        return cls(graph, x, normalize_adjacency(graph.adjacency.to(dtype)))

    @property
    def train_index(self) -> Tensor:
        """The labelled nodes; an error if the graph has none."""
        index = self.graph.train_index
        if index is None or len(index) == 0:
            raise InputError("The graph has no training nodes: give it a split first.")
        return index

    @cached_property
    def train_x(self) -> Tensor | SparseFeatures:
        """Attributes of the labelled nodes alone."""
        return take_rows(self.x, self.train_index)

    @cached_property
    def train_y(self) -> Tensor:
        """Classes of the labelled nodes."""
        return self.graph.y[self.train_index]

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of everything computed from the graph."""
        return self.adj_norm.dtype


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method says of every node.

    Attributes:
        probs: Class probabilities, shape ``[N, C]``, rows summing to one.
        logits: Output of the network alone, before propagation, if the method has such a thing.
    """

    probs: Tensor
    logits: Tensor | None = None
