"""Pooling: against grids, scikit-learn, the conditions of an optimum, and closed forms."""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import fit_pool, fit_sharpness, log_probabilities, pool


def drawn(
    num_nodes: int, num_classes: int = 3, sharpness: float = 1.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Log probabilities ``[M, C]``, and labels drawn from them with a known sharpness."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_nodes, num_classes, generator=draw, dtype=torch.float64)
    truth = torch.softmax(sharpness * torch.log_softmax(logits, 1), 1)
    target = torch.multinomial(truth, 1, generator=draw).squeeze(1)
    return torch.log_softmax(logits, 1), target


def views(num_nodes: int, count: int = 3, num_classes: int = 3) -> tuple[Tensor, Tensor]:
    """Predictions ``[V, M, C]``, the first good and the others worse, and labels."""
    first, target = drawn(num_nodes, num_classes)
    draw = torch.Generator().manual_seed(1)
    noise = torch.randn(count, *first.shape, generator=draw, dtype=torch.float64)
    noise *= torch.arange(count)[:, None, None]
    return torch.log_softmax(first + noise, 2), target


def objective(weights: Tensor, log_probs: Tensor, target: Tensor, ridge: float) -> Tensor:
    scores = torch.log_softmax(torch.einsum("v,vmc->mc", weights, log_probs), 1)
    fit = -scores[torch.arange(len(target)), target].sum()
    return fit + 0.5 * ridge * (weights - 1 / len(weights)).square().sum()


# Logarithms


def test_logarithms_are_finite_and_in_double_precision() -> None:
    probs = torch.tensor([[0.25, 0.75, 0.0]])
    found = log_probabilities(probs)
    assert found.dtype == torch.float64
    assert bool(torch.isfinite(found).all())
    torch.testing.assert_close(found[:, :2].exp(), probs[:, :2].double())
    assert float(found[0, 2]) == pytest.approx(math.log(1e-7))


# Sharpness


@pytest.mark.parametrize("ridge", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
def test_the_sharpness_is_the_best_of_a_fine_grid(sharpness: float, ridge: float) -> None:
    log_probs, target = drawn(60, sharpness=sharpness)
    grid = torch.linspace(-np.log(10), np.log(10), 4001, dtype=torch.float64)
    scores = torch.log_softmax(grid.exp()[:, None, None] * log_probs, 2)
    fit = -scores[:, torch.arange(60), target].sum(1)
    best = grid[(fit + 0.5 * ridge * grid**2).argmin()]
    assert np.log(fit_sharpness(log_probs, target, ridge)) == pytest.approx(float(best), abs=2e-3)


@pytest.mark.parametrize("sharpness", [0.25, 1.0, 3.0])
def test_a_known_sharpness_is_recovered_from_many_labels(sharpness: float) -> None:
    log_probs, target = drawn(50_000, sharpness=sharpness)
    assert fit_sharpness(log_probs, target, ridge=1e-9) == pytest.approx(sharpness, rel=0.03)


def test_the_ridge_draws_the_sharpness_to_one_and_the_range_bounds_it() -> None:
    log_probs, target = drawn(40, sharpness=4.0)
    assert fit_sharpness(log_probs, target, 1e9) == pytest.approx(1.0, abs=1e-4)
    assert fit_sharpness(log_probs[:0], target[:0]) == pytest.approx(1.0, abs=1e-4)
    assert fit_sharpness(log_probs, log_probs.argmax(1), 0.0) == pytest.approx(10.0, rel=1e-3)
    assert fit_sharpness(log_probs, log_probs.argmin(1), 0.0) == pytest.approx(0.1, rel=1e-3)


# Weights of the pool


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_weights_meet_the_conditions_of_the_optimum(count: int, ridge: float) -> None:
    log_probs, target = views(200, count)
    weights = fit_pool(log_probs, target, ridge).requires_grad_()
    (slope,) = torch.autograd.grad(objective(weights, log_probs, target, ridge), weights)
    inside = weights > 0
    assert bool((weights >= 0).all())
    assert float(slope[inside].abs().max()) < 1e-3 * len(target)
    assert bool((slope[~inside] >= 0).all())  # at the bound, more weight makes it worse


@pytest.mark.parametrize("ridge", [0.01, 5.0, 100.0])
def test_the_weights_of_two_views_are_the_best_of_a_grid(ridge: float) -> None:
    log_probs, target = views(150, 2)
    axis = torch.linspace(0, 1.2, 61, dtype=torch.float64)
    pairs = torch.cartesian_prod(axis, axis)
    values = torch.stack([objective(pair, log_probs, target, ridge) for pair in pairs])
    found = fit_pool(log_probs, target, ridge)
    torch.testing.assert_close(found, pairs[values.argmin()], atol=0.025, rtol=0)
    assert float(objective(found, log_probs, target, ridge)) <= float(values.min())


def test_without_a_ridge_the_weights_are_those_of_logistic_regression() -> None:
    log_probs, target = drawn(3_000, 2)
    noisy = log_probs + 0.7 * torch.randn(2, 3_000, 2, dtype=torch.float64)
    both = torch.log_softmax(noisy, 2)
    linear_model = import_module("sklearn.linear_model")  # without types
    oracle = linear_model.LogisticRegression(C=1e9, fit_intercept=False, tol=1e-9)
    oracle.fit((both[:, :, 1] - both[:, :, 0]).T.numpy(), target.numpy())
    assert (oracle.coef_ > 0.1).all()
    np.testing.assert_allclose(fit_pool(both, target, 1e-9).numpy(), oracle.coef_[0], rtol=1e-3)


def test_without_labels_or_with_a_large_ridge_the_weights_are_equal() -> None:
    log_probs, target = views(100, 4)
    equal = torch.full((4,), 0.25, dtype=torch.float64)
    assert torch.equal(fit_pool(log_probs[:, :0], target[:0], 1.0), equal)
    torch.testing.assert_close(fit_pool(log_probs, target, 1e9), equal, atol=1e-5, rtol=0)
    assert float((fit_pool(log_probs, target, 1.0) - equal).abs().max()) > 0.2


def test_a_prediction_that_says_nothing_gets_no_weight_and_a_misleading_one_none_at_all() -> None:
    good, target = drawn(20_000)
    random, _ = drawn(20_000, seed=9)
    wrong = torch.log_softmax(-good, 1)
    found = fit_pool(torch.stack([good, random]), target, 50.0)
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0]).double(), atol=0.03, rtol=0)
    assert float(fit_pool(torch.stack([random, wrong]), target, 1.0)[1]) == 0.0


# The pool


def test_one_prediction_of_weight_one_is_the_pool() -> None:
    log_probs, _ = drawn(20)
    torch.testing.assert_close(pool(log_probs[None], torch.ones(1)), log_probs.exp())
    uniform = torch.full((20, 3), 1 / 3, dtype=torch.float64)
    torch.testing.assert_close(pool(log_probs[None], torch.zeros(1)), uniform)


def test_the_pool_is_a_weighted_geometric_mean() -> None:
    log_probs, _ = views(30, 3)
    weights = np.array([0.2, 0.5, 1.1])
    product = np.prod(log_probs.exp().numpy() ** weights[:, None, None], axis=0)
    expected = product / product.sum(1, keepdims=True)
    np.testing.assert_allclose(pool(log_probs, torch.from_numpy(weights)), expected, rtol=1e-12)


def test_the_order_of_predictions_and_of_classes_does_not_matter() -> None:
    log_probs, target = views(200, 4)
    order, classes = torch.tensor([2, 0, 3, 1]), torch.tensor([2, 0, 1])
    weights = fit_pool(log_probs, target, 2.0)
    again = fit_pool(log_probs[order], target, 2.0)
    torch.testing.assert_close(again, weights[order], atol=1e-4, rtol=0)
    again = fit_pool(log_probs[:, :, classes], classes.argsort()[target], 2.0)
    torch.testing.assert_close(again, weights, atol=1e-4, rtol=0)
    expected = pool(log_probs, weights)
    torch.testing.assert_close(pool(log_probs[order], weights[order]), expected)
    torch.testing.assert_close(pool(log_probs[:, :, classes], weights), expected[:, classes])
