from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from pamt_lightning.errors import InputError
from pamt_lightning.interop.edges import adjacency_of
from pamt_lightning.interop.features import (
    as_matrix,
    check_names,
    pack_features,
    structural_features,
)

VALUES = np.array([[0.0, 2.5], [1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(("ones", "is_sparse"), [(24, True), (25, False)])
def test_features_are_sparse_below_a_quarter_of_non_zeros(ones: int, is_sparse: bool) -> None:
    values = (np.arange(100) < ones).reshape(20, 5)
    packed = pack_features(values)
    assert hasattr(packed, "toarray") == is_sparse
    assert packed.dtype == np.float32


@pytest.mark.parametrize(
    "given",
    [
        VALUES,
        VALUES.tolist(),
        pd.DataFrame(VALUES),
        torch.from_numpy(VALUES),
        sp.csr_array(VALUES),
        sp.coo_matrix(VALUES),
        torch.from_numpy(VALUES).to_sparse(),
        torch.from_numpy(VALUES).to_sparse_csr(),
    ],
)
def test_matrices_of_all_libraries_are_the_same(given: Any) -> None:
    found = as_matrix(given)
    was_sparse = sp.issparse(given) or (torch.is_tensor(given) and given.layout != torch.strided)
    assert sp.issparse(found) == was_sparse
    dense = found.toarray() if sp.issparse(found) else found
    assert np.array_equal(dense, VALUES.astype(np.float32))
    assert found.dtype == np.float32


def test_one_column_may_be_a_vector_and_repeated_entries_are_summed() -> None:
    column, twice = as_matrix([True, False]), sp.coo_array((np.ones(2), ([0, 0], [1, 1])), (1, 2))
    assert np.array_equal(np.asarray(column), [[1.0], [0.0]])
    assert as_matrix(twice)[[0], [1]].tolist() == [2.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[np.nan], [1e39]], r"finite .* got nan \(2 such\)"),
        (sp.csr_array([[np.inf]]), "finite"),
        ([["a"]], "numbers, got <U1"),
        (np.zeros((1, 2, 3)), r"got \(1, 2, 3\)"),
        (np.array([[1j]]), "numbers, got complex"),
    ],
)
def test_what_is_no_matrix_of_finite_numbers_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_matrix(given)


def test_names_are_one_for_each_column() -> None:
    assert check_names(None, 3) == ()
    assert check_names(["a", "2"], 2) == ("a", "2")
    with pytest.raises(InputError, match="2 names, got 1"):
        check_names(["a"], 2)
    with pytest.raises(InputError, match="'a' more than once"):
        check_names(["a", "a"], 2)


def test_columns_from_the_structure_agree_with_networkx_and_tell_communities_apart() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.planted_partition_graph(2, 20, 0.5, 0.05, seed=0)
    ends = np.array(graph.edges)
    found, names = structural_features(adjacency_of(ends[:, 0], ends[:, 1], 40))
    assert isinstance(found, np.ndarray)
    assert len(names) == found.shape[1] == 3 + 40
    assert np.exp(found[:, 0]) - 1 == pytest.approx(
        [degree for _, degree in graph.degree], abs=1e-4
    )
    ranks = networkx.pagerank(graph, alpha=0.85)
    assert np.exp(found[:, 2]) / 40 == pytest.approx(list(ranks.values()), rel=1e-3)
    positions = found[:, 3:]
    inside = positions[:20] @ positions[:20].T
    across = positions[:20] @ positions[20:].T
    assert inside.mean() > across.mean() + 1


def test_columns_of_a_graph_without_edges_are_finite() -> None:
    found, _ = structural_features(adjacency_of(np.array([], int), np.array([], int), 3))
    assert np.isfinite(np.asarray(found)).all()
