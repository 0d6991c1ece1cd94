from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.data.raw import simple_graph
from pamt_lightning.data.store.edges import EdgeSorter
from pamt_lightning.data.store.format import NpyStream


@pytest.mark.parametrize("seed", range(30))
def test_edges_in_any_order_and_direction_make_the_simple_graph(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    num_nodes = int(random.integers(2, 12))
    ends = random.integers(num_nodes, size=(random.integers(1, 40), 2))
    shape = (num_nodes, num_nodes)
    expected = simple_graph(sp.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape))

    sorter = EdgeSorter(tmp_path, block=int(random.integers(1, 50)))
    for some in np.array_split(ends, random.integers(1, 5)):
        sorter.add(some)
    assert (sorter.num_pairs, sorter.last_node) == (len(ends), ends.max())
    streams = {
        name: NpyStream(tmp_path / f"{name}.npy", np.int32) for name in ("indptr", "indices")
    }
    sorter.write(num_nodes, **streams)
    sorter.pairs.close()
    for name, stream in streams.items():
        stream.close()
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), getattr(expected, name))
    assert {path.name for path in tmp_path.iterdir()} == {"indptr.npy", "indices.npy", "pairs"}
