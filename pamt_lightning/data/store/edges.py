"""Sorts edges on disk into the CSR form of an undirected simple graph."""

from __future__ import annotations

from typing import IO

import numpy as np

from pamt_lightning.data.store.format import NpyStream
from pamt_lightning.errors import InputError
from pamt_lightning.interop.labels import IntArray


class EdgeSorter:
    """Collects both directions of edges in a file, which is mapped and sorted in place.

    An entry is the number ``row * 2^32 + column``, so positions must be below 2^31.

    Args:
        file: A temporary file, open for reading and writing.
        block: Entries in memory at once while the matrix is written.

    Attributes:
        num_entries: Entries added so far, without self-loops.
        last_node: The largest position among their ends; -1 if there are none.
    """

    def __init__(self, file: IO[bytes], block: int = 1 << 22) -> None:
        self.file, self.block = file, block
        self.num_entries, self.last_node = 0, -1

    def add(self, ends: IntArray) -> None:
        """Add undirected edges ``[m, 2]``, each in one direction or in both."""
        self.last_node = max(self.last_node, int(ends.max(initial=-1)))
        if self.last_node >= 1 << 31:
            raise InputError(f"positions of nodes must be below 2^31, got {self.last_node}.")
        one, other = ends[ends[:, 0] != ends[:, 1]].T
        entries = np.concatenate([one << 32 | other, other << 32 | one])
        self.file.write(entries.data)
        self.num_entries += len(entries)

    def write(self, num_nodes: int, indptr: NpyStream, indices: NpyStream) -> None:
        """Write the CSR form of the edges, of which there must be one: rows sorted, no duplicates.

        Args:
            num_nodes: Number of nodes n.
            indptr: Gets the row pointers ``[n + 1]``.
            indices: Gets the column of each entry.
        """
        self.file.flush()
        entries = np.memmap(self.file, dtype=np.int64)
        entries.sort()
        pointers = np.zeros(num_nodes + 1, dtype=np.int64)
        for start in range(0, len(entries), self.block):
            block = np.asarray(entries[start : start + self.block])
            # At the start, the last entry: it differs from the first, its other direction.
            block = block[np.diff(block, prepend=entries[start - 1]) != 0]
            rows, columns = np.divmod(block, 1 << 32)
            np.add.at(pointers, rows + 1, 1)
            indices.append(columns)
        indptr.append(np.cumsum(pointers, out=pointers))
