"""Which nodes a training step is on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pamt_lightning.data.raw import IntArray

_BLOCKS_PER_BATCH = 64


class FullBatch:
    """A loader of one batch, the whole graph, that draws no random numbers.

    It yields a token; `GraphDataModule.transfer_batch_to_device` answers it with the graph that is
    on the device already.
    """

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[None]:
        yield None


class NodeBatches:
    """A loader that goes through all nodes once per epoch, in batches drawn anew each time.

    A batch is made of blocks of neighbouring numbers, so that attributes on disk are read in
    stretches; 64 blocks in a batch mix the graph well enough even if its nodes come in order.

    Args:
        num_nodes: Number of nodes.
        batch_size: Nodes in a batch at most. The batches of an epoch are of like size: a small one
            at the end would make a step as long as the others out of a few nodes.
        seed: Says the seed of the order, when an epoch begins.
        epoch: Says which epoch it is; an epoch has the same batches whenever it is run.
    """

    def __init__(
        self,
        num_nodes: int,
        batch_size: int,
        seed: Callable[[], int],
        epoch: Callable[[], int],
    ) -> None:
        self.num_nodes, self.batch_size = num_nodes, batch_size
        self.seed, self.epoch = seed, epoch
        self.block = max(1, batch_size // _BLOCKS_PER_BATCH)

    def __len__(self) -> int:
        return -(-self.num_nodes // self.batch_size)

    def __iter__(self) -> Iterator[IntArray]:
        random = np.random.default_rng([self.seed(), self.epoch()])
        starts = self.block * random.permutation(-(-self.num_nodes // self.block))
        order = (starts[:, None] + np.arange(self.block)).reshape(-1)
        order = order[order < self.num_nodes]
        for batch in np.array_split(order, len(self)):
            yield np.sort(batch)
