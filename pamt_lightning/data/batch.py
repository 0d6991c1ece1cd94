"""GraphBatch: the data that every step receives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from pamt_lightning.errors import InputError
from pamt_lightning.functional import attribute_neighbours, edge_trust, normalize_adjacency
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.columns import take_rows_by_column
from pamt_lightning.kernels.features import Features, SparseFeatures, as_features, is_sparse_enough
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.sharding import RowShare

_VALUES_AT_ONCE = 1 << 24  # attributes may be on disk
_NUM_PROBES = 64


# Not a dataclass: Lightning would take one apart to move it to the device.
class GraphBatch:
    """A graph as a step uses it: attributes, Â, labels and split on the device.

    Args:
        graph: Labels, split and class names, on the device.
        x: Attributes of the nodes of this process; with a ``batch_size`` perhaps on another device
            or on disk.
        adj_norm: Â.
        batch_size: Number of nodes that a network receives at once; None for all.
        weights: Weight of each stored entry of Â, 1 for a self-loop; None in an unweighted graph.

    Attributes:
        nodes: The nodes of a training step, ascending, over all processes; None for all nodes.
    """

    def __init__(
        self,
        graph: Graph,
        x: Features,
        adj_norm: SparseOperator,
        batch_size: int | None = None,
        weights: Tensor | None = None,
    ) -> None:
        self.graph, self.x, self.adj_norm, self.batch_size = graph, x, adj_norm, batch_size
        self.weights = weights
        self.nodes: Tensor | None = None
        self._own: Tensor | slice = adj_norm.rows.local
        self._source: GraphBatch | None = None  # the whole graph, for a batch of some nodes
        self._neighbours: dict[int, Tensor] = {}

    @classmethod
    def from_graph(
        cls,
        graph: Graph,
        dtype: torch.dtype = torch.float32,
        batch_size: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> GraphBatch:
        """Normalise the adjacency and take over the attributes, those of this process only."""
        rows = RowShare.of(graph.num_nodes, rank, world_size)
        adj = SparseOperator.from_csr(graph.adjacency, dtype, rows)
        weights = None
        if graph.is_weighted:
            # In units of the mean: a self-loop weighs as much as an average edge.
            adj = adj.with_values(adj.values / graph.adjacency.values().double().mean().to(dtype))
            weights = adj.add_identity().values
        adj_norm = normalize_adjacency(adj)
        x = _features(graph, dtype, rows.local)
        # The density is that of the whole graph, so that all processes decide alike.
        if batch_size is None and isinstance(x, SparseFeatures):
            stored = len(graph.x.values())
            if not is_sparse_enough(stored, graph.num_nodes, graph.num_features):
                x = x.to_dense()
        return cls(graph, x, adj_norm, batch_size, weights)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return self.graph.num_nodes

    @property
    def rows(self) -> RowShare:
        """The nodes of this process."""
        return self.adj_norm.rows

    @property
    def device(self) -> torch.device:
        """Where networks receive their input."""
        return self.adj_norm.device

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of everything computed from the graph."""
        return self.adj_norm.dtype

    @property
    def train_index(self) -> Tensor:
        """The training nodes; an error if the graph has none."""
        return _require(self.graph.train_index, "training")

    @property
    def val_index(self) -> Tensor:
        """The validation nodes; an error if the graph has none."""
        return _require(self.graph.val_index, "validation")

    @property
    def train_y(self) -> Tensor:
        """Classes of the training nodes."""
        return self.graph.y[self.train_index]

    @cached_property
    def train_x(self) -> Features:
        """Attributes of the training nodes, in every process."""
        if self._source is not None:
            return self._source.train_x
        index = self.train_index.to(self.graph.x.device)
        return _features(self.graph, self.dtype, index).to(self.device)

    @cached_property
    def energy(self) -> Tensor:
        """Σx² over the nodes of this process, in double precision."""
        x = self._whole.x
        values = x.values if isinstance(x, SparseFeatures) else x.matrix.reshape(-1)
        parts = [part.double().square().sum() for part in torch.split(values, _VALUES_AT_ONCE)]
        return torch.stack(parts).sum() if parts else torch.zeros((), dtype=torch.float64)

    @torch.no_grad()
    def energy_share(self, hops: int) -> float:
        """The share of Σx² that is left if Â averages the attributes over so many hops.

        Estimated with random signs r, as Σ(Â…ÂXr)² / Σ(Xr)²: ÂX has too many entries to be stored.
        """
        generator = torch.Generator().manual_seed(0)
        size = (self.graph.num_features, _NUM_PROBES)
        signs = torch.randint(2, size, generator=generator).to(self.device, self.dtype) * 2 - 1
        before = after = self.outputs(lambda x: as_features(x).linear(signs))
        for _ in range(hops):
            after = self.adj_norm @ after
        total = float(before.double().square().sum())
        return float(after.double().square().sum()) / total if total > 0 else 1.0

    @cached_property
    def edge_trust(self) -> Tensor:
        """How reliable each stored entry of Â looks from the attributes of its ends, in [0, 1].

        In a weighted graph this is multiplied by the weight of the entry.
        """
        # A generator of its own: all runs and predictions trust the edges of a graph alike.
        generator = torch.Generator().manual_seed(0)
        where = self.graph.x.device  # the attributes may not be on the device
        with torch.no_grad():
            trust = edge_trust(self.adj_norm.to(where), self.graph.x, generator).to(self.device)
        return trust if self.weights is None else trust * self.weights

    def neighbours(self, count: int) -> Tensor:
        """The graph that joins each node with those of the most similar attributes, CSR."""
        if count not in self._neighbours:
            found = attribute_neighbours(self.graph.x, count)
            self._neighbours[count] = found.to(self.device)
        return self._neighbours[count]

    def outputs(self, network: Callable[[Features], Tensor], x: Features | None = None) -> Tensor:
        """The output ``[N, C]`` of a network, computed for ``batch_size`` nodes at a time.

        The network maps each row of ``x``, by default the attributes of the nodes, to a row.
        """
        x = self._whole.x if x is None else x
        count, size = x.shape[0], self.batch_size
        if size is None or size >= count:
            return self.rows.gather(network(x.to(self.device)))
        for start in range(0, count, size):
            part = network(x.take_rows(slice(start, start + size)).to(self.device))
            if start == 0:
                found = part.new_empty(count, part.shape[1])
            found[start : start + size] = part
        return self.rows.gather(found)

    def at(self, nodes: Tensor) -> GraphBatch:
        """The batch of a step on some nodes, ascending; its ``x`` has those of this process."""
        own, before = self.rows.local_rows(nodes)
        x = self._whole.x.take_rows((own - self.rows.first).to(self.graph.x.device))
        if before:
            # Dropout must draw what one process would draw for these nodes.
            entries = 0
            if self.graph.x.layout == torch.sparse_csr:
                counts = self.graph.x.crow_indices().diff()
                entries = int(counts[nodes[:before].to(counts.device)].sum())
            x = x.starting_at(before, entries)
        batch = copy.copy(self)
        batch.x, batch.nodes, batch._own = x.to(self.device), nodes, own
        batch._source = self._whole
        return batch

    def with_split_of(self, graph: Graph) -> GraphBatch:
        """The batch of the same graph with another split."""
        batch = copy.copy(self)
        parts = graph.train_index, graph.val_index, graph.test_index
        none = graph.y[:0]
        batch.graph = self.graph.with_split(*(none if part is None else part for part in parts))
        vars(batch).pop("train_x", None)
        return batch

    def rows_of(self, matrix: Tensor) -> Tensor:
        """The rows of a matrix ``[N, C]`` that belong to ``x``."""
        if isinstance(self._own, slice):
            return matrix[self._own]
        return take_rows_by_column(matrix, self._own)

    def to(self, device: torch.device | str) -> GraphBatch:
        """The same batch on ``device``; itself if it is there already."""
        device = torch.device(device)
        if device == self.device:
            return self
        if self.nodes is not None:
            return self._whole.to(device).at(self.nodes.to(device))
        whole = self.batch_size is None
        x = self.x.to(device) if whole else self.x
        graph = self.graph.to(device, attributes=whole)
        weights = None if self.weights is None else self.weights.to(device)
        return GraphBatch(graph, x, self.adj_norm.to(device), self.batch_size, weights)

    @property
    def _whole(self) -> GraphBatch:
        return self._source or self


def _require(index: Tensor | None, name: str) -> Tensor:
    if index is None or len(index) == 0:
        raise InputError(f"The graph has no {name} nodes: give it a split first.")
    return index


def _features(graph: Graph, dtype: torch.dtype, nodes: Tensor | slice) -> Features:
    return as_features(graph.x).take_rows(nodes).to(dtype)
