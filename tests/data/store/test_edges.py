from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pamt_lightning.data.store.edges import EdgeSorter
from pamt_lightning.data.store.format import NpyStream
from pamt_lightning.interop.edges import adjacency_of


@pytest.mark.parametrize("seed", range(30))
def test_edges_in_any_order_and_direction_make_the_simple_graph(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    num_nodes = int(random.integers(2, 12))
    ends = random.integers(num_nodes, size=(random.integers(1, 40), 2))
    streams = {
        name: NpyStream(tmp_path / f"{name}.npy", np.int32) for name in ("indptr", "indices")
    }
    with (tmp_path / "entries").open("w+b") as file:
        sorter = EdgeSorter(file, block=int(random.integers(1, 50)))
        for some in np.array_split(ends, random.integers(1, 5)):
            sorter.add(some)
        assert sorter.last_node == ends.max()
        assert sorter.num_entries == 2 * np.count_nonzero(ends[:, 0] != ends[:, 1])
        sorter.write(num_nodes, **streams)
    expected = adjacency_of(ends[:, 0], ends[:, 1], num_nodes)
    for name, stream in streams.items():
        stream.close()
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), getattr(expected, name))
