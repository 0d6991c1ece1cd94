"""Graphs on disk: what is written comes back, whatever the blocks; what is damaged is told."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.data.raw import RawGraph, simple_graph
from pamt_lightning.data.scaling import ScaleName, Scaling
from pamt_lightning.data.store.npy_stream import NpyStream
from pamt_lightning.data.store.reader import HEADER, GraphStore, is_store, sha256_of_array
from pamt_lightning.data.store.writer import GraphStoreWriter, write_store
from pamt_lightning.data.synthetic import synthetic_graph
from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph

RAW = synthetic_graph(num_nodes=200, num_features=30, words_per_node=4)


def dense(raw: RawGraph) -> RawGraph:
    return replace(raw, features=as_array(raw.features))


def as_array(features: Any) -> np.ndarray:
    dense: np.ndarray = features.toarray() if hasattr(features, "toarray") else features
    return dense


def assert_same(found: RawGraph, expected: RawGraph) -> None:
    assert abs(found.adjacency - expected.adjacency).nnz == 0
    assert found.adjacency.has_canonical_format
    for name in ("labels", "node_ids"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    ours, theirs = found.features, expected.features
    assert sp.issparse(ours) == sp.issparse(theirs)
    np.testing.assert_array_equal(as_array(ours), as_array(theirs))
    assert found.class_names == expected.class_names
    assert found.feature_names == expected.feature_names


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 24])
@pytest.mark.parametrize("raw", [RAW, dense(RAW)], ids=["sparse", "dense"])
def test_a_graph_comes_back_whatever_is_sorted_at_once(
    raw: RawGraph, block: int, tmp_path: Path
) -> None:
    write_store(raw, tmp_path / "store", scale_features="none", block=block)
    store = GraphStore.open(tmp_path / "store")
    store.verify()
    assert_same(store.raw(), raw)
    assert store.header["num_edges"] == raw.num_edges
    assert is_store(store.folder)


def test_ids_names_and_split_come_back(tmp_path: Path) -> None:
    raw = RawGraph(
        simple_graph(sp.coo_array(([1.0, 1.0], ([0, 1], [1, 2])), shape=(3, 3))),
        np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32),
        np.array([0, -1, 1]),
        np.array(["a", "bbb", "ü"]),
        ("cat", "dög"),
        feature_names=("x", "y"),
        given_splits={"train": np.array([0]), "val": np.array([2]), "test": np.array([], int)},
    )
    write_store(raw, tmp_path / "store", scale_features="none")
    found = GraphStore.open(tmp_path / "store").raw()
    assert_same(found, raw)
    assert {part: list(index) for part, index in found.given_splits.items()} == {
        **{"train": [0], "val": [2], "test": []}
    }


@pytest.mark.parametrize("seed", range(30))
def test_edges_in_any_order_and_direction_make_the_simple_graph(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    num_nodes = int(random.integers(2, 12))
    ends = random.integers(num_nodes, size=(random.integers(1, 40), 2))
    shape = (num_nodes, num_nodes)
    expected = simple_graph(sp.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape))
    block = int(random.integers(1, 50))
    with GraphStoreWriter(tmp_path / "s", 1, ["a"], block=block) as writer:
        for some in np.array_split(ends, random.integers(1, 5)):
            writer.add_edges(some[:, 0], some[:, 1])
        writer.add_nodes(np.ones((num_nodes, 1)), np.zeros(num_nodes, dtype=np.int64))
    found = GraphStore.open(tmp_path / "s").adjacency
    assert abs(found - expected).nnz == 0
    assert found.nnz == expected.nnz


def test_attributes_stay_on_disk(tmp_path: Path) -> None:
    for name, raw in (("dense", dense(RAW)), ("sparse", RAW)):
        write_store(raw, tmp_path / name)
        features: Any = GraphStore.open(tmp_path / name).features
        graph = Graph.from_scipy(features, raw.adjacency, raw.labels, mapped=True)
        pairs: list[Any] = [(features, graph.x)]
        if name == "sparse":
            pairs = [(features.data, graph.x.values()), (features.indices, graph.x.col_indices())]
        for array, tensor in pairs:
            assert np.shares_memory(array, tensor.numpy()), name
            while not isinstance(array, np.memmap):
                array = array.base
                assert array is not None, name


@pytest.mark.parametrize("kind", ["l1", "none"])
@pytest.mark.parametrize("raw", [RAW, dense(RAW)], ids=["sparse", "dense"])
def test_attributes_are_written_scaled(raw: RawGraph, kind: ScaleName, tmp_path: Path) -> None:
    write_store(raw, tmp_path / "store", scale_features=kind)
    found = GraphStore.open(tmp_path / "store").raw()
    assert_same(found, replace(raw, features=Scaling(kind).apply(raw.features)))
    assert found.scaled is not None
    assert (found.scaled.kind, found.mapped) == (kind, True)


def test_by_default_words_get_length_one_and_measurements_are_standardised(tmp_path: Path) -> None:
    write_store(RAW, tmp_path / "words")
    assert GraphStore.open(tmp_path / "words").header["scaling"] == "l1"
    random = np.random.default_rng(0)
    values = (random.standard_normal((200, 30)) * 7 + 1e4).astype(np.float32)
    values[:, 3] = 5  # constant
    writer = GraphStoreWriter(tmp_path / "numbers", 30, RAW.class_names)
    with writer:  # in blocks of several sizes, one of them empty
        for rows in np.split(np.arange(200), [1, 50, 50, 51]):
            writer.add_nodes(values[rows], RAW.labels[rows])
        upper = sp.coo_array(RAW.adjacency)
        writer.add_edges(upper.row, upper.col)
    found = GraphStore.open(tmp_path / "numbers").raw()
    expected = Scaling.of(values)
    assert found.scaled is not None
    for name in ("mean", "std"):
        np.testing.assert_allclose(getattr(found.scaled, name), getattr(expected, name), rtol=1e-9)
    scaled: Any = expected.apply(values)
    np.testing.assert_allclose(as_array(found.features), scaled, atol=1e-5)
    again: Any = found.scaled.rescale(found.features, Scaling("standard", *unit(30)), "x")
    np.testing.assert_allclose(again, values, rtol=1e-5)
    assert found.scaled.rescale(found.features, found.scaled, "x") is found.features
    with pytest.raises(InputError, match="convert the graph again, with --scale_features l1"):
        found.scaled.rescale(found.features, Scaling("l1"), "x")


def unit(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation that change nothing."""
    return np.zeros(columns), np.ones(columns)


def test_sparse_attributes_cannot_be_standardised(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="would fill sparse attributes up"):
        write_store(RAW, tmp_path / "store", scale_features="standard")
    assert list(tmp_path.iterdir()) == []


def test_the_files_are_plain_numpy(tmp_path: Path) -> None:
    write_store(dense(RAW), tmp_path / "store", scale_features="none")
    features = np.load(tmp_path / "store" / "features.npy", allow_pickle=False)
    np.testing.assert_array_equal(features, as_array(RAW.features))
    header = json.loads((tmp_path / "store" / HEADER).read_text(encoding="utf-8"))
    assert header["arrays"]["features"]["sha256"] == sha256_of_array(features)
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == sorted(
        [HEADER, *(f"{name}.npy" for name in header["arrays"])]
    )


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> None:
        with GraphStoreWriter(tmp_path / "store", 30, RAW.class_names) as writer:
            writer.add_nodes(RAW.features, RAW.labels)
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_never_overwritten(tmp_path: Path) -> None:
    write_store(RAW, tmp_path / "store")
    before = (tmp_path / "store" / HEADER).read_bytes()
    with pytest.raises(InputError, match="is there already"):
        write_store(dense(RAW), tmp_path / "store")
    assert (tmp_path / "store" / HEADER).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


ONE = np.ones((2, 3))
TWO = np.zeros(2, dtype=np.int64)


@pytest.mark.parametrize(
    ("nodes", "edges", "told"),
    [
        ([(ONE[:, :2], TWO)], [], r"`features` of nodes 0 to 1 must be of shape \(2, 3\)"),
        ([(ONE * np.nan, TWO)], [], "`features` of nodes 0 to 1 must be finite"),
        ([(ONE * 1e39, TWO)], [], "must be finite"),
        ([(ONE, TWO), (sp.csr_array(ONE), TWO)], [], "sparse or dense as those before"),
        ([(ONE, TWO + 2)], [], "`labels` of nodes 0 to 1 must be whole numbers from -1 to 1"),
        ([(ONE, TWO - 2)], [], "must be whole numbers from -1 to 1"),
        ([(ONE, TWO.astype(float))], [], "must be whole numbers"),
        ([(ONE, TWO, np.array([1, 1]))], [([0], [1])], "`node_ids` must be distinct, got 1"),
        ([(ONE, TWO, np.array([1, 2])), (ONE, TWO)], [], "for all nodes or for none"),
        ([(ONE, TWO, np.array([1]))], [], "`node_ids` of nodes 0 to 1 must be 2"),
        ([(ONE, TWO, np.array([1.0, 2.0]))], [([0], [1])], "integers or texts, got float64"),
        ([(ONE, TWO)], [([0], [2])], "edges must join nodes 0 to 1, got 2"),
        ([(ONE, TWO)], [([0], [-1])], "positions of nodes from 0 on, got -1"),
        ([(ONE, TWO)], [([0.0], [1.0])], "two lists of whole numbers"),
        ([(ONE, TWO)], [([0, 1], [1])], "two lists of whole numbers of one length"),
        ([(ONE, TWO)], [], "must have nodes and edges"),
        ([], [([0], [1])], "must have nodes and edges"),
    ],
)
def test_what_cannot_be_a_graph_is_told(
    nodes: list[Any], edges: list[Any], told: str, tmp_path: Path
) -> None:
    def write() -> None:
        with GraphStoreWriter(tmp_path / "store", 3, ["a", "b"]) as writer:
            for block in nodes:
                writer.add_nodes(*block)
            for sources, targets in edges:
                writer.add_edges(np.array(sources), np.array(targets))

    with pytest.raises(InputError, match=told):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_writer_writes_only_inside_its_block(tmp_path: Path) -> None:
    writer = GraphStoreWriter(tmp_path / "store", 3, ["a"])
    with pytest.raises(InputError, match="inside of a `with` block"):
        writer.add_edges(TWO, TWO)
    with pytest.raises(InputError, match="inside of a `with` block"):
        writer.add_nodes(ONE, TWO)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write"):
        write_store(RAW, tmp_path / "store")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "zip"}, "must have `format` 'pamt-graph'"),
        ({"version": 2}, "has `version` 2; this program reads 1"),
        ({"num_nodes": "many"}, "has no valid `num_nodes`"),
        ({"num_nodes": 3}, r"must have `labels` of shape \(3,\), got \(200,\)"),
        ({"num_edges": 3}, r"must have `adjacency_indices` of shape \(6,\)"),
        ({"num_features": 3}, r"must have `features` of shape \(200, 3\)"),
        ({"arrays": {}}, "has no array `adjacency_indptr`"),
        ({"arrays": {"labels": {}}}, "must give `dtype`, `shape` and `sha256` of 'labels'"),
    ],
)
def test_a_header_that_is_wrong_is_told(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    write_store(dense(RAW), tmp_path / "store")
    path = tmp_path / "store" / HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=told) as raised:
        GraphStore.open(tmp_path / "store")
    assert HEADER in str(raised.value)


def test_files_that_are_damaged_are_told(tmp_path: Path) -> None:
    write_store(RAW, tmp_path / "store")
    store = GraphStore.open(tmp_path / "store")
    labels = tmp_path / "store" / "labels.npy"
    whole = labels.read_bytes()
    labels.write_bytes(whole[:-1] + b"\x07")
    with pytest.raises(InputError, match=r"labels\.npy is damaged"):
        GraphStore.open(store.folder).verify()
    labels.write_bytes(whole[:-8])
    with pytest.raises(InputError, match=r"labels\.npy cannot be read"):
        GraphStore.open(store.folder)
    np.save(labels, RAW.labels[:-1])
    with pytest.raises(InputError, match=r"labels\.npy must be int32 of shape \(200,\)"):
        GraphStore.open(store.folder)
    labels.unlink()
    with pytest.raises(InputError, match=r"labels\.npy is missing"):
        GraphStore.open(store.folder)
    (store.folder / HEADER).write_text("{")
    with pytest.raises(InputError, match=r"graph\.json cannot be read"):
        GraphStore.open(store.folder)
    (store.folder / HEADER).unlink()
    with pytest.raises(InputError, match=r"is no graph store: it has no graph\.json"):
        GraphStore.open(store.folder)


SPLIT = {"train": np.arange(5), "val": np.arange(5, 9), "test": np.arange(0)}


def change_array(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Replace an array of a store, or take it away, and say so in the header."""
    path, header = folder / f"{name}.npy", folder / HEADER
    content = json.loads(header.read_text())
    array = change(np.load(path))
    if array is None:
        del content["arrays"][name]
    else:
        np.save(path, array)
        content["arrays"][name] |= {"shape": list(array.shape), "dtype": array.dtype.str}
    header.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("sparse", "name", "change", "told"),
    [
        (True, "features_data", lambda x: x[:-1], "`features_data` of shape"),
        (True, "features_indices", lambda x: x[:-1], "`features_indices` of shape"),
        (True, "adjacency_indices", lambda x: x[:-2], "`adjacency_indices` of shape"),
        (False, "features_mean", lambda x: x[:-1], "`features_mean` of shape"),
        (False, "features_std", lambda x: None, "must have `features_std` beside"),
        (True, "train_index", lambda x: x + 200, "positions below 200 in `train_index`, got 200"),
        (True, "val_index", lambda x: x - 6, "positions below 200 in `val_index`, got -1"),
        (True, "val_index", lambda x: None, "must have `val_index` beside"),
        (True, "val_index", lambda x: x[:, None], "whole numbers in `val_index`"),
        (True, "val_index", lambda x: x + 0.5, "whole numbers in `val_index`, got float64"),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_told(
    sparse: bool, name: str, change: Callable[[Any], Any], told: str, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    write_store(replace(RAW if sparse else dense(RAW), given_splits=SPLIT), folder)
    assert GraphStore.open(folder).num_edges == RAW.num_edges
    change_array(folder, name, change)
    with pytest.raises(InputError, match=told):
        GraphStore.open(folder)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("adjacency_indices", 3, -1),
        ("adjacency_indices", 3, 200),
        ("adjacency_indptr", 0, 1),
        ("adjacency_indptr", 5, 10**6),
    ],
)
def test_edges_to_no_node_are_told(name: str, place: int, value: int, tmp_path: Path) -> None:
    write_store(RAW, tmp_path / "store")
    path = tmp_path / "store" / f"{name}.npy"
    array = np.load(path)
    array[place] = value
    np.save(path, array)
    with pytest.raises(InputError, match=rf"{name}\.npy is damaged: it has entries of no node"):
        GraphStore.open(tmp_path / "store").raw()


def test_a_scaling_that_needs_no_moments_has_none(tmp_path: Path) -> None:
    write_store(dense(RAW), tmp_path / "store")
    path = tmp_path / "store" / HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), "scaling": "none"}))
    with pytest.raises(InputError, match="must not have `features_mean` beside"):
        GraphStore.open(tmp_path / "store")


@pytest.mark.parametrize(("dtype", "row_shape"), [("<i4", ()), ("<f4", (3,)), ("<U5", ())])
def test_a_stream_is_what_numpy_saves(
    dtype: str, row_shape: tuple[int, ...], tmp_path: Path
) -> None:
    rows = np.arange(12).reshape(-1, *row_shape).astype(dtype)
    stream = NpyStream(tmp_path / "a.npy", dtype, row_shape)
    for part in (rows[:1], rows[1:3], rows[:0], rows[3:]):
        stream.append(part)
    facts = stream.close()
    found = np.load(tmp_path / "a.npy", allow_pickle=False)
    assert found.dtype == rows.dtype
    np.testing.assert_array_equal(found, rows)
    assert facts == {
        **{"dtype": dtype, "shape": list(rows.shape)},
        **{"sha256": sha256_of_array(rows)},
    }
    with pytest.raises(ValueError, match="`rows` must be of shape"):
        stream.append(np.zeros((2, 9)))


def test_columns_in_another_order_are_scaled_as_the_models(tmp_path: Path) -> None:
    """A store has the scaling of its own columns, a model that of those it was trained on."""
    values = np.array([[1, 100], [2, 500], [3, 200], [9, 700]], dtype=np.float32)
    edges = simple_graph(sp.coo_array(([1.0, 1.0], ([0, 2], [1, 3])), shape=(4, 4)))
    labels = np.array([0, 1, 0, 1])
    for name, order in (("ab", [0, 1]), ("ba", [1, 0])):
        names = tuple(np.array(["a", "b"])[order])
        ids = np.arange(4)
        raw = RawGraph(edges, values[:, order], labels, ids, ("x", "y"), feature_names=names)
        write_store(raw, tmp_path / name)
    first, second = (GraphDataModule(path=str(tmp_path / n), train=1, val=1) for n in ("ab", "ba"))
    first.setup("fit")
    second.expect_features(first.state_dict())
    second.setup("predict")
    np.testing.assert_allclose(second.graph.x.numpy(), first.graph.x.numpy(), rtol=1e-5, atol=1e-6)
