from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import attention_sum, edge_scores, edge_softmax
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.csr import csr_tensor
from pamt_lightning.kernels.operator import SparseOperator
from tests.matrices import operator

HEADS, DIM = 3, 5


@pytest.fixture
def adj(small_graph: Graph) -> SparseOperator:
    return operator(small_graph.adjacency).add_identity()


@pytest.fixture
def tiny(six_nodes: Graph) -> SparseOperator:
    return operator(six_nodes.adjacency).add_identity()


@pytest.fixture
def one_way() -> SparseOperator:
    """Edges in one direction and an empty row."""
    crow, col = torch.tensor([0, 3, 5, 5, 6]), torch.tensor([0, 1, 3, 0, 2, 3])
    return operator(csr_tensor(crow, col, torch.ones(6), 4))


def draw(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


def spread(adj: SparseOperator, values: Tensor, fill: float = 0.0) -> Tensor:
    """Values of the stored entries ``[nnz, H]`` as dense matrices ``[H, N, N]``."""
    n = adj.num_nodes
    dense = torch.full((values.shape[1], n, n), fill, dtype=values.dtype)
    return dense.index_put((torch.arange(len(dense))[:, None], adj.row_index, adj.col), values.mT)


def grads_of(out: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    slopes = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    return torch.autograd.grad((out * slopes).sum(), inputs)


def test_scores_and_gradients_are_those_of_the_dense_sums(
    adj: SparseOperator, generator: torch.Generator
) -> None:
    at_row, at_col = draw(generator, 300, HEADS), draw(generator, 300, HEADS)
    actual = edge_scores(adj, at_row, at_col)
    dense = at_row.mT[:, :, None] + at_col.mT[:, None, :]
    expected = dense[:, adj.row_index, adj.col].mT
    torch.testing.assert_close(actual, expected)
    for ours, theirs in zip(
        grads_of(actual, at_row, at_col), grads_of(expected, at_row, at_col), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_softmax_and_gradient_are_those_of_the_dense_rows(
    adj: SparseOperator, generator: torch.Generator
) -> None:
    scores = draw(generator, len(adj.col), HEADS)
    actual = edge_softmax(adj, scores)
    dense = torch.softmax(spread(adj, scores, fill=-torch.inf), dim=-1)
    expected = dense[:, adj.row_index, adj.col].mT
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(grads_of(actual, scores), grads_of(expected, scores))


def test_sum_and_gradients_are_those_of_the_dense_products(
    adj: SparseOperator, generator: torch.Generator
) -> None:
    weights, h = draw(generator, len(adj.col), HEADS), draw(generator, 300, HEADS, DIM)
    actual = attention_sum(adj, weights, h)
    expected = torch.einsum("kij,jkd->ikd", spread(adj, weights), h)
    torch.testing.assert_close(actual, expected)
    for ours, theirs in zip(
        grads_of(actual, weights, h), grads_of(expected, weights, h), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("pattern", ["tiny", "one_way"])
def test_gradients_are_the_slopes_of_small_steps(
    pattern: str, request: pytest.FixtureRequest, generator: torch.Generator
) -> None:
    adj: SparseOperator = request.getfixturevalue(pattern)
    n, nnz = adj.num_nodes, len(adj.col)
    check: Any = torch.autograd.gradcheck
    nodes = draw(generator, n, 2), draw(generator, n, 2)
    assert check(lambda *parts: edge_scores(adj, *parts), nodes)
    assert check(lambda scores: edge_softmax(adj, scores), draw(generator, nnz, 2))
    arguments = draw(generator, nnz, 2), draw(generator, n, 2, 3)
    assert check(lambda *parts: attention_sum(adj, *parts), arguments)


@pytest.mark.parametrize("needed", [0, 1])
def test_a_gradient_for_one_argument_alone_is_the_same(
    tiny: SparseOperator, generator: torch.Generator, needed: int
) -> None:
    both = [draw(generator, len(tiny.col), 2), draw(generator, 6, 2, 3)]
    one = [value.detach().requires_grad_(place == needed) for place, value in enumerate(both)]
    expected = grads_of(attention_sum(tiny, *both), *both)[needed]
    (actual,) = grads_of(attention_sum(tiny, *one), one[needed])
    assert torch.equal(actual, expected)


def test_gradients_of_transposed_layout_are_taken(
    tiny: SparseOperator, generator: torch.Generator
) -> None:
    weights, h = draw(generator, len(tiny.col), 2), draw(generator, 6, 2, 3)
    slopes = torch.randn(3, 2, 6, generator=generator, dtype=torch.float64).permute(2, 1, 0)
    out = attention_sum(tiny, weights, h)
    strided = torch.autograd.grad(out, (weights, h), slopes, retain_graph=True)
    packed = torch.autograd.grad(out, (weights, h), slopes.contiguous())
    assert all(torch.equal(a, b) for a, b in zip(strided, packed, strict=True))


def test_arguments_of_transposed_layout_are_taken(
    tiny: SparseOperator, generator: torch.Generator
) -> None:
    scores = torch.randn(2, len(tiny.col), generator=generator).mT
    h = torch.randn(3, 2, 6, generator=generator).permute(2, 1, 0)
    assert torch.equal(edge_softmax(tiny, scores), edge_softmax(tiny, scores.contiguous()))
    expected = attention_sum(tiny, scores.contiguous(), h.contiguous())
    assert torch.equal(attention_sum(tiny, scores, h), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [-1e4, 1e4])
def test_softmax_stands_scores_far_from_zero(
    adj: SparseOperator, generator: torch.Generator, level: float, dtype: torch.dtype
) -> None:
    # Multiples of 1/8 stay exact in float32 next to 1e4, so the shift alone is seen.
    steps = torch.randint(-16, 16, (len(adj.col), 2), generator=generator).to(dtype) / 8
    scores = (steps + level).requires_grad_()
    weights = edge_softmax(adj, scores)
    torch.testing.assert_close(weights, edge_softmax(adj, steps))
    assert torch.isfinite(torch.cat(grads_of(weights, scores))).all()


def test_the_maximum_is_that_of_the_row_not_of_the_graph(tiny: SparseOperator) -> None:
    # One row far above all others: a maximum over the graph would leave them 0 / 0.
    scores = torch.where(tiny.row_index == 3, 1e4, -1e4)[:, None]
    degree = torch.bincount(tiny.row_index)
    expected = (1.0 / degree)[tiny.row_index][:, None]
    torch.testing.assert_close(edge_softmax(tiny, scores), expected)


def test_scores_wide_apart_in_a_row_give_zero_and_one(tiny: SparseOperator) -> None:
    scores = torch.where(tiny.row_index == tiny.col, 1e4, -1e4)[:, None]
    assert torch.equal(edge_softmax(tiny, scores)[:, 0], (tiny.row_index == tiny.col).float())


def test_the_weights_of_a_row_sum_to_one(adj: SparseOperator, generator: torch.Generator) -> None:
    weights = edge_softmax(adj, draw(generator, len(adj.col), HEADS).detach())
    assert (weights > 0).all()
    total = spread(adj, weights).sum(dim=-1)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_a_node_alone_gives_all_weight_to_itself(
    tiny: SparseOperator, generator: torch.Generator
) -> None:
    weights = edge_softmax(tiny, draw(generator, len(tiny.col), 2).detach())
    alone = tiny.row_index == 5
    assert int(alone.sum()) == 1
    assert torch.equal(weights[alone], torch.ones(1, 2, dtype=torch.float64))
    h = draw(generator, 6, 2, 3)
    assert torch.equal(attention_sum(tiny, weights, h)[5], h[5])


def test_a_row_without_entries_sums_to_zero(
    one_way: SparseOperator, generator: torch.Generator
) -> None:
    weights = edge_softmax(one_way, draw(generator, 6, 2))
    assert torch.isfinite(weights).all()
    out = attention_sum(one_way, weights, draw(generator, 4, 2, 3))
    assert torch.equal(out[2], torch.zeros(2, 3, dtype=torch.float64))


def test_bits_do_not_depend_on_the_number_of_threads(generator: torch.Generator) -> None:
    num_nodes = 4000  # a small graph is left to one thread
    col = torch.arange(num_nodes)[:, None] + 150 * torch.arange(-10, 11)
    crow, col = torch.arange(0, 21 * num_nodes + 1, 21), col.remainder(num_nodes)
    ones = torch.ones(21 * num_nodes)
    adj = operator(csr_tensor(crow, col.sort(dim=1).values.flatten(), ones, num_nodes))
    scores = draw(generator, len(adj.col), 8).float().detach().requires_grad_()
    h = draw(generator, num_nodes, 8, 8).float().detach().requires_grad_()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out = attention_sum(adj, edge_softmax(adj, scores), h)
        results.append((out, *grads_of(out, scores, h)))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_arguments_are_left_as_they_were(adj: SparseOperator, generator: torch.Generator) -> None:
    scores, h = draw(generator, len(adj.col), 2), draw(generator, 300, 2, 3)
    before = scores.detach().clone(), h.detach().clone()
    weights = edge_softmax(adj, scores)
    kept = weights.detach().clone()
    grads_of(attention_sum(adj, weights, h), scores, h)
    assert torch.equal(scores, before[0])
    assert torch.equal(h, before[1])
    assert torch.equal(weights, kept)


def test_a_second_derivative_is_refused(tiny: SparseOperator, generator: torch.Generator) -> None:
    scores = draw(generator, len(tiny.col), 1)
    total = edge_softmax(tiny, scores).square().sum()
    (grad,) = torch.autograd.grad(total, scores, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("shape", [(15, 2), (16,), (16, 2, 1)])
def test_values_must_be_one_per_stored_entry_and_head(
    tiny: SparseOperator, shape: tuple[int, ...]
) -> None:
    fact = re.escape(f"nnz=16 (stored entries), got {shape}")
    with pytest.raises(ValueError, match=f"`scores`.*{fact}"):
        edge_softmax(tiny, torch.zeros(shape))
    with pytest.raises(ValueError, match=f"`weights`.*{fact}"):
        attention_sum(tiny, torch.zeros(shape), torch.zeros(6, 2, 3))


def test_rows_must_be_one_per_node_and_head(tiny: SparseOperator) -> None:
    for shape in ((5, 2, 3), (6, 3, 3), (6, 2)):
        with pytest.raises(ValueError, match=rf"`h`.*N=6 and H=2.*got {re.escape(str(shape))}"):
            attention_sum(tiny, torch.zeros(16, 2), torch.zeros(shape))
    right = torch.zeros(6, 2)
    for wrong in (torch.zeros(5, 2), torch.zeros(6)):
        for name, rows in (("at_row", (wrong, right)), ("at_col", (right, wrong))):
            with pytest.raises(ValueError, match=f"`{name}`.*N=6"):
                edge_scores(tiny, *rows)
    with pytest.raises(ValueError, match="got 2 and 1"):
        edge_scores(tiny, right, torch.zeros(6, 1))
