"""Random propagation and consistency: dense forms, limits, and what the gradient does."""

from __future__ import annotations

import pytest
import torch

from pamt_lightning.functional import consistency_loss, drop_nodes, mean_of_hops, sharpen
from tests.matrices import operator


def probabilities(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1)


def test_dropped_nodes_are_zero_and_the_others_are_scaled_up() -> None:
    x = torch.arange(8.0).view(4, 2) + 1
    found = drop_nodes(x, torch.tensor([True, False, False, True]), 0.75)
    assert torch.equal(found, torch.tensor([[4.0, 8.0], [0.0, 0.0], [0.0, 0.0], [28.0, 32.0]]))
    assert torch.equal(drop_nodes(x, torch.ones(4), 0.0), x)


def test_dropping_nodes_changes_no_attribute_on_average() -> None:
    kept = torch.rand(4000, generator=torch.Generator().manual_seed(0)) >= 0.7
    assert float(drop_nodes(torch.ones(4000, 1), kept, 0.7).mean()) == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("num_hops", [0, 1, 2, 5])
def test_the_mean_of_hops_is_that_of_the_powers_of_the_matrix(num_hops: int) -> None:
    adj = torch.tensor([[0.5, 0.2, 0.0], [0.2, 0.1, 0.7], [0.0, 0.7, 0.3]])
    x = torch.tensor([[1.0, -2.0], [0.0, 4.0], [3.0, 1.0]])
    before = x.clone()
    powers = [torch.matrix_power(adj, hops) for hops in range(num_hops + 1)]
    expected = torch.stack(powers).mean(0) @ x
    torch.testing.assert_close(mean_of_hops(operator(adj), x, num_hops), expected)
    assert torch.equal(x, before)


def test_sharpening_divides_the_logits_by_the_temperature() -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for temperature in (0.5, 1.0, 2.0):
        expected = (logits / temperature).softmax(1)
        torch.testing.assert_close(sharpen(logits.softmax(1), temperature), expected)


def test_sharpening_keeps_classes_that_are_excluded() -> None:
    probs = torch.tensor([[0.0, 0.25, 0.75], [0.0, 0.0, 1.0]])
    expected = torch.tensor([[0.0, 0.1, 0.9], [0.0, 0.0, 1.0]])
    torch.testing.assert_close(sharpen(probs, 0.5), expected)


def test_the_loss_is_the_mean_squared_distance_to_the_sharpened_mean() -> None:
    probs = probabilities(3, 6, 4)
    target = probs.mean(0) ** 2 / (probs.mean(0) ** 2).sum(1, keepdim=True)
    each = [((probs[s, i] - target[i]) ** 2).sum() for s in range(3) for i in range(6)]
    torch.testing.assert_close(consistency_loss(probs, 0.5), torch.stack(each).mean())


def test_agreement_on_certain_classes_costs_nothing() -> None:
    certain = torch.eye(3)[None].repeat(2, 1, 1)
    assert float(consistency_loss(certain, 0.5)) == pytest.approx(0.0, abs=1e-12)
    apart = torch.stack([torch.eye(3), torch.eye(3).roll(1, 0)])
    assert float(consistency_loss(apart, 0.5)) == pytest.approx(0.5)


def test_no_gradient_flows_through_the_target() -> None:
    probs = probabilities(2, 5, 3).requires_grad_()
    (found,) = torch.autograd.grad(consistency_loss(probs, 0.5), probs)
    target = sharpen(probs.detach().mean(0), 0.5)
    torch.testing.assert_close(found, 2 * (probs.detach() - target) / 10)
