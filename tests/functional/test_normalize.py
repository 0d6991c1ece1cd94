from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import add_self_loops, normalize_adjacency, row_indices
from pamt_lightning.functional.normalize import (
    require_square_csr,
    scale_symmetric,
    sum_by_row,
    sum_of_rows,
    transpose_pattern,
    with_values,
)
from pamt_lightning.graph import Graph

FloatArray = npt.NDArray[np.float64]


def as_type(csr: Tensor, index_type: torch.dtype, value_type: torch.dtype) -> Tensor:
    return torch.sparse_csr_tensor(
        csr.crow_indices().to(index_type),
        csr.col_indices().to(index_type),
        csr.values().to(value_type),
        csr.shape,
        check_invariants=True,
    )


def dense_norm(adjacency: Tensor) -> FloatArray:
    with_loops = adjacency.to_dense().double().numpy() + np.eye(adjacency.shape[0])
    inv_sqrt = np.diag(with_loops.sum(axis=1) ** -0.5)
    product: FloatArray = inv_sqrt @ with_loops @ inv_sqrt
    return product


@pytest.mark.parametrize("value_type", [torch.float32, torch.float64])
@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
def test_normalised_adjacency_is_the_dense_formula(
    small_graph: Graph, index_type: torch.dtype, value_type: torch.dtype
) -> None:
    adj_norm = normalize_adjacency(as_type(small_graph.adjacency, index_type, value_type))
    assert adj_norm.dtype == value_type
    assert adj_norm.crow_indices().dtype == adj_norm.col_indices().dtype == index_type
    tolerance = 1e-6 if value_type == torch.float32 else 1e-14
    expected = dense_norm(small_graph.adjacency)
    np.testing.assert_allclose(adj_norm.to_dense().numpy(), expected, rtol=0, atol=tolerance)


def test_normalised_adjacency_of_the_six_nodes_by_hand(six_nodes: Graph) -> None:
    dense = normalize_adjacency(six_nodes.adjacency).to_dense()
    assert dense[0, 0].item() == pytest.approx(1 / 3)
    assert dense[0, 2].item() == pytest.approx(1 / 12**0.5)  # degrees 3 and 4, loops counted
    assert dense[3, 4].item() == pytest.approx(1 / 6**0.5)
    assert dense[0, 3].item() == 0
    assert dense[5].tolist() == [0, 0, 0, 0, 0, 1]  # alone: keeps its self-loop


def test_self_loops_are_added_where_the_columns_stay_sorted(small_graph: Graph) -> None:
    adj = add_self_loops(small_graph.adjacency)
    # The check is torch's own: pointers, sorted and distinct columns.
    as_type(adj, torch.int64, torch.float32)
    expected = small_graph.adjacency.to_dense() + torch.eye(300)
    assert torch.equal(adj.to_dense(), expected)
    assert adj.col_indices().numel() == small_graph.adjacency.col_indices().numel() + 300


def test_self_loops_keep_the_values_of_other_entries() -> None:
    weighted = torch.tensor([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).to_sparse_csr()
    expected = [[1, 2, 3], [4, 1, 0], [0, 0, 1]]
    assert add_self_loops(weighted).to_dense().tolist() == expected


def test_a_graph_without_edges_becomes_the_identity() -> None:
    nothing = torch.zeros(4, 4).to_sparse_csr()
    assert torch.equal(normalize_adjacency(nothing).to_dense(), torch.eye(4))


def test_normalisation_commutes_with_renaming_nodes(
    small_graph: Graph, generator: torch.Generator
) -> None:
    order = torch.randperm(300, generator=generator)
    renamed = small_graph.adjacency.to_dense()[order][:, order].to_sparse_csr()
    expected = normalize_adjacency(small_graph.adjacency).to_dense()[order][:, order]
    torch.testing.assert_close(normalize_adjacency(renamed).to_dense(), expected)


def test_the_largest_eigenvalue_is_one_and_degrees_make_its_vector(six_nodes: Graph) -> None:
    adj_norm = normalize_adjacency(as_type(six_nodes.adjacency, torch.int32, torch.float64))
    root_degree = (six_nodes.adjacency.to_dense().double().sum(1) + 1).sqrt().unsqueeze(1)
    torch.testing.assert_close(adj_norm @ root_degree, root_degree)
    assert np.linalg.eigvalsh(adj_norm.to_dense().numpy()).max() == pytest.approx(1.0)


def test_row_indices_name_the_row_of_each_entry(small_graph: Graph) -> None:
    rows, _ = small_graph.adjacency.to_dense().nonzero(as_tuple=True)
    assert torch.equal(row_indices(small_graph.adjacency).long(), rows)
    assert row_indices(small_graph.adjacency).dtype == torch.int32


def test_row_indices_skip_empty_rows() -> None:
    csr = torch.tensor([[0.0, 0, 0], [1, 0, 1], [0, 0, 0]]).to_sparse_csr()
    assert row_indices(csr).tolist() == [1, 1]


def test_sum_by_row_is_the_sum_of_the_dense_rows(six_nodes: Graph) -> None:
    values = torch.arange(10, dtype=torch.float32)
    expected = with_values(six_nodes.adjacency, values).to_dense().sum(dim=1)
    assert torch.equal(sum_by_row(six_nodes.adjacency, values), expected)
    assert sum_by_row(six_nodes.adjacency, values)[5] == 0


def test_with_values_shares_the_index_arrays(six_nodes: Graph) -> None:
    adj = six_nodes.adjacency
    other = with_values(adj, torch.zeros(10))
    assert other.col_indices().data_ptr() == adj.col_indices().data_ptr()
    assert other.crow_indices().data_ptr() == adj.crow_indices().data_ptr()
    assert adj.values().tolist() == [1.0] * 10


@pytest.mark.parametrize("zeros", ["not stored", "stored", "too small to invert"])
def test_scaling_leaves_empty_rows_empty_and_finite(zeros: str) -> None:
    csr = torch.tensor([[4.0, 0, 0], [0, 9.0, 0], [0, 0, 1.0]]).to_sparse_csr()
    if zeros == "not stored":
        csr = torch.tensor([[4.0, 0, 0], [0, 9.0, 0], [0, 0, 0]]).to_sparse_csr()
    elif zeros == "stored":
        csr = with_values(csr, torch.tensor([4.0, 9.0, 0.0]))
    else:
        csr = with_values(csr, torch.tensor([4.0, 9.0, 1e-42]))
    scaled = scale_symmetric(csr).to_dense()
    assert torch.isfinite(scaled).all()
    assert scaled.diagonal()[:2].tolist() == pytest.approx([1.0, 1.0])
    assert scaled[2, 2].item() == pytest.approx(0.0, abs=1e-3)


WRONG_MATRICES = [
    (torch.zeros(2, 2), "got layout torch.strided and shape (2, 2)."),
    (torch.zeros(2, 2).to_sparse(), "got layout torch.sparse_coo and shape (2, 2)."),
    (torch.zeros(2, 3).to_sparse_csr(), "got layout torch.sparse_csr and shape (2, 3)."),
    (torch.ones(2, 2, 2).to_sparse_csr(), "got layout torch.sparse_csr and shape (2, 2, 2)."),
]


@pytest.mark.parametrize(("matrix", "got"), WRONG_MATRICES)
def test_anything_but_a_square_csr_matrix_is_refused(matrix: Tensor, got: str) -> None:
    for name, call in (
        ("adjacency", lambda: add_self_loops(matrix)),
        ("adjacency", lambda: normalize_adjacency(matrix)),
        ("this", lambda: require_square_csr(matrix, "this")),
    ):
        message = f"`{name}` must be a square sparse CSR tensor [N, N], {got}"
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


def test_self_loops_are_never_added_twice() -> None:
    with pytest.raises(ValueError, match="`adjacency` must have an empty diagonal, got self-loops"):
        add_self_loops(torch.eye(2).to_sparse_csr())


@pytest.fixture
def wide(generator: torch.Generator) -> Tensor:
    """A 7 x 4 matrix with an empty row and an empty column."""
    dense = torch.rand(7, 4, generator=generator, dtype=torch.float64)
    dense = dense * (torch.rand(7, 4, generator=generator) < 0.5)
    dense[3], dense[:, 2] = 0, 0
    return dense.to_sparse_csr()


def test_the_transposed_pattern_is_that_of_the_dense_transpose(wide: Tensor) -> None:
    t_crow, t_col, order = transpose_pattern(wide)
    values = wide.values()[order]
    transposed = torch.sparse_csr_tensor(t_crow, t_col, values, (4, 7), check_invariants=True)
    assert torch.equal(transposed.to_dense(), wide.to_dense().mT)
    assert t_crow.dtype == wide.crow_indices().dtype


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_rows_are_a_product_with_the_dense_matrix(
    wide: Tensor, generator: torch.Generator, weighted: bool
) -> None:
    rows = torch.rand(3, 4, generator=generator, dtype=torch.float64).mT  # not contiguous
    weights = wide.values() if weighted else None
    actual = sum_of_rows(wide.crow_indices(), wide.col_indices(), rows, weights)
    pattern = wide.to_dense() if weighted else (wide.to_dense() != 0).double()
    torch.testing.assert_close(actual, pattern @ rows)
    assert torch.equal(actual[3], torch.zeros(3, dtype=torch.float64))
