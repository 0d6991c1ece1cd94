"""Opening graph stores: what is damaged or does not fit together is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pamt_lightning.data.store.format import HEADER, GraphStore, NpyStream, sha256_of_array
from pamt_lightning.data.store.writer import write_store
from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph
from tests.data.store.graphs import DENSE, RAW


def test_attributes_stay_on_disk(tmp_path: Path) -> None:
    for name, raw in (("dense", DENSE), ("sparse", RAW)):
        write_store(raw, tmp_path / name)
        features: Any = GraphStore(tmp_path / name).features
        graph = Graph.from_scipy(features, raw.adjacency, raw.labels, mapped=True)
        pairs: list[Any] = [(features, graph.x)]
        if name == "sparse":
            pairs = [(features.data, graph.x.values()), (features.indices, graph.x.col_indices())]
        for array, tensor in pairs:
            assert np.shares_memory(array, tensor.numpy()), name
            while not isinstance(array, np.memmap):
                array = array.base
                assert array is not None, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "zip"}, "must have `format` 'pamt-graph'"),
        ({"version": 2}, "has `version` 2; this program reads 1"),
        ({"num_nodes": "many"}, "has no valid `num_nodes`"),
        ({"num_nodes": 3}, r"must have `labels` of shape \(3,\), got \(200,\)"),
        ({"num_edges": 3}, r"must have `adjacency_indices` of shape \(6,\)"),
        ({"num_features": 3}, r"must have `features_mean` of shape \(3,\)"),
        ({"arrays": {}}, "has no array `adjacency_ind"),
        ({"arrays": {"labels": {}}}, "must give `dtype`, `shape` and `sha256` of 'labels'"),
    ],
)
def test_a_header_that_is_wrong_is_reported(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_store(DENSE, tmp_path / "store")
    path = tmp_path / "store" / HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=message) as raised:
        GraphStore(tmp_path / "store")
    assert HEADER in str(raised.value)


def test_files_that_are_damaged_are_reported(tmp_path: Path) -> None:
    write_store(RAW, tmp_path / "store")
    store = GraphStore(tmp_path / "store")
    labels = tmp_path / "store" / "labels.npy"
    whole = labels.read_bytes()
    labels.write_bytes(whole[:-1] + b"\x07")
    with pytest.raises(InputError, match=r"labels\.npy is damaged"):
        GraphStore(store.folder).verify()
    labels.write_bytes(whole[:-8])
    with pytest.raises(InputError, match=r"labels\.npy cannot be read"):
        GraphStore(store.folder)
    np.save(labels, RAW.labels[:-1])
    with pytest.raises(InputError, match=r"labels\.npy must be int32 of shape \(200,\)"):
        GraphStore(store.folder)
    labels.unlink()
    with pytest.raises(InputError, match=r"labels\.npy is missing"):
        GraphStore(store.folder)
    (store.folder / HEADER).write_text("{")
    with pytest.raises(InputError, match=r"graph\.json cannot be read"):
        GraphStore(store.folder)
    (store.folder / HEADER).unlink()
    with pytest.raises(InputError, match=r"is not a graph store: .*graph\.json"):
        GraphStore(store.folder)


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
    ("sparse", "name", "change", "message"),
    [
        (True, "features_data", lambda x: x[:-1], "`features_data` of shape"),
        (True, "features_indices", lambda x: x[:-1], "`features_indices` of shape"),
        (True, "adjacency_indices", lambda x: x[:-2], "`adjacency_indices` of shape"),
        (False, "features_mean", lambda x: x[:-1], "`features_mean` of shape"),
        (False, "features_std", lambda x: None, "has no array `features_std`"),
        (
            True,
            "train_index",
            lambda x: x + 200,
            r"train_index\.npy must hold .* 0 to 199, got 200",
        ),
        (True, "val_index", lambda x: x - 6, r"val_index\.npy must hold .* 0 to 199, got -1"),
        (True, "val_index", lambda x: None, "has no array `val_index`"),
        (True, "val_index", lambda x: x[:, None], r"val_index\.npy must be .*integers with 1 dim"),
        (True, "val_index", lambda x: x + 0.5, r"val_index\.npy must be .*integers.* got float64"),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_reported(
    sparse: bool, name: str, change: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    write_store(replace(RAW if sparse else DENSE, given_splits=SPLIT), folder)
    assert GraphStore(folder).num_edges == RAW.num_edges
    change_array(folder, name, change)
    with pytest.raises(InputError, match=message):
        GraphStore(folder).raw()


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("adjacency_indices", 3, -1),
        ("adjacency_indices", 3, 200),
        ("adjacency_indptr", 0, 1),
        ("adjacency_indptr", 5, 10**6),
    ],
)
def test_edges_to_no_node_are_reported(name: str, place: int, value: int, tmp_path: Path) -> None:
    write_store(RAW, tmp_path / "store")
    path = tmp_path / "store" / f"{name}.npy"
    array = np.load(path)
    array[place] = value
    np.save(path, array)
    with pytest.raises(InputError, match=rf"{name}\.npy is damaged"):
        GraphStore(tmp_path / "store").raw()


def test_a_scaling_that_needs_no_moments_has_none(tmp_path: Path) -> None:
    write_store(DENSE, tmp_path / "store")
    path = tmp_path / "store" / HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), "scaling": "none"}))
    with pytest.raises(InputError, match="must not have `features_mean`"):
        GraphStore(tmp_path / "store")


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
