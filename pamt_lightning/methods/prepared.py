"""What a method is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from pamt_lightning.errors import InputError
from pamt_lightning.functional import RowShare, normalize_adjacency
from pamt_lightning.graph import Graph
from pamt_lightning.nn import SparseFeatures, is_sparse_enough, take_rows


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is computed from a graph once and used in every step.

    Attributes:
        graph: The graph.
        x: Attributes of the nodes of this process, as a network takes them. If it takes them in
            parts they may be on another device, or still on the disk.
        adj_norm: Rows of Â of this process.
        share: The nodes of this process: all, unless several work together.
        batch_size: Nodes that a network is given at once; none: all of them.
    """

    graph: Graph
    x: Tensor | SparseFeatures
    adj_norm: Tensor
    share: RowShare
    batch_size: int | None = None

    @classmethod
    def from_graph(
        cls,
        graph: Graph,
        dtype: torch.dtype,
        batch_size: int | None = None,
        share: RowShare | None = None,
    ) -> Prepared:
        """Normalise the adjacency; of the attributes, take those of this process."""
        share = share or RowShare.of(graph.num_nodes)
        adj_norm = normalize_adjacency(graph.adjacency.to(dtype), share)
        x = _features(graph, share.rows, dtype)
        if batch_size is None and isinstance(x, SparseFeatures) and not _is_sparse_enough(graph):
            x = x.to_dense()
        return cls(graph, x, adj_norm, share, batch_size)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return self.graph.num_nodes

    def outputs(self, network: Callable[[Tensor | SparseFeatures], Tensor]) -> Tensor:
        """The output of a network for every node, ``batch_size`` of them at a time.

        Args:
            network: Takes the attributes of some nodes and says something of each by itself.

        Returns:
            Shape ``[N, C]``.
        """
        count, size = self.x.shape[0], self.batch_size
        if size is None or size >= count:
            return self.share.gather(network(self.x.to(self.device)))
        found: Tensor | None = None
        for start in range(0, count, size):
            rows = take_rows(self.x, slice(start, start + size))
            part = network(rows.to(self.device))
            if found is None:
                found = part.new_empty(count, part.shape[1])
            found[start : start + size] = part
        assert found is not None
        return self.share.gather(found)

    def batch(self, nodes: Tensor) -> tuple[Tensor | SparseFeatures, Tensor, int]:
        """Those of some nodes that are of this process.

        Args:
            nodes: Positions in the whole graph, ascending.

        Returns:
            Their attributes, their positions, and how many of the nodes stand before them.
        """
        own, before = self.share.part_of(nodes)
        features = take_rows(self.x, (own - self.share.first).to(self.graph.x.device))
        if isinstance(features, SparseFeatures) and before:
            degrees = self.graph.x.crow_indices().diff()
            skipped = degrees[nodes[:before].to(degrees.device)]
            features = replace(features, first_entry=int(skipped.sum()))
        return features.to(self.device), own, before

    @property
    def train_index(self) -> Tensor:
        """The labelled nodes; an error if the graph has none."""
        index = self.graph.train_index
        if index is None or len(index) == 0:
            raise InputError("The graph has no training nodes: give it a split first.")
        return index

    @cached_property
    def train_x(self) -> Tensor | SparseFeatures:
        """Attributes of the labelled nodes alone, in every process."""
        index = self.train_index.to(self.graph.x.device)
        return _features(self.graph, index, self.dtype).to(self.device)

    @cached_property
    def train_y(self) -> Tensor:
        """Classes of the labelled nodes."""
        return self.graph.y[self.train_index]

    @property
    def device(self) -> torch.device:
        """Where a network is given its attributes; those not in use may be elsewhere."""
        return self.adj_norm.device

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of everything computed from the graph."""
        return self.adj_norm.dtype


def _is_sparse_enough(graph: Graph) -> bool:
    """Of the whole graph, as all processes must do the same."""
    return is_sparse_enough(len(graph.x.values()), graph.num_nodes, graph.num_features)


def _features(graph: Graph, nodes: Tensor | slice, dtype: torch.dtype) -> Tensor | SparseFeatures:
    sparse = graph.x.layout == torch.sparse_csr
    x = SparseFeatures.from_csr(graph.x, dtype) if sparse else graph.x
    if isinstance(nodes, slice) and nodes == slice(0, graph.num_nodes):
        return x.to(dtype) if isinstance(x, Tensor) else x  # no copy, so the transpose is kept
    rows = take_rows(x, nodes)
    return rows.to(dtype) if isinstance(rows, Tensor) else rows


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method says of every node.

    Attributes:
        probs: Class probabilities, shape ``[N, C]``, rows summing to one.
        logits: Output of the network alone, before propagation, if the method has such a thing.
    """

    probs: Tensor
    logits: Tensor | None = None
