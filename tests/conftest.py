"""Fixtures that the tests share: two graphs, Â, one thread, and torch's seed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pamt_lightning.data.synthetic import SyntheticOptions, synthetic_graph
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.operator import SparseOperator
from tests.matrices import normalized


@pytest.fixture(autouse=True)
def _one_thread_and_one_seed() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(20240)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is ``tmp_path``."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def six_nodes() -> Graph:
    """A triangle 0-1-2, an edge 2-3, an edge 3-4, and node 5 alone; node 4 has no attributes.

    Nodes 0 and 3 are for training, 1 and 4 for validation, 2 for testing; node 5 has no label.
    """
    ends = np.array([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)])
    rows, cols = np.concatenate([ends, ends[:, ::-1]]).T
    adjacency = sp.csr_array(sp.coo_array((np.ones(10), (rows, cols)), shape=(6, 6)))
    features = np.array(
        [[1, 0, 0, 2], [1, 0, 1, 0], [0, 0, 3, 0], [0, 2, 0, 2], [0, 0, 0, 0], [0, 4, 0, 0]]
    )
    graph = Graph.from_scipy(
        sp.csr_array(features.astype(np.float32)),
        adjacency,
        [0, 0, 0, 1, 1, -1],
        ("left", "right"),
        np.array(["a", "b", "c", "d", "e", "f"]),
    )
    return graph.with_split(torch.tensor([0, 3]), torch.tensor([1, 4]), torch.tensor([2]))


@pytest.fixture(scope="session")
def small_graph() -> Graph:
    """A block model of 300 nodes in 4 classes: 20 for training, 80 for validation, 200 for testing.

    One graph for the whole session: it is frozen, and no test writes into its tensors.
    """
    raw = synthetic_graph(SyntheticOptions(300, 4, 60, 5.0, words_per_node=6.0, seed=7))
    graph = Graph.from_arrays(raw.features, raw.adjacency, raw.labels, raw.class_names)
    by_class = [np.flatnonzero(raw.labels == number)[:5] for number in range(4)]
    train = np.concatenate(by_class)
    others = np.setdiff1d(np.arange(300), train)
    return graph.with_split(*(torch.from_numpy(part) for part in (train, others[:80], others[80:])))


@pytest.fixture
def adj_norm(small_graph: Graph) -> SparseOperator:
    """Â of the block model, in double precision."""
    return normalized(small_graph)
