"""The loader: the whole graph as one batch, or its nodes in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from pamt_lightning.data.batch import GraphBatch

_BLOCKS_PER_BATCH = 64


class GraphLoader:
    """A loader that goes through all nodes once per epoch, in batches of similar sizes.

    A batch consists of blocks of consecutive nodes, so that attributes on disk are read in
    stretches; 64 blocks per batch mix the graph well even if its nodes are sorted.

    Args:
        batch: The whole graph.
        batch_size: Largest number of nodes in a batch; None for one batch, the whole graph.
        epoch: Returns the number of the epoch; with torch's seed it determines the batches.
    """

    def __init__(
        self,
        batch: GraphBatch,
        batch_size: int | None = None,
        epoch: Callable[[], int] = lambda: 0,
    ) -> None:
        self.batch, self.batch_size, self.epoch = batch, batch_size, epoch

    def __len__(self) -> int:
        return 1 if self.batch_size is None else -(-self.batch.num_nodes // self.batch_size)

    def __iter__(self) -> Iterator[GraphBatch]:
        if self.batch_size is None:
            yield self.batch
            return
        num_nodes = self.batch.num_nodes
        block = max(1, self.batch_size // _BLOCKS_PER_BATCH)
        random = np.random.default_rng([torch.initial_seed(), self.epoch()])
        starts = block * random.permutation(-(-num_nodes // block))
        order = (starts[:, None] + np.arange(block)).reshape(-1)
        order = order[order < num_nodes]
        for nodes in np.array_split(order, len(self)):
            yield self.batch.at(torch.from_numpy(np.sort(nodes)).to(self.batch.device))
