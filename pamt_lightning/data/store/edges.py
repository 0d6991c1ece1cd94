"""Sorts edges on disk into the CSR form of an undirected simple graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np

from pamt_lightning.data.raw import IntArray
from pamt_lightning.data.store.format import NpyStream

# Entries (directed edges) sorted at once; an entry takes 8 bytes, and 8 more while sorting.
BLOCK = 1 << 24
_MAX_FILES = 256  # systems let a process open about a thousand


class EdgeSorter:
    """Collects edges in a file and sorts them a block at a time.

    An entry is the number ``row * n + column``. The entries of an interval of rows go into one
    file, which is sorted in memory; the sorted files, one after the other, are the matrix.

    Args:
        folder: For temporary files; the caller removes it.
        block: Entries in memory at once, on average: each file holds those of equally many nodes,
            so one with hubs is larger. There are at most 256 files.

    Attributes:
        pairs: The file of edges; the caller closes it.
        num_pairs: Edges added so far.
        last_node: The largest position among their ends; -1 if there are none.
    """

    def __init__(self, folder: Path, block: int = BLOCK) -> None:
        self.folder, self.block = folder, block
        self.num_pairs, self.last_node = 0, -1
        self.pairs = (folder / "pairs").open("w+b")

    def add(self, ends: IntArray) -> None:
        """Add undirected edges ``[m, 2]``, each in one direction or in both."""
        self.pairs.write(np.ascontiguousarray(ends).data)
        self.num_pairs += len(ends)
        self.last_node = max(self.last_node, int(ends.max(initial=-1)))

    def write(self, num_nodes: int, indptr: NpyStream, indices: NpyStream) -> None:
        """Write the CSR form: both directions, rows sorted, each entry once, no self-loops.

        Args:
            num_nodes: Number of nodes n, below 3·10^9 so that n² fits into 64 bits.
            indptr: Gets the row pointers ``[n + 1]``.
            indices: Gets the column of each entry.
        """
        num_files = min(max(1, -(-2 * self.num_pairs // self.block)), _MAX_FILES)
        # The first row of each file and, at the end, of none.
        bounds = np.arange(num_files + 1, dtype=np.int64) * num_nodes // num_files
        self._distribute(bounds, num_nodes)
        indptr.append(np.zeros(1, dtype=np.int64))
        total = 0
        for number, (first, last) in enumerate(pairwise(bounds)):
            path = self.folder / f"rows{number}"
            keys = np.fromfile(path, dtype=np.int64)
            path.unlink()
            keys.sort()
            keys = keys[np.diff(keys, prepend=-1) != 0]
            rows, columns = np.divmod(keys, num_nodes)
            degrees = np.bincount(rows - first, minlength=int(last - first))
            indptr.append(total + np.cumsum(degrees))
            indices.append(columns)
            total += len(keys)

    def _distribute(self, bounds: IntArray, num_nodes: int) -> None:
        """Put both directions of each edge into the files of their rows."""
        with ExitStack() as stack:
            paths = (self.folder / f"rows{number}" for number in range(len(bounds) - 1))
            files = [stack.enter_context(path.open("wb")) for path in paths]
            for keys in self._blocks(num_nodes):
                cuts = np.searchsorted(keys, bounds * num_nodes)
                for file, start, stop in zip(files, cuts[:-1], cuts[1:], strict=True):
                    file.write(keys[start:stop].data)

    def _blocks(self, num_nodes: int) -> Iterator[IntArray]:
        """Blocks of sorted entries, both directions of each edge, without self-loops."""
        self.pairs.seek(0)
        size = 2 * max(1, self.block // 2)  # numbers: two for each edge
        while len(numbers := np.fromfile(self.pairs, dtype=np.int64, count=size)):
            one, other = numbers[::2], numbers[1::2]
            keys = np.concatenate([one * num_nodes + other, other * num_nodes + one])
            keys = keys[np.tile(one != other, 2)]
            keys.sort()
            yield keys
