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
def adj_mask(adj_norm: SparseOperator) -> SparseOperator:
    logits = torch.randn(300, 4, dtype=torch.float64)
    return mask_adjacency(adj_norm, torch.softmax(logits, dim=1))


@pytest.fixture
def y0(small_graph: Graph) -> Tensor:
    assert small_graph.train_index is not None
    return one_hot_rows(small_graph.y, small_graph.train_index, 4, torch.float64)


def dense_steps(
    adj: FloatArray, start: FloatArray, steps: int, alpha: float, reset: list[int]
) -> FloatArray:
    """The steps as the equation writes them, on a dense matrix."""
    y = start
    for _ in range(steps):
        y = (1 - alpha) * adj @ y + alpha * start
        y[reset] = start[reset]
    return y


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("reset", [[], [0, 3]])
def test_propagation_is_the_dense_recursion(six_nodes: Graph, steps: int, reset: list[int]) -> None:
    adj = normalized(six_nodes)
    start = one_hot_rows(six_nodes.y, torch.tensor([0, 3]), 2, torch.float64)
    index = torch.tensor(reset, dtype=torch.int64) if reset else None
    actual = propagate(adj, start, num_steps=steps, alpha=0.15, reset_index=index)
    expected = dense_steps(adj.to_dense().numpy(), start.numpy(), steps, 0.15, reset)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("steps", [1, 3, 10])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("which", ["structure", "mask"])
def test_it_is_the_polynomial_of_equation_9(
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
def test_many_steps_reach_the_closed_form(
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


@pytest.mark.parametrize(("num_steps", "alpha"), [(7, 1.0), (0, 0.1)])
def test_alpha_one_or_no_steps_return_the_start(
    adj_norm: SparseOperator, y0: Tensor, num_steps: int, alpha: float
) -> None:
    assert torch.equal(propagate(adj_norm, y0, num_steps=num_steps, alpha=alpha), y0)


def test_renaming_nodes_and_classes_renames_the_result(
    adj_norm: SparseOperator, y0: Tensor
) -> None:
    order, classes = torch.randperm(300), torch.tensor([2, 0, 3, 1])
    renamed = operator(adj_norm.to_dense()[order][:, order])
    new_name = torch.argsort(order)
    reset = torch.arange(20)
    expected = propagate(adj_norm, y0, num_steps=10, alpha=0.1, reset_index=reset)
    start, new_reset = y0[order][:, classes], new_name[reset]
    actual = propagate(renamed, start, num_steps=10, alpha=0.1, reset_index=new_reset)
    torch.testing.assert_close(actual, expected[order][:, classes])


def test_a_transposed_start_gives_the_same(adj_norm: SparseOperator, y0: Tensor) -> None:
    strided, before, reset = y0.T.contiguous().T, y0.clone(), torch.arange(5)
    expected = propagate(adj_norm, y0, num_steps=3, alpha=0.1, reset_index=reset)
    actual = propagate(adj_norm, strided, num_steps=3, alpha=0.1, reset_index=reset)
    torch.testing.assert_close(actual, expected)
    assert torch.equal(y0, before)


def test_no_stored_entries_leave_only_the_restart() -> None:
    start = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    actual = propagate(operator(torch.zeros(3, 3)), start, num_steps=4, alpha=0.25)
    assert torch.equal(actual, 0.25 * start)


@pytest.mark.parametrize(("num_steps", "alpha"), [(0, 0.1), (1, 0.3), (4, 0.0), (10, 0.1), (3, 1)])
def test_smoothing_has_the_gradient_of_autograd(
    adj_norm: SparseOperator, num_steps: int, alpha: float
) -> None:
    h = torch.randn(300, 5, dtype=torch.float64, requires_grad=True)
    actual = smooth(adj_norm, h, num_steps=num_steps, alpha=alpha)
    assert torch.equal(actual, propagate(adj_norm, h.detach(), num_steps=num_steps, alpha=alpha))
    expected = propagate(adj_norm.to_dense(), h, num_steps=num_steps, alpha=alpha)
    grads = [torch.autograd.grad((out**2).sum(), h)[0] for out in (actual, expected)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_hot_rows_are_at_the_index_and_zeros_elsewhere(dtype: torch.dtype) -> None:
    # Labels outside the index may be anything: they must not be read.
    labels = torch.tensor([2, 99, 0, -1, 1])
    y0 = one_hot_rows(labels, torch.tensor([4, 0]), 3, dtype)
    assert y0.dtype == dtype
    assert y0.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(("index", "got"), [([1, 2], "-1 to 0"), ([0, 2], "0 to 3")])
def test_labels_at_the_index_must_be_classes(index: list[int], got: str) -> None:
    labels = torch.tensor([3, -1, 0])
    message = f"`labels` at `index` must lie in [0, 3), got {got}."
    with pytest.raises(ValueError, match=re.escape(message)):
        one_hot_rows(labels, torch.tensor(index), 3, torch.float32)


@pytest.mark.parametrize("reset", [False, True])
def test_labels_travel_from_one_hot_rows(
    small_graph: Graph, adj_norm: SparseOperator, y0: Tensor, reset: bool
) -> None:
    train = small_graph.train_index
    assert train is not None
    actual = propagate_labels(
        adj_norm, small_graph.y, train, 4, num_steps=6, alpha=0.2, reset=reset
    )
    rows = train.tolist() if reset else []
    expected = dense_steps(adj_norm.to_dense().numpy(), y0.numpy(), 6, 0.2, rows)
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-12)
