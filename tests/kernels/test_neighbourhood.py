"""Layouts and threads; tests/functional/test_attention.py compares with dense forms."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pamt_lightning.kernels.csr import csr_tensor
from pamt_lightning.kernels.neighbourhood import Neighbourhood
from tests.matrices import operator


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def path() -> Neighbourhood:
    """6 stored entries on 4 nodes."""
    crow, col = torch.tensor([0, 2, 3, 5, 6]), torch.tensor([0, 1, 0, 2, 3, 3])
    return operator(csr_tensor(crow, col, torch.ones(6), 4)).neighbourhood


@pytest.mark.parametrize("needed", [0, 1])
def test_a_gradient_for_one_argument_alone_is_the_same(path: Neighbourhood, needed: int) -> None:
    both = [draw(6, 2), draw(4, 2, 3)]
    one = [value.detach().requires_grad_(place == needed) for place, value in enumerate(both)]
    slopes = torch.rand(4, 2, 3, dtype=torch.float64)
    expected = torch.autograd.grad(path.weighted_sum(*both), both, slopes)[needed]
    (actual,) = torch.autograd.grad(path.weighted_sum(*one), one[needed], slopes)
    assert torch.equal(actual, expected)


def test_transposed_layouts_give_the_same_and_stay_as_they_were(
    path: Neighbourhood,
) -> None:
    def strided(*shape: int) -> Tensor:
        drawn = torch.randn(*shape[::-1], dtype=torch.float64)
        return drawn.permute(*reversed(range(len(shape)))).requires_grad_()

    scores, h, slopes = strided(6, 2), strided(4, 2, 3), strided(4, 2, 3).detach()
    before = scores.detach().clone(), h.detach().clone()
    results = []
    for one, two, upstream in (
        (scores, h, slopes),
        (scores.contiguous(), h.contiguous(), slopes.contiguous()),
    ):
        weights = path.softmax(one)
        out = path.weighted_sum(weights, two)
        kept = weights.detach().clone()
        results.append((weights, out, *torch.autograd.grad(out, (scores, h), upstream)))
        assert torch.equal(weights, kept)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert torch.equal(scores, before[0])
    assert torch.equal(h, before[1])


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    num_nodes = 4000  # a small graph is left to one thread
    col = torch.arange(num_nodes)[:, None] + 150 * torch.arange(-10, 11)
    crow, col = torch.arange(0, 21 * num_nodes + 1, 21), col.remainder(num_nodes)
    ones = torch.ones(21 * num_nodes)
    there = operator(
        csr_tensor(crow, col.sort(dim=1).values.flatten(), ones, num_nodes)
    ).neighbourhood
    scores = torch.randn(len(ones), 8, requires_grad=True)
    h = torch.randn(num_nodes, 8, 8, requires_grad=True)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out = there.weighted_sum(there.softmax(scores), h)
        results.append((out, *torch.autograd.grad(out.square().sum(), (scores, h))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_second_derivative_is_refused(path: Neighbourhood) -> None:
    scores = draw(6, 1)
    total = path.softmax(scores).square().sum()
    (grad,) = torch.autograd.grad(total, scores, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()  # type: ignore[no-untyped-call]
