"""Attribute neighbours: against all pairs in NumPy and scikit-learn's search."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import (
    attribute_neighbours,
    inverse_document_frequency,
    join_graphs,
)
from pamt_lightning.kernels.csr import csr_tensor
from tests.matrices import operator


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def words(num_nodes: int = 60, width: int = 25, seed: int = 0) -> Tensor:
    """Counts of words; all nodes have word 0, none has word 1, nodes 4 and 9 have nothing else."""
    counts = torch.randint(-6, 5, (num_nodes, width), generator=generator(seed)).clamp(min=0)
    counts[:, 1] = 0
    counts[[4, 9]] = 0
    counts[:, 0] = 1
    return counts.float()


def measurements(num_nodes: int = 60, width: int = 5, seed: int = 0) -> Tensor:
    x = torch.randn(num_nodes, width, generator=generator(seed)) + 0.5
    x[4] = 0.0
    return x


def expected_neighbours(x: Tensor, weights: Tensor, k: int) -> Tensor:
    """All cosines, sorted: the definition."""
    scaled = x.double() * weights
    lengths = scaled.norm(dim=1, keepdim=True)
    unit = torch.where(lengths > 0, scaled / lengths, 0.0)
    cosines = (unit @ unit.T).round(decimals=9).fill_diagonal_(-2.0)
    order = cosines.sort(dim=1, descending=True, stable=True).indices[:, :k]
    chosen = torch.zeros_like(cosines).scatter_(1, order, 1.0) * (cosines > 0)
    return torch.maximum(chosen, chosen.T).float()


# Weights


def test_weights_of_words_are_those_of_scikit_learn() -> None:
    x = words()
    weights = inverse_document_frequency(x.to_sparse_csr())
    text = import_module("sklearn.feature_extraction.text")  # without types
    oracle = text.TfidfTransformer(smooth_idf=False).fit(x[:, 2:].numpy()).idf_ - 1.0
    np.testing.assert_allclose(weights[2:].numpy(), oracle)
    assert weights[:2].tolist() == [0.0, 0.0]
    assert weights.dtype == torch.float64


def test_a_stored_zero_is_no_word() -> None:
    x = words().to_sparse_csr()
    stored = csr_tensor(x.crow_indices(), x.col_indices(), x.values() % 4, x.shape[1])
    assert (stored.values() == 0).any()
    again = stored.to_dense().to_sparse_csr()
    assert torch.equal(inverse_document_frequency(stored), inverse_document_frequency(again))


def test_measurements_are_not_weighted() -> None:
    weights = inverse_document_frequency(measurements())
    assert torch.equal(weights, torch.ones(5, dtype=torch.float64))


# Neighbours


@pytest.mark.parametrize("k", [1, 3, 10, 58, 59, 60, 1000])
@pytest.mark.parametrize("sparse", [True, False])
def test_neighbours_are_those_of_the_definition(sparse: bool, k: int) -> None:
    x = words() if sparse else measurements()
    given = x.to_sparse_csr() if sparse else x
    found = attribute_neighbours(given, k)
    expected = expected_neighbours(x, inverse_document_frequency(given), k)
    assert torch.equal(found.to_dense(), expected)
    assert 0 < int(expected.sum()) < 60 * 59


@pytest.mark.parametrize("sparse", [True, False])
def test_neighbours_are_those_of_scikit_learn(sparse: bool) -> None:
    k, draw = 4, torch.rand(200, 40, generator=generator(3))  # real numbers: no ties
    x = torch.where(draw > 0.7, draw, 0.0) if sparse else draw
    given = x.to_sparse_csr() if sparse else x
    weighted = (x.double() * inverse_document_frequency(given)).numpy()
    sklearn = import_module("sklearn.neighbors")  # without types
    search = sklearn.NearestNeighbors(n_neighbors=k, metric="cosine").fit(weighted)
    chosen = search.kneighbors_graph().toarray()  # of the fitted rows themselves: without the row
    found = attribute_neighbours(given, k).to_dense().numpy()
    np.testing.assert_array_equal(found, np.maximum(chosen, chosen.T))


@pytest.mark.parametrize("sparse", [True, False])
def test_the_result_is_a_graph(sparse: bool) -> None:
    x = words().to_sparse_csr() if sparse else measurements()
    found = attribute_neighbours(x, 3)
    assert found.layout == torch.sparse_csr
    assert found.dtype == torch.float32
    assert found.col_indices().dtype == found.crow_indices().dtype == torch.int32
    torch.sparse_csr_tensor(  # sorted columns, among others
        found.crow_indices(), found.col_indices(), found.values(), (60, 60), check_invariants=True
    )
    dense = found.to_dense()
    assert torch.equal(dense, dense.T)
    assert bool((found.values() == 1).all())
    assert bool((dense.diagonal() == 0).all())


def test_nodes_without_attributes_have_no_neighbours() -> None:
    degree = attribute_neighbours(words().to_sparse_csr(), 59).to_dense().sum(1)
    assert degree[[4, 9]].tolist() == [0, 0]  # a word that all nodes have says nothing
    assert int((degree > 0).sum()) == 58
    degree = attribute_neighbours(measurements(), 3).to_dense().sum(1)
    assert degree[4] == 0
    assert int((degree > 0).sum()) == 59


def test_nodes_that_share_nothing_or_point_away_are_not_joined() -> None:
    apart = attribute_neighbours(torch.eye(5).to_sparse_csr(), 3)
    assert apart.values().shape == (0,)
    line = torch.tensor([[1.0, 0.0], [2.0, 0.1], [-1.0, 0.0], [0.0, 1e-30]])
    expected = torch.zeros(4, 4)
    expected[0, 1] = expected[1, 0] = expected[1, 3] = expected[3, 1] = 1.0
    assert torch.equal(attribute_neighbours(line, 3).to_dense(), expected)


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (2, 3), (3, 0)])
@pytest.mark.parametrize("sparse", [True, False])
def test_tiny_graphs(sparse: bool, shape: tuple[int, int]) -> None:
    x = torch.ones(shape)
    if sparse and x.numel():
        x[0, 0] = 0.0  # so that the word is not one that all nodes have
    found = attribute_neighbours(x.to_sparse_csr() if sparse else x, 2)
    assert found.shape == (shape[0], shape[0])
    assert len(found.values()) == (2 if shape == (2, 3) and not sparse else 0)


def test_of_equal_nodes_the_first_are_chosen() -> None:
    same = torch.ones(50, 3)
    expected = torch.zeros(50, 50)
    expected[:, :2] = expected[:2, :] = 1.0
    expected[0, 2] = expected[2, 0] = expected[1, 2] = expected[2, 1] = 1.0
    expected.fill_diagonal_(0.0)
    assert torch.equal(attribute_neighbours(same, 2).to_dense(), expected)


@pytest.mark.parametrize("sparse", [True, False])
def test_lengths_do_not_matter(sparse: bool) -> None:
    x = words().repeat(3, 1)  # whole numbers with many ties; their multiples are exact
    factors = torch.randint(1, 50, (len(x), 1), generator=generator(1))

    def neighbours(x: Tensor) -> Tensor:
        return attribute_neighbours(x.to_sparse_csr() if sparse else x, 4).to_dense()

    plain = neighbours(x)
    assert torch.equal(neighbours(x * 100), plain)
    assert torch.equal(neighbours(x * factors), plain)
    assert torch.equal(neighbours(x.double() * 1e-6), plain)
    assert not torch.equal(neighbours(x**2), plain)


# Two graphs joined


def two_graphs(size: int = 12) -> tuple[Tensor, Tensor]:
    """Trust in the edges of a graph, ones on the diagonal, and neighbours; node 3 has neither."""
    draw = torch.rand(2, size, size, generator=generator(2)).triu(1)
    trust = torch.where(draw[0] > 0.6, draw[0] - 0.6, 0.0)
    trust[0, 1] = trust[1, 2] = 0.0
    near = (draw[1] > 0.7).float()
    trust, near = trust + trust.T, near + near.T
    for each in (trust, near):
        each[3] = each[:, 3] = 0.0
    return trust + torch.eye(size), near


def expected_join(trust: Tensor, near: Tensor) -> Tensor:
    joined = np.maximum(trust.double().numpy(), near.double().numpy())
    root = 1 / np.sqrt(joined.sum(1))
    return torch.from_numpy(root[:, None] * joined * root[None, :])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_joined_graphs_are_the_normalised_maximum_of_both(dtype: torch.dtype) -> None:
    trust, near = two_graphs()
    found = join_graphs(operator(trust.to(dtype)), near.to_sparse_csr())
    expected = expected_join(trust.to(dtype), near)
    assert found.dtype == dtype
    torch.testing.assert_close(found.to_dense(), expected.to(dtype))
    assert found.to_dense()[3, 3] == 1.0  # a node of its own
    torch.sparse_csr_tensor(  # sorted columns, among others
        found.crow, found.col, found.values, found.shape, check_invariants=True
    )


def test_without_neighbours_the_join_is_the_normalised_trust() -> None:
    trust, near = two_graphs()
    none = torch.zeros_like(near).to_sparse_csr()
    found = join_graphs(operator(trust), none).to_dense()
    torch.testing.assert_close(found.double(), expected_join(trust, torch.zeros_like(near)))
    alone = join_graphs(operator(torch.eye(12)), near.to_sparse_csr()).to_dense()
    torch.testing.assert_close(alone.double(), expected_join(torch.eye(12), near))


def test_an_edge_that_is_not_trusted_is_not_stored() -> None:
    trust, near = two_graphs()
    stored = operator(torch.ones(12, 12)).with_values(trust.reshape(-1))
    found = join_graphs(stored, near.to_sparse_csr())
    assert len(found.values) == int((torch.maximum(trust, near) > 0).sum())
    assert torch.equal(
        found.to_dense(), join_graphs(operator(trust), near.to_sparse_csr()).to_dense()
    )


def test_renaming_nodes_renames_the_join() -> None:
    trust, near = two_graphs()
    order = torch.randperm(12, generator=generator())
    renamed = (each[order][:, order] for each in (trust, near))
    found = join_graphs(operator(next(renamed)), next(renamed).to_sparse_csr()).to_dense()
    expected = join_graphs(operator(trust), near.to_sparse_csr()).to_dense()
    torch.testing.assert_close(found, expected[order][:, order])
