"""Principal directions: against the singular value decomposition of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import principal_directions


def with_spectrum(values: Tensor, num_nodes: int, num_features: int) -> Tensor:
    """A matrix of these singular values with random singular vectors."""
    draw = torch.Generator().manual_seed(0)
    left, right = (
        torch.linalg.qr(torch.randn(size, len(values), generator=draw, dtype=torch.float64)).Q
        for size in (num_nodes, num_features)
    )
    matrix: Tensor = (left * values) @ right.T
    return matrix.float()


@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_directions_hold_nearly_the_most_that_any_can(sparse: bool, power: float) -> None:
    x = with_spectrum(torch.arange(1, 81).double() ** -power, 200, 80)
    found = principal_directions(x.to_sparse_csr() if sparse else x, 12)
    assert found.shape == (80, 12)
    torch.testing.assert_close(found.T @ found, torch.eye(12), atol=1e-5, rtol=0)
    held = float((x @ found).double().square().sum())
    best = float((np.linalg.svd(x.double().numpy())[1][:12] ** 2).sum())
    assert 0.99 * best < held < (1 + 1e-5) * best


def test_a_matrix_of_low_rank_gives_exactly_its_row_space() -> None:
    x = with_spectrum(torch.tensor([5.0, 3.0, 2.0, 1.0]).double(), 50, 30)
    found = principal_directions(x, 4)
    right = torch.from_numpy(np.linalg.svd(x.numpy())[2][:4].T)
    torch.testing.assert_close(found @ found.T, right @ right.T, atol=1e-4, rtol=0)


def test_more_rounds_come_nearer() -> None:
    x = torch.randn(300, 100)
    held = [
        float((x @ principal_directions(x, 10, num_rounds=rounds)).square().sum())
        for rounds in (1, 3, 30)
    ]
    best = (np.linalg.svd(x.double().numpy())[1][:10] ** 2).sum()
    assert held[0] < held[1] < held[2] == pytest.approx(best, rel=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_and_dense_attributes_give_the_same(dtype: torch.dtype) -> None:
    x = (torch.rand(150, 40) * (torch.rand(150, 40) < 0.2)).to(dtype)
    sparse, dense = principal_directions(x.to_sparse_csr(), 6), principal_directions(x, 6)
    assert sparse.dtype == dense.dtype == torch.float32
    torch.testing.assert_close(sparse, dense, atol=1e-4, rtol=0)


def test_every_call_gives_the_same_bits_whatever_the_unit_and_draws_nothing() -> None:
    x = torch.randn(50, 20)
    before = torch.get_rng_state()
    first = principal_directions(x, 5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(7)
    assert torch.equal(principal_directions(x, 5), first)
    torch.testing.assert_close(principal_directions(100 * x, 5), first, atol=1e-4, rtol=0)


@pytest.mark.parametrize("count", [4, 5, 1000])
def test_all_directions_are_the_identity(count: int) -> None:
    assert torch.equal(principal_directions(torch.randn(9, 4), count), torch.eye(4))


@pytest.mark.parametrize("sparse", [True, False])
def test_attributes_that_are_all_zero_give_orthonormal_directions(sparse: bool) -> None:
    x = torch.zeros(9, 6)
    found = principal_directions(x.to_sparse_csr() if sparse else x, 2)
    torch.testing.assert_close(found.T @ found, torch.eye(2))
