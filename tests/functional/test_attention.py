from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import attention_sum, edge_scores, edge_softmax
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.csr import csr_tensor
from pamt_lightning.kernels.operator import SparseOperator
from tests.matrices import operator

HEADS, DIM = 3, 5


@pytest.fixture(params=["both ways", "one way"])
def adj(small_graph: Graph, request: pytest.FixtureRequest) -> SparseOperator:
    """A symmetric graph with self-loops, or one without symmetry and with an empty row."""
    if request.param == "both ways":
        return operator(small_graph.adjacency).add_identity()
    crow, col = torch.tensor([0, 3, 5, 5, 6]), torch.tensor([0, 1, 3, 0, 2, 3])
    return operator(csr_tensor(crow, col, torch.ones(6), 4))


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def spread(adj: SparseOperator, values: Tensor, fill: float = 0.0) -> Tensor:
    """Values of the stored entries ``[nnz, H]`` as dense matrices ``[H, N, N]``."""
    n = adj.num_nodes
    dense = torch.full((values.shape[1], n, n), fill, dtype=values.dtype)
    return dense.index_put((torch.arange(len(dense))[:, None], adj.row_index, adj.col), values.mT)


def assert_same_with_gradients(actual: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    torch.testing.assert_close(actual, expected)
    slopes = torch.linspace(-1, 1, actual.numel(), dtype=actual.dtype).reshape(actual.shape)
    grads = [torch.autograd.grad((out * slopes).sum(), inputs) for out in (actual, expected)]
    torch.testing.assert_close(*grads)


def test_scores_and_gradients_are_those_of_the_dense_sums(adj: SparseOperator) -> None:
    at_row, at_col = draw(adj.num_nodes, HEADS), draw(adj.num_nodes, HEADS)
    dense = at_row.mT[:, :, None] + at_col.mT[:, None, :]
    expected = dense[:, adj.row_index, adj.col].mT
    assert_same_with_gradients(edge_scores(adj, at_row, at_col), expected, at_row, at_col)


def test_softmax_and_gradient_are_those_of_the_dense_rows(adj: SparseOperator) -> None:
    scores = draw(len(adj.col), HEADS)
    dense = torch.softmax(spread(adj, scores, fill=-torch.inf), dim=-1)
    expected = dense[:, adj.row_index, adj.col].mT
    assert_same_with_gradients(edge_softmax(adj, scores), expected, scores)


def test_sum_and_gradients_are_those_of_the_dense_products(adj: SparseOperator) -> None:
    weights, h = draw(len(adj.col), HEADS), draw(adj.num_nodes, HEADS, DIM)
    expected = torch.einsum("kij,jkd->ikd", spread(adj, weights), h)
    assert_same_with_gradients(attention_sum(adj, weights, h), expected, weights, h)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [-1e4, 1e4])
def test_softmax_stands_huge_scores(adj: SparseOperator, level: float, dtype: torch.dtype) -> None:
    # Multiples of 1/8 stay exact in float32 next to 1e4, so the shift alone is seen.
    steps = torch.randint(-16, 16, (len(adj.col), 2)).to(dtype) / 8
    scores = (steps + level).requires_grad_()
    weights = edge_softmax(adj, scores)
    torch.testing.assert_close(weights, edge_softmax(adj, steps))
    (grad,) = torch.autograd.grad(weights.square().sum(), scores)
    assert torch.isfinite(grad).all()


def test_the_maximum_is_that_of_the_row_not_of_the_graph(six_nodes: Graph) -> None:
    tiny = operator(six_nodes.adjacency).add_identity()
    # One row far above all others: a maximum over the graph would leave them 0 / 0.
    scores = torch.where(tiny.row_index == 3, 1e4, -1e4)[:, None]
    degree = torch.bincount(tiny.row_index)
    expected = (1.0 / degree)[tiny.row_index][:, None]
    torch.testing.assert_close(edge_softmax(tiny, scores), expected)
