"""Which rows of the graph a process owns, and how it obtains those of the other processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowShare:
    """The rows of an ``[N, …]`` matrix that one of several processes owns."""

    bounds: tuple[int, ...]  # the first row of each process and, at the end, N
    rank: int = 0

    @classmethod
    def of(cls, num_rows: int, rank: int = 0, world_size: int = 1) -> RowShare:
        """Divide rows into shares whose sizes differ by at most one."""
        if not 0 <= rank < world_size:
            raise ValueError(f"`rank` must lie in [0, {world_size}), got {rank}.")
        return cls(tuple(num_rows * r // world_size for r in range(world_size + 1)), rank)

    @property
    def num_rows(self) -> int:
        """Number of rows N of the whole matrix."""
        return self.bounds[-1]

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return len(self.bounds) - 1

    @property
    def first(self) -> int:
        """The first row of this process."""
        return self.bounds[self.rank]

    @property
    def size(self) -> int:
        """Number of rows of this process."""
        return self.bounds[self.rank + 1] - self.first

    @property
    def local(self) -> slice:
        """The rows of this process."""
        return slice(self.first, self.first + self.size)

    def gather(self, part: Tensor) -> Tensor:
        """Join the rows of all processes to the whole matrix ``[N, …]``; all must call it."""
        if len(part) != self.size:
            raise ValueError(f"`part` must have {self.size} rows, got {len(part)}.")
        if self.world_size == 1:
            return part
        sizes = [last - first for first, last in pairwise(self.bounds)]
        most = max(sizes)
        padded = part.contiguous()
        if len(part) < most:
            padded = torch.cat([padded, part.new_zeros(most - len(part), *part.shape[1:])])
        whole = part.new_empty(self.world_size * most, *part.shape[1:])
        torch.distributed.all_gather(list(whole.tensor_split(self.world_size)), padded)
        if min(sizes) == most:
            return whole
        return torch.cat([whole[r * most : r * most + size] for r, size in enumerate(sizes)])

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Copy the tensors of process 0 to all others: machines may round differently."""
        if self.world_size > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor.detach(), 0)

    def local_rows(self, nodes: Tensor) -> tuple[Tensor, int]:
        """The nodes of an ascending list that this process owns, and how many precede them."""
        ends = torch.tensor([self.local.start, self.local.stop], device=nodes.device)
        first, last = torch.searchsorted(nodes, ends).tolist()
        return nodes[first:last], first
