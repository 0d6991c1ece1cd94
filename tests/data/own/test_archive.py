from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.data.own.archive import read_npz
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.errors import InputError
from pamt_lightning.interop.edges import adjacency_of
from tests.data.store.graphs import assert_same

FEATURES = np.array([[1.0, 2.0], [3.0, 0.5], [0.0, 1.0]])
EDGES = np.array([[0, 1], [1, 0], [2, 1], [2, 2]])


def csr_keys(name: str, matrix: Any) -> dict[str, Any]:
    csr = sp.csr_array(matrix)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
    return {name + part: np.array(value) for part, value in parts.items()}


def plain(**changes: Any) -> dict[str, Any]:
    keys = {"edges": EDGES, "features": FEATURES, "labels": np.array([1, -1, 0]), **changes}
    return {key: value for key, value in keys.items() if value is not None}


def read(folder: Path, keys: dict[str, Any]) -> RawGraph:
    np.savez(folder / "graph.npz", **keys)
    return read_npz(folder / "graph.npz")


def test_edges_and_dense_features_become_a_graph(tmp_path: Path) -> None:
    raw = read(tmp_path, plain())
    adjacency, labels = adjacency_of(EDGES[:, 0], EDGES[:, 1], 3), np.array([1, -1, 0])
    expected = RawGraph(adjacency, FEATURES.astype("f4"), labels, np.arange(3), ("0", "1"))
    assert_same(raw, expected)
    assert raw.given_splits == {}


@pytest.mark.parametrize(("adj", "attr"), [("adj_", "attr_"), ("adj_matrix.", "attr_matrix.")])
def test_csr_keys_give_the_same_graph(tmp_path: Path, adj: str, attr: str) -> None:
    expected = read(tmp_path, plain())
    adjacency = sp.coo_array((np.full(4, 5), tuple(EDGES.T)), shape=(3, 3))
    keys = {**csr_keys(adj, adjacency), **csr_keys(attr, FEATURES), "labels": [1, -1, 0]}
    raw = read(tmp_path, keys)
    assert_same(raw, replace(expected, features=sp.csr_array(FEATURES, dtype=np.float32)))


@pytest.mark.parametrize(
    ("labels", "class_names", "expected_names", "expected"),
    [
        (["dog", "", "cat"], None, ("cat", "dog"), [1, -1, 0]),
        (["dog", " ", "cat"], ["dog", "eel", "cat"], ("dog", "eel", "cat"), [0, -1, 2]),
        (np.array([10, -1, 9], dtype=np.int8), None, ("9", "10"), [1, -1, 0]),  # gaps are closed
        ([2, -1, 0], ["x", "y", "z"], ("x", "y", "z"), [2, -1, 0]),  # positions in class_names
        (None, None, (), [-1, -1, -1]),
    ],
)
def test_labels_of_every_kind_become_class_numbers(
    tmp_path: Path, labels: Any, class_names: Any, expected_names: Any, expected: list[int]
) -> None:
    raw = read(tmp_path, plain(labels=labels, class_names=class_names))
    assert raw.class_names == expected_names
    assert raw.labels.tolist() == expected


@pytest.mark.parametrize("key", ["node_ids", "node_names"])
def test_ids_and_split_are_kept_and_other_keys_not_read(tmp_path: Path, key: str) -> None:
    keys = {
        key: np.array(["n1\n", "n 2", "3"]),
        **{"train_index": [2], "val_index": np.array([0], "i1"), "test_index": [1]},
        "metadata": np.array({"a": 1}, dtype=object),
    }
    raw = read(tmp_path, plain(**keys))
    assert raw.node_ids.tolist() == ["n1", "n 2", "3"]
    for part, node in {"train": 2, "val": 0, "test": 1}.items():
        np.testing.assert_array_equal(raw.given_splits[part], np.array([node]), strict=True)


NO_EDGES = plain(edges=None)
CSR = {**csr_keys("adj_", np.eye(3, k=1)), "features": FEATURES}
WITHOUT_INDPTR = {key: value for key, value in CSR.items() if key != "adj_indptr"}
WITH_NAN = np.array([[1, 2], [np.nan, 1], [np.inf, 2]])
OBJECTS = np.array([1, "a", None], dtype=object)
MATRIX = np.array(sp.csr_array(FEATURES), dtype=object)
ONE, TWO, ONE_NAME = np.array([1]), np.array([2]), np.array(["a"])

DEFECTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no edges stored": (NO_EDGES, "edges are missing", "`adj_indptr`"),
    "no features stored": (plain(features=None), "features are missing", "edges, labels"),
    "two forms": (plain(**csr_keys("adj_", np.eye(3))), "more than once", "edges, adj_"),
    "empty edges": (plain(edges=np.empty((0, 2), dtype=int)), "`edges`", "no edges"),
    "only self-loops": (plain(edges=np.array([[1, 1]])), "`edges`", "no edges"),
    "edges of floats": (plain(edges=EDGES * 1.0), "`edges`", "float64"),
    "edges lying down": (plain(edges=EDGES.T[:, :3]), "`edges`", "Store edges.T"),
    "edges in one row": (plain(edges=EDGES[0]), "`edges`", "2 dimension(s)"),
    "an end outside": (plain(edges=np.array([[0, 3], [1, -1]])), "`edges`", "got 3 (2 such"),
    "a part of CSR missing": (WITHOUT_INDPTR, "`adj_indptr` is missing", "adj_shape"),
    "a column outside": (CSR | {"adj_indices": np.array([1, 7])}, "`adj_indptr`", "valid CSR"),
    "a falling indptr": (CSR | {"adj_indptr": np.array([0, 2, 1, 2])}, "`adj_indptr`", "valid CSR"),
    "a float indptr": (CSR | {"adj_indptr": np.ones(4)}, "`adj_indptr`", "integers"),
    "a shape of one number": (CSR | {"adj_shape": np.array([3])}, "`adj_shape`", "[3]"),
    "NaN in CSR": (CSR | {"adj_data": np.array([1, np.nan])}, "`adj_data`", "nan at position (1,)"),
    "more nodes": (NO_EDGES | csr_keys("adj_", np.eye(4, k=1)), "`adj_shape`", "must be (3, 3)"),
    "NaN features": (plain(features=WITH_NAN), "`features`", "nan at position (1, 0), and 2 such"),
    "text features": (plain(features=FEATURES.astype(str)), "`features`", "numbers"),
    "flat features": (plain(features=FEATURES.ravel()), "`features`", "2 dimension(s)"),
    "no feature columns": (plain(features=np.ones((3, 0))), "`features`", "(3, 0)"),
    "too few labels": (plain(labels=np.array([0, 1])), "`labels`", "of length 3"),
    "labels of floats": (plain(labels=np.ones(3)), "`labels`", ".astype(int)"),
    "a label below -1": (plain(labels=np.array([0, -2, 1])), "`labels`", "got -2"),
    "a label above the names": (plain(class_names=ONE_NAME), "`labels`", "0 to 0, got 1"),
    "no name": (plain(labels=["a", "b", ""], class_names=ONE_NAME), "`labels`", "'b'"),
    "names that are numbers": (plain(class_names=np.arange(2)), "`class_names`", ".astype(str)"),
    "a name twice": (plain(class_names=np.array(["a", "a"])), "`class_names`", "distinct"),
    "an id twice": (plain(node_ids=np.array(["u", "v", "u"])), "`node_ids`", "'u' more than once"),
    "too many ids": (plain(node_ids=np.arange(4)), "`node_ids`", "4 entries"),
    "half a split": (plain(train_index=ONE, test_index=TWO), "`val_index`", "is missing"),
    "a mask": (plain(train_index=ONE > 0, val_index=ONE, test_index=TWO), "`train_", "flatnonzero"),
    "outside": (plain(train_index=ONE, val_index=TWO, test_index=9 * ONE), "`test_index`", "got 9"),
    "pickled labels": (plain(labels=OBJECTS), "`labels`", "only pickle could"),
    "pickled ids": (plain(node_ids=OBJECTS), "`node_ids`", "numpy.array(list_of_str)"),
    "pickled class names": (plain(class_names=OBJECTS), "`class_names`", "only pickle could"),
    "a pickled matrix": (plain(features=MATRIX), "`features`", "features_indptr"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_reported_with_file_key_and_value(tmp_path: Path, defect: str) -> None:
    keys, key, value = DEFECTS[defect]
    with pytest.raises(InputError) as caught:
        read(tmp_path, keys)
    text = str(caught.value)
    assert text.startswith(str(tmp_path / "graph.npz") + ": ")
    assert key in text
    assert value in text


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    single = io.BytesIO()
    np.save(single, EDGES)
    for content in (b"", b"edges,features\n", b"\x80\x04K\x01.", single.getvalue()):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"not a readable \.npz file"):
            read_npz(path)


def test_a_damaged_array_is_reported_with_its_key(tmp_path: Path) -> None:
    path = tmp_path / "graph.npz"
    np.savez(path, **plain())
    data = bytearray(path.read_bytes())
    data[data.index(FEATURES.tobytes())] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match="`features` must be readable"):
        read_npz(path)
