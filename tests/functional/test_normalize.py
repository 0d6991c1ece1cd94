from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from pamt_lightning.functional.normalize import normalize_adjacency, normalize_symmetric
from pamt_lightning.graph import Graph
from tests.matrices import normalized, operator, with_index_type

FloatArray = npt.NDArray[np.float64]


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
    csr = with_index_type(small_graph.adjacency.to(value_type), index_type)
    adj_norm = normalize_adjacency(operator(csr))
    assert adj_norm.dtype == value_type
    assert adj_norm.crow.dtype == adj_norm.col.dtype == index_type
    tolerance = 1e-6 if value_type == torch.float32 else 1e-14
    expected = dense_norm(small_graph.adjacency)
    np.testing.assert_allclose(adj_norm.to_dense().numpy(), expected, rtol=0, atol=tolerance)


def test_normalisation_commutes_with_renaming_nodes(small_graph: Graph) -> None:
    order = torch.randperm(300)
    renamed = operator(small_graph.adjacency.to_dense().double()[order][:, order])
    expected = normalized(small_graph).to_dense()[order][:, order]
    torch.testing.assert_close(normalize_adjacency(renamed).to_dense(), expected)


def test_the_largest_eigenvalue_is_one_and_degrees_make_its_vector(six_nodes: Graph) -> None:
    adj_norm = normalized(six_nodes)
    root_degree = (six_nodes.adjacency.to_dense().double().sum(1) + 1).sqrt().unsqueeze(1)
    torch.testing.assert_close(adj_norm @ root_degree, root_degree)
    assert np.linalg.eigvalsh(adj_norm.to_dense().numpy()).max() == pytest.approx(1.0)


@pytest.mark.parametrize("value", [None, 0.0, 1e-42])
def test_rows_without_mass_stay_empty_and_finite(value: float | None) -> None:
    """Not stored, stored as zero, and too small to invert."""
    adj = operator(torch.diag(torch.tensor([4.0, 9.0, 0.0 if value is None else 1.0])))
    if value is not None:
        adj = adj.with_values(torch.tensor([4.0, 9.0, value]))
    scaled = normalize_symmetric(adj).to_dense()
    assert torch.isfinite(scaled).all()
    assert scaled.diagonal()[:2].tolist() == pytest.approx([1.0, 1.0])
    assert scaled[2, 2].item() == pytest.approx(0.0, abs=1e-3)
