from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import add_self_loops
from pamt_lightning.functional.attention import (
    Neighbourhood,
    attention_sum,
    edge_scores,
    edge_softmax,
)
from pamt_lightning.graph import Graph

HEADS, DIM = 3, 5


@pytest.fixture
def hood(small_graph: Graph) -> Neighbourhood:
    return Neighbourhood.from_adjacency(add_self_loops(small_graph.adjacency))


@pytest.fixture
def tiny(six_nodes: Graph) -> Neighbourhood:
    return Neighbourhood.from_adjacency(add_self_loops(six_nodes.adjacency))


@pytest.fixture
def one_way() -> Neighbourhood:
    """Edges in one direction and an empty row."""
    crow, col = torch.tensor([0, 3, 5, 5, 6]), torch.tensor([0, 1, 3, 0, 2, 3])
    return Neighbourhood.from_adjacency(csr(crow, col, torch.ones(6)))


def csr(crow: Tensor, col: Tensor, values: Tensor) -> Tensor:
    size = (len(crow) - 1, len(crow) - 1)
    return torch.sparse_csr_tensor(crow, col, values, size, check_invariants=True)


def draw(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


def spread(hood: Neighbourhood, values: Tensor, fill: float = 0.0) -> Tensor:
    """Values of the stored entries ``[nnz, H]`` as dense matrices ``[H, N, N]``."""
    n = hood.num_nodes
    dense = torch.full((values.shape[1], n, n), fill, dtype=values.dtype)
    return dense.index_put((torch.arange(len(dense))[:, None], hood.row, hood.col), values.mT)


def grads_of(out: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    slopes = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    return torch.autograd.grad((out * slopes).sum(), inputs)


def test_the_transpose_of_the_pattern_is_that_of_the_dense_matrix(one_way: Neighbourhood) -> None:
    values = torch.arange(1.0, 7.0)
    dense = spread(one_way, values[:, None])[0]
    transpose = csr(one_way.t_crow, one_way.t_col, values[one_way.t_order])
    assert torch.equal(transpose.to_dense(), dense.mT)


def test_a_symmetric_pattern_is_its_own_transpose(hood: Neighbourhood) -> None:
    assert torch.equal(hood.t_crow, hood.crow)
    assert torch.equal(hood.t_col, hood.col)
    assert torch.equal(hood.t_order[hood.t_order], hood.entries)


def test_index_arrays_keep_the_index_type(hood: Neighbourhood, one_way: Neighbourhood) -> None:
    assert hood.t_order.dtype == hood.entries.dtype == hood.t_crow.dtype == torch.int32
    assert one_way.t_order.dtype == one_way.entries.dtype == one_way.t_crow.dtype == torch.int64


def test_scores_and_gradients_are_those_of_the_dense_sums(
    hood: Neighbourhood, generator: torch.Generator
) -> None:
    at_row, at_col = draw(generator, 300, HEADS), draw(generator, 300, HEADS)
    actual = edge_scores(hood, at_row, at_col)
    dense = at_row.mT[:, :, None] + at_col.mT[:, None, :]
    expected = dense[:, hood.row, hood.col].mT
    torch.testing.assert_close(actual, expected)
    for ours, theirs in zip(
        grads_of(actual, at_row, at_col), grads_of(expected, at_row, at_col), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_softmax_and_gradient_are_those_of_the_dense_rows(
    hood: Neighbourhood, generator: torch.Generator
) -> None:
    scores = draw(generator, hood.num_entries, HEADS)
    actual = edge_softmax(hood, scores)
    dense = torch.softmax(spread(hood, scores, fill=-torch.inf), dim=-1)
    expected = dense[:, hood.row, hood.col].mT
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(grads_of(actual, scores), grads_of(expected, scores))


def test_sum_and_gradients_are_those_of_the_dense_products(
    hood: Neighbourhood, generator: torch.Generator
) -> None:
    weights, h = draw(generator, hood.num_entries, HEADS), draw(generator, 300, HEADS, DIM)
    actual = attention_sum(hood, weights, h)
    expected = torch.einsum("kij,jkd->ikd", spread(hood, weights), h)
    torch.testing.assert_close(actual, expected)
    for ours, theirs in zip(
        grads_of(actual, weights, h), grads_of(expected, weights, h), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("pattern", ["tiny", "one_way"])
def test_gradients_are_the_slopes_of_small_steps(
    pattern: str, request: pytest.FixtureRequest, generator: torch.Generator
) -> None:
    hood: Neighbourhood = request.getfixturevalue(pattern)
    n, nnz = hood.num_nodes, hood.num_entries
    check: Any = torch.autograd.gradcheck
    nodes = draw(generator, n, 2), draw(generator, n, 2)
    assert check(lambda *parts: edge_scores(hood, *parts), nodes)
    assert check(lambda scores: edge_softmax(hood, scores), draw(generator, nnz, 2))
    arguments = draw(generator, nnz, 2), draw(generator, n, 2, 3)
    assert check(lambda *parts: attention_sum(hood, *parts), arguments)


@pytest.mark.parametrize("needed", [0, 1])
def test_a_gradient_for_one_argument_alone_is_the_same(
    tiny: Neighbourhood, generator: torch.Generator, needed: int
) -> None:
    both = [draw(generator, tiny.num_entries, 2), draw(generator, 6, 2, 3)]
    one = [value.detach().requires_grad_(place == needed) for place, value in enumerate(both)]
    expected = grads_of(attention_sum(tiny, *both), *both)[needed]
    (actual,) = grads_of(attention_sum(tiny, *one), one[needed])
    assert torch.equal(actual, expected)


def test_gradients_of_transposed_layout_are_taken(
    tiny: Neighbourhood, generator: torch.Generator
) -> None:
    weights, h = draw(generator, tiny.num_entries, 2), draw(generator, 6, 2, 3)
    slopes = torch.randn(3, 2, 6, generator=generator, dtype=torch.float64).permute(2, 1, 0)
    out = attention_sum(tiny, weights, h)
    strided = torch.autograd.grad(out, (weights, h), slopes, retain_graph=True)
    packed = torch.autograd.grad(out, (weights, h), slopes.contiguous())
    assert all(torch.equal(a, b) for a, b in zip(strided, packed, strict=True))


def test_arguments_of_transposed_layout_are_taken(
    tiny: Neighbourhood, generator: torch.Generator
) -> None:
    scores = torch.randn(2, tiny.num_entries, generator=generator).mT
    h = torch.randn(3, 2, 6, generator=generator).permute(2, 1, 0)
    assert torch.equal(edge_softmax(tiny, scores), edge_softmax(tiny, scores.contiguous()))
    expected = attention_sum(tiny, scores.contiguous(), h.contiguous())
    assert torch.equal(attention_sum(tiny, scores, h), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [-1e4, 1e4])
def test_softmax_stands_scores_far_from_zero(
    hood: Neighbourhood, generator: torch.Generator, level: float, dtype: torch.dtype
) -> None:
    # Multiples of 1/8 stay exact in float32 next to 1e4, so the shift alone is seen.
    steps = torch.randint(-16, 16, (hood.num_entries, 2), generator=generator).to(dtype) / 8
    scores = (steps + level).requires_grad_()
    weights = edge_softmax(hood, scores)
    torch.testing.assert_close(weights, edge_softmax(hood, steps))
    assert torch.isfinite(torch.cat(grads_of(weights, scores))).all()


def test_the_maximum_is_that_of_the_row_not_of_the_graph(tiny: Neighbourhood) -> None:
    # One row far above all others: a maximum over the graph would leave them 0 / 0.
    scores = torch.where(tiny.row == 3, 1e4, -1e4)[:, None]
    degree = torch.bincount(tiny.row)
    expected = (1.0 / degree)[tiny.row][:, None]
    torch.testing.assert_close(edge_softmax(tiny, scores), expected)


def test_scores_wide_apart_in_a_row_give_zero_and_one(tiny: Neighbourhood) -> None:
    scores = torch.where(tiny.row == tiny.col, 1e4, -1e4)[:, None]
    assert torch.equal(edge_softmax(tiny, scores)[:, 0], (tiny.row == tiny.col).float())


def test_the_weights_of_a_row_sum_to_one(hood: Neighbourhood, generator: torch.Generator) -> None:
    weights = edge_softmax(hood, draw(generator, hood.num_entries, HEADS).detach())
    assert (weights > 0).all()
    total = spread(hood, weights).sum(dim=-1)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_a_node_alone_gives_all_weight_to_itself(
    tiny: Neighbourhood, generator: torch.Generator
) -> None:
    weights = edge_softmax(tiny, draw(generator, tiny.num_entries, 2).detach())
    alone = tiny.row == 5
    assert int(alone.sum()) == 1
    assert torch.equal(weights[alone], torch.ones(1, 2, dtype=torch.float64))
    h = draw(generator, 6, 2, 3)
    assert torch.equal(attention_sum(tiny, weights, h)[5], h[5])


def test_a_row_without_entries_sums_to_zero(
    one_way: Neighbourhood, generator: torch.Generator
) -> None:
    weights = edge_softmax(one_way, draw(generator, 6, 2))
    assert torch.isfinite(weights).all()
    out = attention_sum(one_way, weights, draw(generator, 4, 2, 3))
    assert torch.equal(out[2], torch.zeros(2, 3, dtype=torch.float64))


def test_the_values_of_the_matrix_play_no_part(six_nodes: Graph) -> None:
    adj = add_self_loops(six_nodes.adjacency)
    strange = csr(adj.crow_indices(), adj.col_indices(), torch.full((16,), torch.nan))
    results = []
    for matrix in (adj, strange):
        hood = Neighbourhood.from_adjacency(matrix)
        scores = torch.linspace(-1, 1, 16)[:, None].requires_grad_()
        out = attention_sum(hood, edge_softmax(hood, scores), torch.arange(6.0)[:, None, None])
        results.append((out, *grads_of(out, scores)))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_bits_do_not_depend_on_the_number_of_threads(generator: torch.Generator) -> None:
    num_nodes = 4000  # a small graph is left to one thread
    col = torch.arange(num_nodes)[:, None] + 150 * torch.arange(-10, 11)
    adj = csr(
        torch.arange(0, 21 * num_nodes + 1, 21),
        col.remainder(num_nodes).sort(dim=1).values.flatten(),
        torch.ones(21 * num_nodes),
    )
    hood = Neighbourhood.from_adjacency(adj)
    scores = draw(generator, hood.num_entries, 8).float().detach().requires_grad_()
    h = draw(generator, num_nodes, 8, 8).float().detach().requires_grad_()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out = attention_sum(hood, edge_softmax(hood, scores), h)
        results.append((out, *grads_of(out, scores, h)))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_arguments_are_left_as_they_were(hood: Neighbourhood, generator: torch.Generator) -> None:
    scores, h = draw(generator, hood.num_entries, 2), draw(generator, 300, 2, 3)
    before = scores.detach().clone(), h.detach().clone()
    weights = edge_softmax(hood, scores)
    kept = weights.detach().clone()
    grads_of(attention_sum(hood, weights, h), scores, h)
    assert torch.equal(scores, before[0])
    assert torch.equal(h, before[1])
    assert torch.equal(weights, kept)


def test_a_second_derivative_is_refused(tiny: Neighbourhood, generator: torch.Generator) -> None:
    scores = draw(generator, tiny.num_entries, 1)
    total = edge_softmax(tiny, scores).square().sum()
    (grad,) = torch.autograd.grad(total, scores, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()  # type: ignore[no-untyped-call]


def test_other_layouts_are_refused() -> None:
    with pytest.raises(ValueError, match="`adj` must be a square sparse CSR tensor"):
        Neighbourhood.from_adjacency(torch.eye(3))


@pytest.mark.parametrize("shape", [(15, 2), (16,), (16, 2, 1)])
def test_values_must_be_one_per_stored_entry_and_head(
    tiny: Neighbourhood, shape: tuple[int, ...]
) -> None:
    message = f"must be [nnz, H] with nnz=16 (stored entries), got {shape}."
    with pytest.raises(ValueError, match=re.escape(f"`scores` {message}")):
        edge_softmax(tiny, torch.zeros(shape))
    with pytest.raises(ValueError, match=re.escape(f"`weights` {message}")):
        attention_sum(tiny, torch.zeros(shape), torch.zeros(6, 2, 3))


@pytest.mark.parametrize("shape", [(5, 2, 3), (6, 3, 3), (6, 2)])
def test_rows_must_be_one_per_node_and_head(tiny: Neighbourhood, shape: tuple[int, ...]) -> None:
    message = f"`h` must be [N, H, D] with N=6 and H=2 (columns of `weights`), got {shape}."
    with pytest.raises(ValueError, match=re.escape(message)):
        attention_sum(tiny, torch.zeros(16, 2), torch.zeros(shape))


@pytest.mark.parametrize("name", ["at_row", "at_col"])
@pytest.mark.parametrize("shape", [(5, 2), (6,)])
def test_node_scores_must_be_one_per_node(
    tiny: Neighbourhood, name: str, shape: tuple[int, ...]
) -> None:
    arguments = {"at_row": torch.zeros(6, 2), "at_col": torch.zeros(6, 2)}
    arguments[name] = torch.zeros(shape)
    with pytest.raises(
        ValueError, match=re.escape(f"`{name}` must be [N, H] with N=6, got {shape}.")
    ):
        edge_scores(tiny, **arguments)


def test_node_scores_must_have_the_same_number_of_heads(tiny: Neighbourhood) -> None:
    with pytest.raises(ValueError, match="the same number of heads, got 2 and 1"):
        edge_scores(tiny, torch.zeros(6, 2), torch.zeros(6, 1))
