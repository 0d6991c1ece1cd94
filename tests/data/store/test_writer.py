"""Writing graph stores: what is written comes back, whatever the blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.data.scaling import ScaleName, Scaling
from pamt_lightning.data.store.format import HEADER, GraphStore
from pamt_lightning.data.store.writer import GraphStoreWriter, write_store, write_synthetic
from pamt_lightning.data.synthetic import SyntheticOptions
from pamt_lightning.errors import InputError
from pamt_lightning.interop.edges import adjacency_of
from pamt_lightning.interop.table import AttributeTable
from tests.data.store.graphs import DENSE, RAW, as_array, assert_same

SPLIT = {"train": np.array([0]), "val": np.array([2]), "test": np.array([], int)}
NAMED = RawGraph(
    adjacency_of(np.array([0, 1]), np.array([1, 2]), 3),
    np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32),
    np.array([0, -1, 1]),
    np.array(["a", "bbb", "ü"]),
    ("cat", "dög"),
    feature_names=("x", "y"),
    given_splits=SPLIT,
)


@pytest.mark.parametrize("kind", ["l1", "l2", "none"])
@pytest.mark.parametrize("raw", [RAW, DENSE, NAMED], ids=["sparse", "dense", "named"])
def test_a_graph_comes_back_scaled(raw: RawGraph, kind: ScaleName, tmp_path: Path) -> None:
    write_store(raw, tmp_path / "store", scale_features=kind)
    store = GraphStore(tmp_path / "store")
    store.verify()
    found = store.raw()
    assert_same(found, replace(raw, features=Scaling(kind).apply(raw.features)))
    np.testing.assert_equal({**found.given_splits}, {**raw.given_splits})
    assert found.scaled is not None
    assert (found.scaled.kind, found.mapped, store.num_edges) == (kind, True, raw.num_edges)
    files = {path.name for path in store.folder.iterdir()}
    assert files == {HEADER, *(f"{name}.npy" for name in store.arrays)}


def test_by_default_words_get_length_one_and_measurements_are_standardised(tmp_path: Path) -> None:
    write_store(RAW, tmp_path / "words")
    assert GraphStore(tmp_path / "words").header["scaling"] == "l2"
    random = np.random.default_rng(0)
    values = (random.standard_normal((200, 30)) * 7 + 1e4).astype(np.float32)
    values[:, 3] = 5  # constant
    with GraphStoreWriter(tmp_path / "numbers", 30, RAW.class_names) as writer:
        for rows in np.split(np.arange(200), [1, 50, 50, 51]):  # one block is empty
            writer.add_nodes(values[rows], RAW.labels[rows])
        writer.add_edges(*RAW.adjacency.nonzero())
    found = GraphStore(tmp_path / "numbers").raw()
    expected = Scaling.of(values)
    assert found.scaled is not None
    for name in ("mean", "std"):
        np.testing.assert_allclose(getattr(found.scaled, name), getattr(expected, name), rtol=1e-9)
    scaled: Any = expected.apply(values)
    np.testing.assert_allclose(as_array(found.features), scaled, atol=1e-5)
    assert found.scaled.rescale(found.features, found.scaled, "x") is found.features
    with pytest.raises(InputError, match="--scale_features l1"):
        found.scaled.rescale(found.features, Scaling("l1"), "x")


def test_a_store_is_never_overwritten_and_lies_in_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    for folder, message in ((path, "exists already"), (path / "store", "cannot write .*Not a dir")):
        with pytest.raises(InputError, match=message):
            write_store(RAW, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "mine"


ONE = np.ones((2, 3))
TWO = np.zeros(2, dtype=np.int64)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ([(ONE[:, :2], TWO)], [], r"`features` of nodes 0 to 1 must be of shape \(2, 3\)"),
        ([(ONE * np.nan, TWO)], [], "`features` of nodes 0 to 1 must be finite"),
        ([(ONE * 1e39, TWO)], [], "must be finite"),
        ([(ONE, TWO), (sp.csr_array(ONE), TWO)], [], "sparse or dense as those before"),
        ([(sp.csr_array(ONE), TWO)], [], "would make sparse"),
        ([(ONE, TWO + 2)], [], "`labels` of nodes 0 to 1 must be integers from -1 to 1"),
        ([(ONE, TWO - 2)], [], "must be integers from -1 to 1"),
        ([(ONE, TWO.astype(str))], [], "must be integers"),
        ([(ONE, TWO, np.array([1, 1]))], [([0], [1])], "`node_ids` must be distinct, got 1"),
        ([(ONE, TWO, np.array([1, 2])), (ONE, TWO)], [], "for all nodes or for none"),
        ([(ONE, TWO, np.array([1]))], [], "`node_ids` of nodes 0 to 1 must be 2"),
        ([(ONE, TWO, np.array([1.0, 2.0]))], [([0], [1])], "integers or texts, got float64"),
        ([(ONE, TWO)], [([0], [2])], "edges must join nodes 0 to 1, got 2"),
        ([(ONE, TWO)], [([0], [-1])], "from 0 on, got -1"),
        ([(ONE, TWO)], [([0.0], [1.0])], "integers .*float64"),
        ([(ONE, TWO)], [([0, 1], [1])], "two lists of integers of one length"),
        ([(ONE, TWO)], [], "must have nodes and edges"),
        ([(ONE, TWO)], [([1], [1])], "must have nodes and edges"),
        ([], [([0], [1])], "must have nodes and edges"),
    ],
)
def test_what_cannot_be_a_graph_is_refused_and_leaves_nothing_behind(
    nodes: list[Any], edges: list[Any], message: str, tmp_path: Path
) -> None:
    def write() -> None:
        store = tmp_path / "store"
        with GraphStoreWriter(store, 3, ["a", "b"], scale_features="standard") as writer:
            for block in nodes:
                writer.add_nodes(*block)
            for sources, targets in edges:
                writer.add_edges(np.array(sources), np.array(targets))

    with pytest.raises(InputError, match=message):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_writer_without_its_block_is_refused(tmp_path: Path) -> None:
    writer = GraphStoreWriter(tmp_path / "store", 3, ["a", "b"])
    with pytest.raises(InputError, match="with GraphStoreWriter"):
        writer.add_nodes(ONE, TWO)
    with pytest.raises(InputError, match="with GraphStoreWriter"):
        writer.add_edges(np.array([0]), np.array([1]))
    assert list(tmp_path.iterdir()) == []


def test_columns_in_another_order_are_scaled_as_the_models(tmp_path: Path) -> None:
    """A store has the scaling of its own columns, a model that of those it was trained on."""
    values = np.array([[1, 100], [2, 500], [3, 200], [9, 700]], dtype=np.float32)
    edges = adjacency_of(np.array([0, 2]), np.array([1, 3]), 4)
    raw = RawGraph(edges, values, np.array([0, 1, 0, 1]), np.arange(4), ("x", "y"))
    write_store(replace(raw, feature_names=("a", "b")), tmp_path / "ab")
    turned = replace(raw, features=values[:, ::-1], feature_names=("b", "a"))
    write_store(turned, tmp_path / "ba")
    first, second = (GraphDataModule(path=str(tmp_path / n), train=1, val=1) for n in ("ab", "ba"))
    first.setup("fit")
    second.match_model(first.state_dict())
    second.setup("predict")
    np.testing.assert_allclose(second.graph.x.numpy(), first.graph.x.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("words", "is_sparse"), [(4.0, True), (25.0, False)])
def test_a_synthetic_graph_is_drawn_into_a_store_in_blocks(
    words: float, is_sparse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pamt_lightning.data.store.writer._DRAWN_NODES", 700)
    monkeypatch.setattr("pamt_lightning.data.store.writer._DRAWN_EDGES", 900)
    options = SyntheticOptions(2000, 4, 30, 6.0, homophily=0.8, words_per_node=words)
    write_synthetic(tmp_path / "store", options, "none")
    raw = GraphStore(tmp_path / "store").raw()
    assert sp.issparse(raw.features) == is_sparse
    assert raw.features.shape == (2000, 30)
    assert np.bincount(raw.labels).tolist() == [500] * 4
    assert 0.97 * 6000 < raw.num_edges <= 6000  # pairs drawn twice count once
    ends = sp.coo_array(raw.adjacency)
    assert (raw.labels[ends.row] == raw.labels[ends.col]).mean() == pytest.approx(0.8, abs=0.02)
    with pytest.raises(InputError, match="`homophily`"):
        write_synthetic(tmp_path / "other", SyntheticOptions(homophily=2.0))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_weights_are_refused_and_encoded_columns_are_not_scaled_again(tmp_path: Path) -> None:
    weighted = RAW.adjacency.copy()
    weighted.data = weighted.data * 2
    with pytest.raises(InputError, match="these have weights"):
        write_store(replace(RAW, adjacency=weighted), tmp_path / "weighted")
    assert not list(tmp_path.iterdir())
    table = AttributeTable.fit(pd.DataFrame({"a": ["x", "y"] * 100}))
    mixed = replace(RAW, features=table.features, feature_names=("a=x", "a=y", "a=other"))
    write_store(replace(mixed, table=table), tmp_path / "mixed")
    assert GraphStore(tmp_path / "mixed").header["scaling"] == "none"
