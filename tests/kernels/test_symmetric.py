from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.symmetric import apply_symmetric, symmetric_product


@pytest.fixture
def h() -> Tensor:
    return torch.randn(300, 5, dtype=torch.float64, requires_grad=True)


def test_product_and_gradient_are_those_of_dense_ones(adj_norm: SparseOperator, h: Tensor) -> None:
    slopes = torch.randn(5, 300, dtype=torch.float64).mT  # not contiguous
    dense = adj_norm.to_dense()
    out = symmetric_product(adj_norm, h)
    torch.testing.assert_close(out, dense @ h)
    (grad,) = torch.autograd.grad(out, h, slopes)
    torch.testing.assert_close(grad, dense.mT @ slopes)


def test_the_backward_pass_is_the_map_itself(adj_norm: SparseOperator, h: Tensor) -> None:
    calls = []

    def twice(y: Tensor) -> Tensor:
        calls.append(y)
        return adj_norm @ (adj_norm @ y)

    out = apply_symmetric(twice, h)
    torch.testing.assert_close(out, adj_norm.to_dense() @ adj_norm.to_dense() @ h)
    slopes = torch.randn(300, 5, dtype=torch.float64)
    (grad,) = torch.autograd.grad(out, h, slopes)
    assert len(calls) == 2
    assert torch.equal(grad, twice(slopes))
