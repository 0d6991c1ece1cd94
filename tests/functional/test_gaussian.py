from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from pamt_lightning.functional.gaussian import (
    VARIANCE_FLOOR,
    gaussian_convolution,
    kl_to_standard_normal,
)
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.operator import SparseOperator
from tests.matrices import normalized


@pytest.fixture
def mean() -> Tensor:
    return torch.randn(300, 5, dtype=torch.float64)


@pytest.fixture
def variance() -> Tensor:
    """Half of them zero, as ReLU makes them."""
    return torch.randn(300, 5, dtype=torch.float64).relu()


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 4.0])
def test_convolution_is_the_dense_formula(
    adj_norm: SparseOperator, mean: Tensor, variance: Tensor, gamma: float
) -> None:
    actual = gaussian_convolution(mean, variance, adj_norm, gamma)
    dense, m, v = adj_norm.to_dense().numpy(), mean.numpy(), variance.numpy()
    weight = np.exp(-gamma * v)
    np.testing.assert_allclose(actual[0].numpy(), dense @ (m * weight), rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        actual[1].numpy(), (dense * dense) @ (v * weight * weight), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_moments_are_those_of_sums_of_drawn_gaussians(six_nodes: Graph, gamma: float) -> None:
    adj_norm = normalized(six_nodes)
    mean = torch.randn(6, 3, dtype=torch.float64)
    variance = torch.rand(6, 3, dtype=torch.float64) + 0.1
    expected = gaussian_convolution(mean, variance, adj_norm, gamma)

    draws = 100_000
    noise = torch.randn(draws, 6, 3, dtype=torch.float64)
    states = mean + noise * variance.sqrt()
    sums = adj_norm.to_dense() @ (states * torch.exp(-gamma * variance))
    # Five standard errors of the mean and of the variance of a Gaussian.
    assert ((sums.mean(0) - expected[0]).abs() < 5 * (expected[1] / draws).sqrt()).all()
    assert ((sums.var(0) / expected[1] - 1).abs() < 5 * (2 / draws) ** 0.5).all()


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e-8, 1e3, 1e30])
def test_extreme_variances_give_finite_values_and_gradients(six_nodes: Graph, value: float) -> None:
    adj_norm = normalized(six_nodes, torch.float32)
    mean = torch.ones(6, 2, requires_grad=True)
    variance = torch.full((6, 2), value, requires_grad=True)
    new_mean, new_variance = gaussian_convolution(mean, variance, adj_norm, 1.0)
    kl = kl_to_standard_normal(mean, variance)
    parts = [new_mean, new_variance, kl]
    torch.autograd.backward([part.sum() for part in parts])
    for tensor in (*parts, mean.grad, variance.grad):
        assert tensor is not None
        assert tensor.isfinite().all()


def test_divergence_is_that_of_torch_per_dimension(mean: Tensor, variance: Tensor) -> None:
    variance = variance + 1e-3
    each = kl_divergence(Normal(mean, variance.sqrt()), Normal(0.0, 1.0))
    torch.testing.assert_close(kl_to_standard_normal(mean, variance), each.sum(1) / 5)


def test_a_variance_below_the_floor_counts_as_the_floor() -> None:
    zero = torch.zeros(2, 3).double()
    floor = torch.full_like(zero, VARIANCE_FLOOR)
    assert torch.equal(kl_to_standard_normal(zero, zero), kl_to_standard_normal(zero, floor))
    # ½ (1e-8 - ln 1e-8 - 1)
    assert kl_to_standard_normal(zero, zero).tolist() == pytest.approx([8.710340] * 2, abs=1e-5)
