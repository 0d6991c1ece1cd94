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

SPLIT = {"train": np.arange(5), "val": np.arange(5, 9), "test": np.arange(0)}


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    write_store(replace(RAW, given_splits=SPLIT), tmp_path / "sparse")
    return tmp_path / "sparse"


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    write_store(DENSE, tmp_path / "dense")
    return tmp_path / "dense"


def test_attributes_stay_on_disk(sparse: Path, dense: Path) -> None:
    features: list[Any] = [GraphStore(folder).features for folder in (sparse, dense)]
    x, y = (
        Graph.from_arrays(f, RAW.adjacency, RAW.labels, RAW.class_names, mapped=True).x
        for f in features
    )
    (words, numbers), values, columns = features, x.values(), x.col_indices()
    pairs: list[Any] = [(words.data, values), (words.indices, columns), (numbers, y)]
    for array, tensor in pairs:
        assert np.shares_memory(array, tensor.numpy())
        while not isinstance(array, np.memmap):
            array = array.base
            assert array is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "zip"}, "must have `format` 'pamt-graph'"),
        ({"version": 2}, "has `version` 2; this program reads 1"),
        ({"num_nodes": "many"}, "has no valid `num_nodes`"),
        ({"num_nodes": 3}, r"must have `labels` of shape \(3,\), got \(200,\)"),
        ({"num_edges": 3}, r"must have `adjacency_indices` of shape \(6,\)"),
        ({"num_features": 3}, r"must have `features_mean` of shape \(3,\)"),
        ({"scaling": "none"}, "must not have `features_mean`"),
        ({"scaling": "standard"}, "has no array `features_mean`"),
        ({"arrays": {}}, "has no array `adjacency_ind"),
        ({"arrays": {"labels": {}}}, "must give `dtype`, `shape` and `sha256` of 'labels'"),
    ],
)
def test_a_header_that_is_wrong_is_reported(
    change: dict[str, Any], message: str, dense: Path, sparse: Path
) -> None:
    folder = sparse if change == {"scaling": "standard"} else dense
    path = folder / HEADER
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=message) as raised:
        GraphStore(folder)
    assert HEADER in str(raised.value)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("labels.npy", lambda data: data[:-1] + b"\x07", r"labels\.npy is damaged"),
        ("labels.npy", lambda data: data[:-8], r"labels\.npy cannot be read"),
        ("labels.npy", None, r"labels\.npy is missing"),
        (
            "labels.npy",
            lambda data: data.replace(b"200", b"100"),
            r"labels\.npy must be int32 of shape \(200,\)",
        ),
        (HEADER, lambda data: b"{", r"graph\.json cannot be read"),
        (HEADER, None, r"is not a graph store: .*graph\.json"),
    ],
)
def test_files_that_are_damaged_are_reported(
    name: str, damage: Callable[[bytes], bytes] | None, message: str, sparse: Path
) -> None:
    path = sparse / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        GraphStore(sparse).verify()


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


def put(place: int, value: int) -> Callable[[Any], Any]:
    """Another value at one place of an array."""
    return lambda array: np.where(np.arange(len(array)) == place, value, array)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("features_data", lambda x: x[:-1], "`features_data` of shape"),
        ("features_indices", lambda x: x[:-1], "`features_indices` of shape"),
        ("adjacency_indices", lambda x: x[:-2], "`adjacency_indices` of shape"),
        ("adjacency_indices", put(3, -1), r"adjacency_indices\.npy is damaged"),
        ("adjacency_indices", put(3, 200), r"adjacency_indices\.npy is damaged"),
        ("adjacency_indptr", put(0, 1), r"adjacency_indptr\.npy is damaged"),
        ("adjacency_indptr", put(5, 10**6), r"adjacency_indptr\.npy is damaged"),
        ("train_index", lambda x: x + 200, r"train_index\.npy must hold .* 0 to 199, got 200"),
        ("val_index", lambda x: x - 6, r"val_index\.npy must hold .* 0 to 199, got -1"),
        ("val_index", lambda x: None, "has no array `val_index`"),
        ("val_index", lambda x: x[:, None], r"val_index\.npy must be .*integers with 1 dim"),
        ("val_index", lambda x: x + 0.5, r"val_index\.npy must be .*integers.* got float64"),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_reported(
    name: str, change: Callable[[Any], Any], message: str, sparse: Path
) -> None:
    change_array(sparse, name, change)
    with pytest.raises(InputError, match=message):
        GraphStore(sparse).raw()


@pytest.mark.parametrize(("dtype", "row_shape"), [("<i4", ()), ("<f4", (3,)), ("<U5", ())])
def test_a_stream_is_what_numpy_saves(
    dtype: str, row_shape: tuple[int, ...], tmp_path: Path
) -> None:
    rows = np.arange(12).reshape(-1, *row_shape).astype(dtype)
    stream = NpyStream(tmp_path / "a.npy", dtype, row_shape)
    for part in (rows[:1], rows[1:3], rows[:0], rows[3:]):
        stream.append(part)
    facts = stream.close()
    np.save(tmp_path / "b.npy", rows)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert facts == {"dtype": dtype, "shape": [*rows.shape], "sha256": sha256_of_array(rows)}
