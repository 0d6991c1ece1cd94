"""Loaders: the whole graph as one batch, or its nodes in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from pamt_lightning.data.batch import GraphBatch

_BLOCKS_PER_BATCH = 64


class FullBatch:
    """A loader of one batch, the whole graph; it draws no random numbers."""

    def __init__(self, batch: GraphBatch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[GraphBatch]:
        yield self.batch


class NodeBatches:
    """A loader that goes through all nodes once per epoch, in batches drawn anew each time.

    A batch consists of blocks of consecutive nodes, so that attributes on disk are read in
    stretches; 64 blocks per batch mix the graph well even if its nodes are sorted.

    Args:
        batch: The whole graph.
        batch_size: Largest number of nodes in a batch. The batches of an epoch have similar sizes:
            a small one at the end would turn a few nodes into a full step.
        seed: Returns the seed of the order, asked when an epoch begins.
        epoch: Returns the number of the epoch; an epoch always has the same batches.
    """

    def __init__(
        self,
        batch: GraphBatch,
        batch_size: int,
        seed: Callable[[], int],
        epoch: Callable[[], int],
    ) -> None:
        self.batch, self.batch_size = batch, batch_size
        self.seed, self.epoch = seed, epoch
        self.block = max(1, batch_size // _BLOCKS_PER_BATCH)

    def __len__(self) -> int:
        return -(-self.batch.num_nodes // self.batch_size)

    def __iter__(self) -> Iterator[GraphBatch]:
        num_nodes = self.batch.num_nodes
        random = np.random.default_rng([self.seed(), self.epoch()])
        starts = self.block * random.permutation(-(-num_nodes // self.block))
        order = (starts[:, None] + np.arange(self.block)).reshape(-1)
        order = order[order < num_nodes]
        for nodes in np.array_split(order, len(self)):
            yield self.batch.at(torch.from_numpy(np.sort(nodes)).to(self.batch.device))
