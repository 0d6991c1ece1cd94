from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import normalize_adjacency, propagate, smooth, symmetric_product
from pamt_lightning.graph import Graph


@pytest.fixture
def adj_norm(small_graph: Graph) -> Tensor:
    return normalize_adjacency(small_graph.adjacency.to(torch.float64))


@pytest.fixture
def h(generator: torch.Generator) -> Tensor:
    return torch.randn(300, 5, generator=generator, dtype=torch.float64, requires_grad=True)


def test_product_and_gradient_are_those_of_the_dense_matrix(adj_norm: Tensor, h: Tensor) -> None:
    weights = torch.randn(300, 5, dtype=torch.float64)
    (symmetric_product(adj_norm, h) * weights).sum().backward()  # type: ignore[no-untyped-call]
    dense = adj_norm.to_dense()
    torch.testing.assert_close(symmetric_product(adj_norm, h), dense @ h)
    torch.testing.assert_close(h.grad, dense.mT @ weights)


@pytest.mark.parametrize(("num_steps", "alpha"), [(0, 0.1), (1, 0.3), (4, 0.0), (10, 0.1), (3, 1)])
def test_smoothing_is_propagation_with_the_gradient_of_autograd(
    adj_norm: Tensor, h: Tensor, num_steps: int, alpha: float
) -> None:
    actual = smooth(adj_norm, h, num_steps=num_steps, alpha=alpha)
    assert torch.equal(actual, propagate(adj_norm, h.detach(), num_steps=num_steps, alpha=alpha))
    (actual_grad,) = torch.autograd.grad((actual**2).sum(), h)
    expected = propagate(adj_norm.to_dense(), h, num_steps=num_steps, alpha=alpha)
    (expected_grad,) = torch.autograd.grad((expected**2).sum(), h)
    torch.testing.assert_close(actual_grad, expected_grad)


def test_gradients_of_transposed_layout_are_taken(adj_norm: Tensor, h: Tensor) -> None:
    out = symmetric_product(adj_norm, h)
    out.backward(torch.ones(5, 300, dtype=torch.float64).mT)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(h.grad, adj_norm.to_dense().sum(0)[:, None].expand(-1, 5))


def test_other_layouts_are_refused(h: Tensor) -> None:
    with pytest.raises(ValueError, match="`adj` must be a square sparse CSR tensor"):
        symmetric_product(torch.eye(300), h)
