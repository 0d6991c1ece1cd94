"""Shares of rows; trainings by several processes are in tests/methods/test_shares.py."""

from __future__ import annotations

import pytest
import torch

from pamt_lightning.kernels.sharding import RowShare


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_shares_cover_all_rows_once_and_differ_by_at_most_one(world_size: int) -> None:
    shares = [RowShare.of(20, rank, world_size) for rank in range(world_size)]
    rows = [list(range(20)[share.local]) for share in shares]
    assert [row for part in rows for row in part] == list(range(20))
    assert max(map(len, rows)) - min(map(len, rows)) <= 1
    assert [len(part) for part in rows] == [share.size for share in shares]
    nodes = torch.tensor([0, 3, 4, 9, 10, 19])
    parts = [share.local_rows(nodes) for share in shares]
    assert torch.equal(torch.cat([own for own, _ in parts]), nodes)
    for share, (own, before) in zip(shares, parts, strict=True):
        assert before == int((nodes < share.first).sum())
        assert all(node in range(20)[share.local] for node in own.tolist())


def test_one_process_gathers_and_broadcasts_nothing() -> None:
    share, part = RowShare.of(5), torch.arange(10.0).view(5, 2)
    assert share.gather(part) is part
    share.broadcast([part])
    assert torch.equal(part, torch.arange(10.0).view(5, 2))


def test_impossible_shares_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`rank` must lie in \[0, 2\), got 2"):
        RowShare.of(5, 2, 2)
    with pytest.raises(ValueError, match="`part` must have 5 rows, got 4"):
        RowShare.of(5).gather(torch.zeros(4, 2))
