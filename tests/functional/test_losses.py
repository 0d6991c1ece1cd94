from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot

from pamt_lightning.functional import (
    adaptive_gamma,
    blend_soft_labels,
    confidence_weights,
    soft_cross_entropy,
)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_equation_10_in_numpy(weighted: bool) -> None:
    logits, labels, weights = torch.randn(3, 9, 4, dtype=torch.float64)
    labels, w = labels.abs(), weights.abs() if weighted else None
    f = logits.numpy()
    log_probs = f - np.log(np.exp(f).sum(axis=1, keepdims=True))
    target = labels.numpy() * (1 if w is None else w.numpy())
    expected = -(target * log_probs).sum() / 4
    assert soft_cross_entropy(logits, labels, w).item() == pytest.approx(expected, rel=1e-13)


def test_one_hot_labels_give_torchs_cross_entropy_summed_and_divided_by_classes() -> None:
    logits = torch.randn(11, 5, dtype=torch.float64)
    classes = torch.randint(5, (11,))
    expected = cross_entropy(logits, classes, reduction="sum") / 5
    actual = soft_cross_entropy(logits, one_hot(classes, 5).double())
    torch.testing.assert_close(actual, expected)


def test_the_gradient_is_mass_times_probability_minus_label() -> None:
    logits = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.rand(6, 3, dtype=torch.float64)
    soft_cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]
    probs = torch.softmax(logits.detach(), dim=1)
    expected = (labels.sum(1, keepdim=True) * probs - labels) / 3
    torch.testing.assert_close(logits.grad, expected)


def test_huge_logits_give_a_finite_loss() -> None:
    logits = torch.tensor([[1e4, -1e4], [-1e30, 1e30]])
    loss = soft_cross_entropy(logits, torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    assert loss.item() == pytest.approx(1e4)


def test_weights_are_the_probabilities_to_the_power_gamma() -> None:
    logits = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    f = logits.detach().numpy()
    probs = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    for gamma in (0.3, 1.0, 2.5):
        actual = confidence_weights(logits, gamma)
        assert not actual.requires_grad
        np.testing.assert_allclose(actual.numpy(), probs**gamma, rtol=1e-12)


def test_weights_are_ones_at_epoch_zero_so_that_pta_begins_as_pts() -> None:
    logits = torch.randn(5, 3)
    logits[0] = torch.tensor([1e4, -1e4, 0.0])  # probabilities that are exactly 0
    weights = confidence_weights(logits, adaptive_gamma(0))
    assert torch.equal(weights, torch.ones(5, 3))
    labels = torch.rand(5, 3)
    assert soft_cross_entropy(logits, labels, weights) == soft_cross_entropy(logits, labels)


# The momentum update


@pytest.mark.parametrize("momentum", [0.1, 0.25, 0.5, 0.99])
def test_the_update_is_equation_11(momentum: float) -> None:
    old, new = torch.rand(2, 7, 3, dtype=torch.float64)
    expected = momentum * old.numpy() + (1 - momentum) * new.numpy()
    before = old.clone()
    actual = blend_soft_labels(old, new, momentum)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-14)
    assert torch.equal(old, before)


def test_momentum_zero_replaces_the_labels() -> None:
    old = torch.full((4, 2), float("nan"))  # 0 * NaN would show
    new = torch.rand(4, 2)
    assert torch.equal(blend_soft_labels(old, new, 0.0), new)
