"""Batches of nodes: each node once per epoch, drawn anew, the same whenever an epoch is run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from pamt_lightning.data.loaders import GraphLoader


def batches(num_nodes: int, size: int, seed: int = 0, epoch: int = 0) -> list[list[int]]:
    """The batches, from a batch that hands out the nodes themselves."""
    nodes = SimpleNamespace(num_nodes=num_nodes, device="cpu", at=lambda nodes: nodes)
    torch.manual_seed(seed)
    loader: Any = GraphLoader(cast("Any", nodes), size, lambda: epoch)
    found = [batch.tolist() for batch in loader]
    assert len(loader) == len(found) == -(-num_nodes // size)
    return found


@pytest.mark.parametrize(("num_nodes", "size"), [(10, 3), (10, 5), (10, 1), (1000, 130), (7, 6)])
def test_each_node_is_in_one_batch_of_an_epoch(num_nodes: int, size: int) -> None:
    found = batches(num_nodes, size)
    assert sorted(node for batch in found for node in batch) == list(range(num_nodes))
    sizes = [len(batch) for batch in found]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert all(batch == sorted(batch) for batch in found)


def test_epochs_and_seeds_have_batches_of_their_own_and_draw_from_no_global_state() -> None:
    torch.manual_seed(0)
    before = np.random.get_state(legacy=False)["state"]["key"].copy(), torch.get_rng_state()
    first = batches(100, 10)
    assert batches(100, 10, seed=1) != first
    assert batches(100, 10, epoch=1) != first
    assert batches(100, 10) == first
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_large_batches_are_read_in_stretches_and_still_mixed() -> None:
    for batch in batches(64 * 4000, 64 * 100)[:3]:
        nodes = np.array(batch)
        stretches = 1 + np.count_nonzero(np.diff(nodes) != 1)
        assert 50 < stretches <= 64 + 1
        # If nodes came in order of ten classes, each class would be there.
        assert len(np.unique(nodes // 25_600)) == 10
