from __future__ import annotations

import re
from importlib import import_module

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import (
    mask_adjacency,
    one_hot_rows,
    propagate,
    propagate_labels,
    smooth,
)
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.operator import SparseOperator
from tests.matrices import normalized, operator

FloatArray = npt.NDArray[np.float64]


@pytest.fixture
def adj_mask(adj_norm: SparseOperator, generator: torch.Generator) -> SparseOperator:
    logits = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    return mask_adjacency(adj_norm, torch.softmax(logits, dim=1))


@pytest.fixture
def y0(small_graph: Graph) -> Tensor:
    assert small_graph.train_index is not None
    return one_hot_rows(small_graph.y, small_graph.train_index, 4, torch.float64)


def naive(
    adj: FloatArray, start: FloatArray, steps: int, alpha: float, reset: list[int]
) -> FloatArray:
    """Every number by itself, as the equation is read aloud."""
    y = start.copy()
    for _ in range(steps):
        new = np.zeros_like(y)
        for i in range(len(y)):
            for k in range(y.shape[1]):
                neighbours = sum(adj[i, j] * y[j, k] for j in range(len(y)))
                new[i, k] = (1 - alpha) * neighbours + alpha * start[i, k]
        for i in reset:
            new[i] = start[i]
        y = new
    return y


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("reset", [[], [0, 3]])
def test_propagation_is_the_naive_loop_and_resets_labelled_rows_at_every_step(
    six_nodes: Graph, steps: int, reset: list[int]
) -> None:
    adj = normalized(six_nodes)
    start = one_hot_rows(six_nodes.y, torch.tensor([0, 3]), 2, torch.float64)
    index = torch.tensor(reset, dtype=torch.int64) if reset else None
    actual = propagate(adj, start, num_steps=steps, alpha=0.15, reset_index=index)
    expected = naive(adj.to_dense().numpy(), start.numpy(), steps, 0.15, reset)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-15)


def test_resetting_at_every_step_differs_from_resetting_at_the_end(
    adj_norm: SparseOperator, y0: Tensor, small_graph: Graph
) -> None:
    index = small_graph.train_index
    assert index is not None
    each = propagate(adj_norm, y0, num_steps=5, alpha=0.1, reset_index=index)
    once = propagate(adj_norm, y0, num_steps=5, alpha=0.1)
    once[index] = y0[index]
    assert torch.equal(each[index], y0[index])
    assert not torch.allclose(each, once, atol=1e-3)


@pytest.mark.parametrize("steps", [1, 3, 10])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("which", ["structure", "mask"])
def test_propagation_is_the_matrix_polynomial_of_equation_9(
    adj_norm: SparseOperator,
    adj_mask: SparseOperator,
    y0: Tensor,
    which: str,
    alpha: float,
    steps: int,
) -> None:
    adj = adj_norm if which == "structure" else adj_mask
    dense = adj.to_dense().numpy()
    power = np.linalg.matrix_power
    polynomial = (1 - alpha) ** steps * power(dense, steps)
    for k in range(steps):
        polynomial = polynomial + alpha * (1 - alpha) ** k * power(dense, k)
    actual = propagate(adj, y0, num_steps=steps, alpha=alpha)
    np.testing.assert_allclose(actual.numpy(), polynomial @ y0.numpy(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_long_propagation_reaches_the_closed_form(
    adj_norm: SparseOperator, y0: Tensor, alpha: float
) -> None:
    eye = torch.eye(300, dtype=torch.float64)
    expected = alpha * torch.linalg.solve(eye - (1 - alpha) * adj_norm.to_dense(), y0)
    actual = propagate(adj_norm, y0, num_steps=400, alpha=alpha)
    torch.testing.assert_close(actual, expected)  # 0.9 ** 400 < 1e-18: nothing is cut off


def test_long_propagation_with_reset_reaches_the_harmonic_closed_form(
    adj_norm: SparseOperator, y0: Tensor, small_graph: Graph
) -> None:
    # Labelled rows are constants, so the others solve a linear system of their own.
    assert small_graph.train_index is not None
    known = small_graph.train_index.numpy()
    free = np.setdiff1d(np.arange(300), known)
    dense, start = 0.9 * adj_norm.to_dense().numpy(), y0.numpy()
    right = dense[np.ix_(free, known)] @ start[known]
    solved = np.linalg.solve(np.eye(len(free)) - dense[np.ix_(free, free)], right)
    actual = propagate(
        adj_norm, y0, num_steps=400, alpha=0.1, reset_index=small_graph.train_index
    ).numpy()
    np.testing.assert_allclose(actual[free], solved, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(actual[known], start[known])


def test_long_propagation_is_label_spreading_of_scikit_learn(small_graph: Graph) -> None:
    # Their alpha is the weight of the neighbours, ours that of the start, which they also leave out
    # of the kernel's diagonal; a kernel A gives them D^-1/2 A D^-1/2 without self-loops.
    semi_supervised = import_module("sklearn.semi_supervised")
    assert small_graph.train_index is not None
    kernel = small_graph.adjacency.to_dense().double().numpy()
    degree = kernel.sum(axis=1)
    kept = np.flatnonzero(degree > 0)
    kernel, degree = kernel[np.ix_(kept, kept)], degree[kept]
    index = torch.from_numpy(np.flatnonzero(np.isin(kept, small_graph.train_index.numpy())))
    labels = small_graph.y[torch.from_numpy(kept)]
    known = np.full(len(kept), -1)
    known[index.numpy()] = labels[index].numpy()
    model = semi_supervised.LabelSpreading(
        kernel=lambda *_: kernel, alpha=0.8, max_iter=1000, tol=1e-12
    )
    oracle = model.fit(np.arange(len(kept))[:, None], known).label_distributions_

    adj = operator(torch.from_numpy(kernel / np.sqrt(degree[:, None] * degree[None, :])))
    start = one_hot_rows(labels, index, 4, torch.float64)
    soft_labels = propagate(adj, start, num_steps=500, alpha=0.2).numpy()
    mass = soft_labels.sum(axis=1, keepdims=True)
    reached = mass[:, 0] > 1e-9
    assert reached.mean() > 0.9
    np.testing.assert_allclose((soft_labels / mass)[reached], oracle[reached], atol=1e-7)


def test_alpha_one_ignores_the_graph(adj_norm: SparseOperator, y0: Tensor) -> None:
    assert torch.equal(propagate(adj_norm, y0, num_steps=7, alpha=1.0), y0)


def test_no_steps_return_the_start(adj_norm: SparseOperator, y0: Tensor) -> None:
    assert torch.equal(propagate(adj_norm, y0, num_steps=0, alpha=0.1), y0)


def test_the_start_is_not_modified(adj_norm: SparseOperator, y0: Tensor) -> None:
    before = y0.clone()
    propagate(adj_norm, y0, num_steps=3, alpha=0.1, reset_index=torch.arange(5))
    assert torch.equal(y0, before)


def test_an_unmasked_mask_propagates_as_the_structure_does(
    adj_norm: SparseOperator, y0: Tensor
) -> None:
    one_hot = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(300, 1)
    options = {"num_steps": 10, "alpha": 0.1}
    expected = propagate(adj_norm, y0, **options)  # type: ignore[arg-type]
    for masked in (mask_adjacency(adj_norm, one_hot), mask_adjacency(adj_norm, y0, floor=1.0)):
        assert torch.equal(propagate(masked, y0, **options), expected)  # type: ignore[arg-type]


def test_dense_and_csr_matrices_give_the_same(adj_norm: SparseOperator, y0: Tensor) -> None:
    index = torch.arange(10)
    dense = propagate(adj_norm.to_dense(), y0, num_steps=10, alpha=0.1, reset_index=index)
    sparse = propagate(adj_norm, y0, num_steps=10, alpha=0.1, reset_index=index)
    torch.testing.assert_close(dense, sparse, rtol=0, atol=1e-14)


def test_float32_is_close_to_float64(
    small_graph: Graph, adj_norm: SparseOperator, y0: Tensor
) -> None:
    single = normalized(small_graph, torch.float32)
    actual = propagate(single, y0.float(), num_steps=10, alpha=0.1)
    assert actual.dtype == torch.float32
    expected = propagate(adj_norm, y0, num_steps=10, alpha=0.1)
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=1e-6)


def test_propagation_commutes_with_renaming_nodes(
    adj_norm: SparseOperator, y0: Tensor, generator: torch.Generator
) -> None:
    order = torch.randperm(300, generator=generator)
    renamed = operator(adj_norm.to_dense()[order][:, order])
    new_name = torch.argsort(order)
    reset = torch.arange(20)
    expected = propagate(adj_norm, y0, num_steps=10, alpha=0.1, reset_index=reset)[order]
    actual = propagate(renamed, y0[order], num_steps=10, alpha=0.1, reset_index=new_name[reset])
    torch.testing.assert_close(actual, expected)


def test_propagation_commutes_with_renaming_classes(adj_norm: SparseOperator, y0: Tensor) -> None:
    order = torch.tensor([2, 0, 3, 1])
    expected = propagate(adj_norm, y0, num_steps=5, alpha=0.1)[:, order]
    torch.testing.assert_close(propagate(adj_norm, y0[:, order], num_steps=5, alpha=0.1), expected)


def test_a_transposed_start_gives_the_same(adj_norm: SparseOperator, y0: Tensor) -> None:
    strided = y0.T.contiguous().T
    assert not strided.is_contiguous()
    expected = propagate(adj_norm, y0, num_steps=3, alpha=0.1)
    torch.testing.assert_close(propagate(adj_norm, strided, num_steps=3, alpha=0.1), expected)


def test_an_isolated_node_keeps_its_row(six_nodes: Graph) -> None:
    adj = normalized(six_nodes, torch.float32)
    start = torch.zeros(6, 2)
    start[5, 1] = 1.0
    actual = propagate(adj, start, num_steps=10, alpha=0.1)
    torch.testing.assert_close(actual, start)


def test_no_stored_entries_leave_only_the_restart() -> None:
    start = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    actual = propagate(operator(torch.zeros(3, 3)), start, num_steps=4, alpha=0.25)
    assert torch.equal(actual, 0.25 * start)


def test_gradients_flow_back_to_the_start(six_nodes: Graph) -> None:
    adj = normalized(six_nodes)
    start = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    propagate(adj, start, num_steps=3, alpha=0.1).sum().backward()  # type: ignore[no-untyped-call]
    ones = torch.ones(6, 2, dtype=torch.float64)
    expected = propagate(adj, ones, num_steps=3, alpha=0.1)  # the matrix is symmetric
    torch.testing.assert_close(start.grad, expected)


@pytest.mark.parametrize(("num_steps", "alpha"), [(0, 0.1), (1, 0.3), (4, 0.0), (10, 0.1), (3, 1)])
def test_smoothing_is_propagation_with_the_gradient_of_autograd(
    adj_norm: SparseOperator, num_steps: int, alpha: float, generator: torch.Generator
) -> None:
    h = torch.randn(300, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    actual = smooth(adj_norm, h, num_steps=num_steps, alpha=alpha)
    assert torch.equal(actual, propagate(adj_norm, h.detach(), num_steps=num_steps, alpha=alpha))
    expected = propagate(adj_norm.to_dense(), h, num_steps=num_steps, alpha=alpha)
    grads = [torch.autograd.grad((out**2).sum(), h)[0] for out in (actual, expected)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_alpha_must_lie_in_its_range(adj_norm: SparseOperator, y0: Tensor, alpha: float) -> None:
    message = f"`alpha` is a teleport weight and must lie in [0, 1], got {alpha}."
    with pytest.raises(ValueError, match=re.escape(message)):
        propagate(adj_norm, y0, num_steps=1, alpha=alpha)


def test_the_number_of_steps_must_not_be_negative(adj_norm: SparseOperator, y0: Tensor) -> None:
    with pytest.raises(ValueError, match=re.escape("`num_steps` must be 0 or more, got -1.")):
        propagate(adj_norm, y0, num_steps=-1, alpha=0.1)


@pytest.mark.parametrize("shape", [(), (300,), (300, 4, 1)])
def test_the_start_must_be_a_matrix(adj_norm: SparseOperator, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=re.escape(f"`y0` must be [N, C], got {shape}.")):
        propagate(adj_norm, torch.ones(shape), num_steps=1, alpha=0.1)


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
def test_the_matrix_must_fit_the_start(shape: tuple[int, int]) -> None:
    message = f"`adj` must be [N, N] with N=4 (rows of `y0`), got {shape}."
    with pytest.raises(ValueError, match=re.escape(message)):
        propagate(torch.ones(shape), torch.ones(4, 2), num_steps=1, alpha=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_hot_rows_are_at_the_index_and_zeros_elsewhere(dtype: torch.dtype) -> None:
    # Labels outside the index may be anything: they must not be read.
    labels = torch.tensor([2, 99, 0, -1, 1])
    y0 = one_hot_rows(labels, torch.tensor([4, 0]), 3, dtype)
    assert y0.dtype == dtype
    assert y0.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_no_labelled_nodes_give_zeros() -> None:
    empty = torch.tensor([], dtype=torch.int64)
    assert one_hot_rows(torch.tensor([0, 1]), empty, 2, torch.float32).abs().sum() == 0


@pytest.mark.parametrize(("index", "got"), [([1, 2], "-1 to 0"), ([0, 2], "0 to 3")])
def test_labels_at_the_index_must_be_classes(index: list[int], got: str) -> None:
    labels = torch.tensor([3, -1, 0])
    message = f"`labels` at `index` must lie in [0, 3), got {got}."
    with pytest.raises(ValueError, match=re.escape(message)):
        one_hot_rows(labels, torch.tensor(index), 3, torch.float32)


@pytest.mark.parametrize("reset", [False, True])
def test_labels_travel_from_their_one_hot_rows(
    small_graph: Graph, adj_norm: SparseOperator, y0: Tensor, reset: bool
) -> None:
    train = small_graph.train_index
    assert train is not None
    actual = propagate_labels(
        adj_norm, small_graph.y, train, 4, num_steps=6, alpha=0.2, reset=reset
    )
    rows = train.tolist() if reset else []
    expected = naive(adj_norm.to_dense().numpy(), y0.numpy(), 6, 0.2, rows)
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-12)
