from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph


def csr(dense: Any) -> torch.Tensor:
    return torch.as_tensor(dense, dtype=torch.float32).to_sparse_csr()


PATH = csr([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def path_graph(**changes: Any) -> Graph:
    """Three nodes in a row."""
    fields: dict[str, Any] = {
        "x": torch.ones(3, 2),
        "adjacency": PATH,
        "y": torch.tensor([0, 1, -1]),
        "class_names": ("no", "yes"),
    }
    return Graph(**(fields | changes))


def index(*nodes: int) -> torch.Tensor:
    return torch.tensor(nodes, dtype=torch.int64)


def raw_csr(crow: list[int], col: list[int]) -> torch.Tensor:
    """A CSR tensor that torch does not check."""
    parts = torch.tensor(crow), torch.tensor(col), torch.ones(len(col))
    return torch.sparse_csr_tensor(*parts, (3, 3), check_invariants=False)


NAN, INF = float("nan"), float("inf")
# What is changed, the field that the error names, and the value it reports.
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"adjacency": PATH.to_dense()}, "adjacency", "torch.strided of shape (3, 3)"),
    ({"adjacency": csr([[0, 1, 0], [1, 0, 0]])}, "adjacency", "shape (2, 3)"),
    ({"adjacency": torch.ones(3, 3, 3).to_sparse_csr()}, "adjacency", "shape (3, 3, 3)"),
    ({"adjacency": torch.tensor([[0, 1], [1, 0]]).to_sparse_csr()}, "adjacency", "torch.int64"),
    ({"adjacency": csr([[0, 1, 0], [1, 0, -2.5], [0, -2.5, 0]])}, "adjacency", "got -2.5"),
    ({"adjacency": csr([[0, 1, 0], [1, 0, INF], [0, INF, 0]])}, "adjacency", "got inf"),
    ({"adjacency": csr([[0, 1, 0], [1, 0, 2], [0, 3, 0]])}, "adjacency", "2.0 from node 1 to 2"),
    ({"feature_names": ("a",)}, "feature_names", "2 names"),
    ({"node_ids": np.array(["a", 1, 1], dtype=object)}, "node_ids", "got 1 more than once"),
    ({"adjacency": raw_csr([0, 1, 3, 4], [1, 2, 0, 1])}, "adjacency", "sorted columns"),
    ({"adjacency": raw_csr([0, 2, 4, 4], [1, 1, 0, 0])}, "adjacency", "duplicate entry"),
    ({"adjacency": csr([[0, 1, 0], [1, 1, 0], [0, 0, 1]])}, "adjacency", "2, the first at node 1"),
    ({"adjacency": csr([[0, 1, 0], [0, 0, 1], [0, 1, 0]])}, "adjacency", "symmetric"),
    # As many entries in each row as in each column.
    ({"adjacency": csr([[0, 1, 0], [0, 0, 1], [1, 0, 0]])}, "adjacency", "symmetric"),
    ({"x": torch.ones(4, 2)}, "x", "N=3 and F >= 1"),
    ({"x": torch.ones(3, 0)}, "x", "shape (3, 0)"),
    ({"x": torch.ones(3)}, "x", "shape (3,)"),
    ({"x": torch.ones(3, 2).to_sparse()}, "x", "torch.sparse_coo"),
    ({"x": torch.ones(3, 2, dtype=torch.int32)}, "x", "torch.int32"),
    ({"x": torch.tensor([[1.0], [NAN], [INF]])}, "x", "got 2 NaN or infinite"),
    ({"x": csr([[0.0, 1.0], [NAN, 0.0], [0.0, 0.0]])}, "x", "got 1 NaN or infinite"),
    ({"y": torch.tensor([0, 1, 1], dtype=torch.int32)}, "y", "got torch.int32"),
    ({"y": torch.tensor([0, 1])}, "y", "shape [3], got torch.int64"),
    ({"y": torch.tensor([0, 1, 2])}, "y", "[-1, 2) (one class name per class), got 0 to 2"),
    ({"y": torch.tensor([0, -2, 1])}, "y", "got -2 to 1"),
    ({"class_names": ("no", "no")}, "class_names", "got ('no', 'no')"),
    ({"node_ids": np.array(["a", "b"])}, "node_ids", "(3 nodes), got shape (2,)"),
    ({"node_ids": np.array(["a", "b", "a"])}, "node_ids", "got a more than once"),
    ({"val_index": torch.tensor([0.0])}, "val_index", "got torch.float32"),
    ({"train_index": torch.tensor([[0]])}, "train_index", "shape (1, 1)"),
    ({"test_index": index(0, 3)}, "test_index", "[0, 3), got 0 to 3"),
    ({"train_index": index(-1)}, "train_index", "got -1 to -1"),
    ({"val_index": index(0, 2)}, "val_index", "got node 2 (y = -1)"),
    ({"train_index": index(0), "test_index": index(1, 0)}, "train_index", "got node 0 2 times"),
    ({"train_index": index(1, 1)}, "train_index", "got node 1 2 times"),
]


@pytest.mark.parametrize(("changes", "field", "fact"), WRONG)
def test_a_wrong_field_is_an_error_that_names_field_and_value(
    changes: dict[str, Any], field: str, fact: str
) -> None:
    with pytest.raises(InputError, match=re.escape(fact)) as error:
        path_graph(**changes)
    assert f"Graph.{field}" in str(error.value)


def test_counts_ids_and_names_are_those_of_the_arrays(six_nodes: Graph) -> None:
    counts = (six_nodes.num_nodes, six_nodes.num_edges, six_nodes.num_features)
    assert (*counts, six_nodes.num_classes) == (6, 5, 4, 2)
    assert repr(six_nodes) == "Graph(6 nodes, 5 edges, 4 sparse features, 2 classes, 5 labels, cpu)"
    graph = path_graph(class_names=[3, "b"], adjacency=csr(torch.zeros(3, 3)).double())
    assert graph.class_names == ("3", "b")
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == [0, 1, 2]
    assert graph.num_edges == 0
    assert graph.adjacency.dtype == torch.float64


def test_moving_moves_every_tensor_and_leaves_the_rest(six_nodes: Graph) -> None:
    assert six_nodes.to("cpu") is six_nodes
    moved = six_nodes.to("meta")
    for name in ("x", "adjacency", "y", "train_index", "val_index", "test_index"):
        assert getattr(moved, name).device.type == "meta", name
        assert getattr(six_nodes, name).device.type == "cpu", name
    assert moved.x.layout == moved.adjacency.layout == torch.sparse_csr
    assert moved.node_ids is six_nodes.node_ids
    assert moved.class_names == six_nodes.class_names
    assert path_graph().to("meta").train_index is None


def test_neither_moving_nor_splitting_validates_the_graph_again() -> None:
    graph = path_graph(x=torch.tensor([[NAN]]), adjacency=csr(torch.ones(3, 3)), check=False)
    graph.to("meta")
    assert graph.with_split(index(0), index(1), index()).x is graph.x


def test_with_split_leaves_the_old_graph_alone_and_takes_any_integer_type(
    six_nodes: Graph,
) -> None:
    split = six_nodes.with_split(index(1).to(torch.int32), index(2).to(torch.uint8), index())
    assert split.train_index is not None
    assert six_nodes.train_index is not None
    assert split.train_index.tolist() == [1]
    assert split.train_index.dtype == torch.int64
    assert six_nodes.train_index.tolist() == [0, 3]


def test_with_split_checks_the_index_sets(six_nodes: Graph) -> None:
    for train, fact in ((index(0).bool(), "`mask.nonzero()"), (index(1), "got node 1 2 times")):
        with pytest.raises(InputError, match=re.escape(fact)):
            six_nodes.with_split(train, index(1), index(2))


def scipy_graph(features: Any = None, adjacency: Any = None, labels: Any = (0, 1, 0)) -> Graph:
    return Graph.from_scipy(
        np.ones((3, 1)) if features is None else features,
        sp.csr_array(PATH.to_dense().numpy()) if adjacency is None else adjacency,
        labels,
    )


def test_from_scipy_keeps_layouts_and_makes_small_types() -> None:
    features = np.array([[0, 2.5], [0, 0], [1, 0]])
    sparse, dense = scipy_graph(sp.coo_array(features)), scipy_graph(features)
    assert (sparse.x.layout, dense.x.layout) == (torch.sparse_csr, torch.strided)
    assert sparse.x.dtype == dense.x.dtype == torch.float32
    assert torch.equal(sparse.x.to_dense(), dense.x)
    assert torch.equal(dense.x, torch.from_numpy(features).float())
    assert torch.equal(dense.adjacency.to_dense(), PATH.to_dense())
    assert dense.adjacency.col_indices().dtype == torch.int32
    assert dense.adjacency.crow_indices().dtype == torch.int32


@pytest.mark.parametrize(
    ("labels", "names"), [([0, 2, -1], ("0", "2")), ([-1, -1, -1], ()), ([0, 0, 0], ("0",))]
)
def test_classes_are_named_by_number_unless_names_are_given(
    labels: list[int], names: tuple[str, ...]
) -> None:
    assert scipy_graph(labels=labels).class_names == names


def test_from_scipy_sorts_columns_without_touching_the_callers_arrays() -> None:
    indices, data = np.array([1, 2, 0, 1]), np.array([5.0, 7.0, 6.0, 8.0])
    features = sp.csr_array((data, indices, np.array([0, 1, 3, 4])), shape=(3, 3))
    graph = scipy_graph(features)
    assert graph.x.to_dense().tolist() == [[0, 5, 0], [6, 0, 7], [0, 8, 0]]
    assert features.indices.tolist() == [1, 2, 0, 1]
    assert features.data.tolist() == [5, 7, 6, 8]


def test_duplicate_entries_of_arrays_are_an_error_that_says_what_mends_them() -> None:
    ones, indptr = np.ones(4, dtype=np.float32), np.array([0, 2, 4, 4])
    doubled = sp.csr_array((ones, np.array([1, 1, 0, 0]), indptr), shape=(3, 3))
    with pytest.raises(InputError, match=r"`adjacency` must have no duplicate .* sum_duplicates"):
        Graph.from_arrays(np.ones((3, 1)), doubled, [0, 1, 0], ("a", "b"))


def test_the_fingerprint_changes_with_edges_labels_and_split(six_nodes: Graph) -> None:
    def split(train: int) -> Graph:
        return six_nodes.with_split(index(train), index(1), index(2))

    assert split(0).fingerprint() == split(0).fingerprint()
    variants = [six_nodes, split(0), split(3), path_graph(), path_graph(y=index(1, 1, -1))]
    variants.append(path_graph(adjacency=csr(torch.zeros(3, 3))))
    assert len({graph.fingerprint() for graph in variants}) == 6
