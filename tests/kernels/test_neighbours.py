"""The search in blocks: against all products; the approximate one: against the exact one."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning.errors import InputError
from pamt_lightning.kernels import neighbours
from pamt_lightning.kernels.neighbours import nearest_rows


def all_pairs(x: Tensor, weights: Tensor, k: int) -> set[tuple[int, int]]:
    unit = torch.nn.functional.normalize(x.double() * weights, dim=1)
    cosines = (unit @ unit.T).round(decimals=9).fill_diagonal_(-2.0)
    order = cosines.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return {(row, int(col)) for row in range(len(x)) for col in order[row] if cosines[row, col] > 0}


def found_pairs(x: Tensor, weights: Tensor, k: int) -> set[tuple[int, int]]:
    rows, cols = nearest_rows(x, weights, k)
    pairs = set(zip(rows.tolist(), cols.tolist(), strict=True))
    assert len(pairs) == len(rows)
    return pairs


def repeated_rows(copies: int = 40) -> Tensor:
    """Rows of small whole numbers, many of them equal or multiples, shuffled."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(-2, 3, (8, 12), generator=draw).clamp(min=0).repeat(copies, 1)
    x *= torch.randint(1, 4, (len(x), 1), generator=draw)
    return x[torch.randperm(len(x), generator=draw)].double()


def topics(size: int = 1_500, width: int = 300, seed: int = 0) -> Tensor:
    """Words of ten topics, as CSR; the last rows are empty."""
    draw = torch.Generator().manual_seed(seed)
    topic = torch.randint(10, (size, 1), generator=draw)
    column = torch.randint(30, (size, 20), generator=draw) * 10 + topic
    x = torch.zeros(size, width).scatter_(1, column, torch.rand(size, 20, generator=draw) + 0.5)
    x[-3:] = 0.0
    return x.to_sparse_csr()


@pytest.mark.parametrize("block", [1, 7, 128, 1000])
@pytest.mark.parametrize("k", [1, 5, 60])
@pytest.mark.parametrize("sparse", [True, False])
def test_ties_do_not_depend_on_the_blocks(
    sparse: bool, k: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "_BLOCK_ROWS", block)
    x, weights = repeated_rows(), torch.rand(12, dtype=torch.float64) + 0.1
    expected = all_pairs(x, weights, k)
    assert found_pairs(x.to_sparse_csr() if sparse else x, weights, k) == expected


@pytest.mark.parametrize("sparse", [True, False])
def test_single_precision_does_not_decide_what_it_cannot(sparse: bool) -> None:
    # Cosines with row 0 that differ by less than single precision, in a mixed order.
    x = torch.zeros(201, 3, dtype=torch.float64)
    x[:, 0] = 1.0
    x[1:, 1] = 0.5 + 1e-8 * torch.randperm(200).double()
    x[1:, 2] = 0.1  # with a column of weight 0 in one of two rows
    weights = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    assert len({x[i, 1].float().item() for i in range(1, 201)}) < 60
    expected = all_pairs(x, weights, 5)
    assert found_pairs(x.to_sparse_csr() if sparse else x, weights, 5) == expected


def sizes_of_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each block that a function of the module gets from now on."""
    sizes: list[int] = []
    function = getattr(neighbours, name)

    def watched(x: Any, block: Any, *rest: Any) -> Any:
        sizes.append(len(block))
        return function(x, block, *rest)

    monkeypatch.setattr(neighbours, name, watched)
    return sizes


def test_few_rows_need_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weights = topics(), torch.ones(300, dtype=torch.float64)
    sizes = sizes_of_blocks("_exact_block", monkeypatch)
    assert found_pairs(x, weights, 10) == all_pairs(x.to_dense(), weights, 10)
    assert sum(sizes) < 50  # of 1,500


def test_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_BLOCK_ENTRIES", 15_000)
    sizes = sizes_of_blocks("_products", monkeypatch)
    nearest_rows(topics(), torch.ones(300), 10)
    assert max(sizes) == 10
    sizes.clear()
    nearest_rows(topics(width=3_000), torch.ones(3_000), 10)  # a block is a dense matrix [F, B] too
    assert max(sizes) == 5


# Approximate


@pytest.mark.slow  # compiles for half a minute
@pytest.mark.parametrize("sparse", [True, False])
def test_many_rows_are_found_approximately_and_again(
    sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pynndescent", reason="the extra `neighbours` is not installed")
    x, weights = topics(), torch.ones(300, dtype=torch.float64)
    exact = found_pairs(x, weights, 10)
    monkeypatch.setattr(neighbours, "MAX_EXACT_ROWS", 1_000)
    x = x if sparse else x.to_dense()
    found = found_pairs(x, weights, 10)
    assert len(found & exact) >= 0.9 * len(exact)
    assert len(found) <= len(exact)
    assert not any(row == col or max(row, col) >= 1_497 for row, col in found)
    assert found_pairs(x, weights, 10) == found


@pytest.mark.slow
def test_what_is_missed_is_missed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pynndescent", reason="the extra `neighbours` is not installed")
    x, weights = torch.randn(3_000, 60), torch.ones(60, dtype=torch.float64)  # no structure: hard
    exact = found_pairs(x, weights, 2)
    monkeypatch.setattr(neighbours, "MAX_EXACT_ROWS", 1_000)
    found = found_pairs(x, weights, 2)
    assert found != exact
    assert found_pairs(x, weights, 2) == found


@pytest.mark.slow
def test_approximate_neighbours_share_something(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pynndescent", reason="the extra `neighbours` is not installed")
    monkeypatch.setattr(neighbours, "MAX_EXACT_ROWS", 100)
    group = torch.arange(500) % 100  # of five rows, fewer than are asked for
    x = torch.eye(100)[group].repeat(1, 2) * torch.rand(500, 200)
    found = found_pairs(x.to_sparse_csr(), torch.ones(200, dtype=torch.float64), 10)
    assert 500 < len(found) <= 2_000
    assert all(group[row] == group[col] for row, col in found)


def test_many_rows_without_the_extra_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "MAX_EXACT_ROWS", 1_000)
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(InputError, match=r"1,000 nodes, here 1,500, .*pip install .*neighbours"):
        nearest_rows(topics(), torch.ones(300), 10)
