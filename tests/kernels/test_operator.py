"""The sparse operator against dense matrices, whole and in shares of rows."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.sharding import RowShare
from tests.matrices import operator, with_index_type

INDEX_TYPES = pytest.mark.parametrize("index_type", [torch.int32, torch.int64])


class Part(RowShare):
    """A share whose `gather` returns the rows of this process alone."""

    def gather(self, part: Tensor) -> Tensor:
        return part


def parts_of(csr: Tensor, world_size: int = 3) -> list[SparseOperator]:
    bounds = RowShare.of(len(csr), 0, world_size).bounds
    return [SparseOperator.from_csr(csr, rows=Part(bounds, rank)) for rank in range(world_size)]


@pytest.fixture
def weighted() -> Tensor:
    """An 8 x 8 matrix with an empty row, an empty diagonal, and no symmetry."""
    dense = torch.rand(8, 8, dtype=torch.float64)
    dense = (dense * (dense < 0.5)).fill_diagonal_(0)
    dense[4] = 0
    return dense


@pytest.fixture
def y() -> Tensor:
    return torch.randn(8, 3, dtype=torch.float64)


@INDEX_TYPES
def test_results_are_those_of_the_dense_matrix(
    weighted: Tensor, y: Tensor, index_type: torch.dtype
) -> None:
    adj = operator(with_index_type(weighted.to_sparse_csr(), index_type))
    left, right = torch.arange(1.0, 9.0).double(), torch.linspace(-1, 1, 8).double()
    assert (adj.shape, adj.num_nodes, adj.dtype) == ((8, 8), 8, torch.float64)
    assert torch.equal(adj.to_dense(), weighted)
    torch.testing.assert_close(adj @ y, weighted @ y)
    torch.testing.assert_close((0.3 * adj) @ y, 0.3 * weighted @ y)
    torch.testing.assert_close(adj.row_sums(), weighted.sum(1))
    torch.testing.assert_close(adj.scale(left).to_dense(), left[:, None] * weighted)
    both = adj.scale(left, right).to_dense()
    torch.testing.assert_close(both, left[:, None] * weighted * right)
    torch.testing.assert_close(adj.squared.to_dense(), weighted**2)
    rows, cols = weighted.nonzero(as_tuple=True)
    assert torch.equal(adj.row_index.long(), rows)
    torch.testing.assert_close(adj.sample(y), (y @ y.mT)[rows, cols])
    assert adj.row_index.dtype == adj.col.dtype == index_type


def test_the_identity_is_added_where_the_columns_stay_sorted(weighted: Tensor) -> None:
    with_loops = operator(weighted).add_identity()
    csr = with_loops.to_csr()
    with_index_type(csr, torch.int64)  # torch checks pointers, sorted and distinct columns
    assert torch.equal(csr.to_dense(), weighted + torch.eye(8))
    assert torch.equal(operator(torch.zeros(4, 4)).add_identity().to_dense(), torch.eye(4))
    with pytest.raises(ValueError, match="empty diagonal"):
        with_loops.add_identity()


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_shares_hold_the_rows_of_the_whole(weighted: Tensor, y: Tensor, world_size: int) -> None:
    """What each process computes, put together, is what one process computes, to the bit."""
    whole, shares = operator(weighted), parts_of(weighted.to_sparse_csr(), world_size)
    left, right = torch.arange(1.0, 9.0).double(), torch.linspace(-1, 1, 8).double()
    computations: tuple[Callable[[SparseOperator], Tensor], ...] = (
        lambda adj: adj @ y,
        lambda adj: adj.row_sums(),
        lambda adj: adj.sample(y),
        lambda adj: adj.row_index,
        lambda adj: adj.scale(left, right).values,
        lambda adj: adj.add_identity().to_dense(),
    )
    for compute in computations:
        assert torch.equal(torch.cat([compute(part) for part in shares]), compute(whole))


def test_memory_is_shared_where_possible(small_graph: Graph) -> None:
    csr = small_graph.adjacency
    part = parts_of(csr)[1]
    other = part.with_values(torch.zeros_like(part.values))
    for ours, theirs in ((part.col, csr.col_indices()), (part.values, csr.values())):
        assert ours.untyped_storage().data_ptr() == theirs.untyped_storage().data_ptr()
    assert other.col is part.col
    assert bool((csr.values() == 1).all())
    assert part.to("cpu") is part
    assert operator(csr).to("meta").device.type == "meta"


def test_samples_do_not_read_the_values_and_have_the_type_of_h(weighted: Tensor, y: Tensor) -> None:
    adj = operator(weighted)
    other = adj.with_values(7 - 3 * adj.values)
    assert torch.equal(other.sample(y), adj.sample(y))
    assert adj.sample(y.float()).dtype == torch.float32
    assert operator(torch.zeros(3, 3)).sample(torch.ones(3, 2)).shape == (0,)


def test_what_is_computed_once_is_kept(weighted: Tensor) -> None:
    adj = operator(weighted)
    assert adj.neighbourhood is adj.neighbourhood
    assert adj.squared is adj.squared
    assert adj.with_values(adj.values).squared is not adj.squared
    with pytest.raises(ValueError, match="one process"):
        _ = parts_of(weighted.to_sparse_csr())[0].neighbourhood


def test_bits_do_not_depend_on_the_index_type_or_threads(small_graph: Graph) -> None:
    y = torch.randn(300, 64, generator=torch.Generator().manual_seed(0))
    results = []
    for index_type, threads in ((torch.int32, 1), (torch.int64, 1), (torch.int32, 2)):
        torch.set_num_threads(threads)
        results.append(operator(with_index_type(small_graph.adjacency, index_type)) @ y)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize(
    "matrix",
    [
        torch.zeros(2, 2),
        torch.zeros(2, 2).to_sparse(),
        torch.zeros(2, 3).to_sparse_csr(),
        torch.ones(2, 2, 2).to_sparse_csr(),
    ],
)
def test_only_square_csr_tensors_are_taken(matrix: Tensor) -> None:
    got = f"got layout {matrix.layout} and shape {tuple(matrix.shape)}"
    with pytest.raises(ValueError, match=re.escape(got)):
        SparseOperator.from_csr(matrix)
