"""The format of a graph store: a folder of plain ``.npy`` arrays that are mapped, not read.

docs/large_graphs.md lists the arrays. Opening a store checks the header and the shapes,
`GraphStore.raw` the positions of nodes, `GraphStore.verify` every byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.raw import RawGraph, check_positions
from pamt_lightning.data.scaling import Scaling
from pamt_lightning.errors import InputError

HEADER = "graph.json"
FORMAT, VERSION = "pamt-graph", 1
_SIZES = ("num_nodes", "num_edges", "num_features")
_KINDS = {
    **dict.fromkeys(_SIZES, int),
    **{"class_names": list, "feature_names": list, "scaling": str, "arrays": dict},
}
_SPARSE = ("features_indptr", "features_indices", "features_data")
_MOMENTS = ("features_mean", "features_std")
_SPLIT = ("train_index", "val_index", "test_index")

Array = npt.NDArray[Any]


def is_store(path: Path) -> bool:
    """Whether a folder is a graph store, complete or not."""
    return (path / HEADER).is_file()


class GraphStore:
    """An open graph store: its header is read, its arrays are mapped.

    Attributes:
        folder: Its folder.
        header: The content of ``graph.json``.
        arrays: The arrays by name, mapped copy-on-write: changes never reach the disk.

    Raises:
        InputError: The header cannot be read or is of another version, or an array is missing or
            has another type or shape than the header requires.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.header = _read_header(self.folder / HEADER)
        self.num_nodes, self.num_edges, self.num_features = (int(self.header[n]) for n in _SIZES)
        facts: Mapping[str, Any] = self.header["arrays"]
        self.arrays = {name: _mapped(self.folder, name, facts[name]) for name in facts}
        self._check_arrays()

    @property
    def features(self) -> sp.csr_array | Array:
        """The attributes ``[n, d]``, mapped: dense, or a CSR matrix of mapped arrays."""
        if "features" in self.arrays:
            return self.arrays["features"]
        indptr, indices, data = (self.arrays[name] for name in _SPARSE)
        if len(indices) < np.iinfo(np.int32).max:
            # With two index types SciPy would convert the indices, in memory.
            indptr = indptr.astype(indices.dtype)
        return sp.csr_array((data, indices, indptr), shape=(self.num_nodes, self.num_features))

    @property
    def adjacency(self) -> sp.csr_array:
        """The adjacency ``[n, n]``; its ones are made here, as they are not stored."""
        indptr, indices = self.arrays["adjacency_indptr"], self.arrays["adjacency_indices"]
        if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
            raise self._damaged("adjacency_indptr", "row pointers must rise from 0")
        if indices.min(initial=0) < 0 or indices.max(initial=-1) >= self.num_nodes:
            raise self._damaged("adjacency_indices", "an entry is not a node of the graph")
        ones = np.ones(len(indices), dtype=np.float32)
        return sp.csr_array((ones, indices, indptr), shape=(self.num_nodes, self.num_nodes))

    def raw(self) -> RawGraph:
        """The graph, its attributes still on disk."""
        arrays, facts = self.arrays, self.header["arrays"]
        moments = (np.array(arrays[name]) if name in arrays else None for name in _MOMENTS)
        ids = arrays.get("node_ids")
        return RawGraph(
            adjacency=self.adjacency,
            features=self.features,
            labels=arrays["labels"].astype(np.int64),
            node_ids=np.arange(self.num_nodes) if ids is None else np.array(ids),
            class_names=tuple(self.header["class_names"]),
            hashes={f"{name}.npy": str(fact["sha256"]) for name, fact in facts.items()},
            feature_names=tuple(self.header["feature_names"]),
            scaled=Scaling(self.header["scaling"], *moments),
            mapped=True,
            given_splits={
                name.removesuffix("_index"): check_positions(
                    arrays[name], self.num_nodes, f"{self.folder / name}.npy"
                )
                for name in _SPLIT
                if name in arrays
            },
        )

    def verify(self) -> None:
        """Read every byte; an InputError names the array that is not the one that was written."""
        for name, facts in self.header["arrays"].items():
            found = sha256_of_array(self.arrays[name])
            if found != facts["sha256"]:
                raise self._damaged(name, f"{HEADER} gives SHA-256 {facts['sha256']}, got {found}")

    def _check_arrays(self) -> None:
        """Check that the arrays fit each other: mapped memory is read without bounds checks."""
        arrays, nodes, columns = self.arrays, self.num_nodes, self.num_features
        required = {"adjacency_indptr", "adjacency_indices", "labels"}
        required |= set() if "features" in arrays else {*_SPARSE}
        required |= {*_MOMENTS} if self.header["scaling"] == "standard" else set()
        required |= {*_SPLIT} if {*_SPLIT} & set(arrays) else set()
        if missing := sorted(required - set(arrays)):
            raise self._error(f"has no array `{missing[0]}`")
        if extra := sorted({*_MOMENTS} & set(arrays) - required):
            raise self._error(f"must not have `{extra[0]}` unless it is scaled by 'standard'")
        self._check_shapes((nodes,), "labels", "node_ids")
        self._check_shapes((nodes + 1,), "adjacency_indptr", "features_indptr")
        self._check_shapes((columns,), *_MOMENTS)
        self._check_shapes((nodes, columns), "features")
        self._check_shapes((2 * self.num_edges,), "adjacency_indices")
        self._check_shapes((int(arrays["adjacency_indptr"][-1]),), "adjacency_indices")
        if "features" not in arrays:
            self._check_shapes((int(arrays["features_indptr"][-1]),), *_SPARSE[1:])

    def _check_shapes(self, shape: tuple[int, ...], *names: str) -> None:
        for name in names:
            if name in self.arrays and self.arrays[name].shape != shape:
                found = self.arrays[name].shape
                raise self._error(f"must have `{name}` of shape {shape}, got {found}")

    def _damaged(self, name: str, why: str) -> InputError:
        path = self.folder / f"{name}.npy"
        return InputError(f"{path} is damaged: {why}. Copy or convert the graph again.")

    def _error(self, what: str) -> InputError:
        return InputError(f"{self.folder / HEADER} {what}. Convert the graph again.")


def sha256_of_array(array: Array) -> str:
    """SHA-256 of the bytes of an array."""
    return hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path.parent} is not a graph store: it has no {HEADER}.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}). Convert the graph again.") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path} must have `format` {FORMAT!r}: this is not a graph store.")
    if header.get("version") != VERSION:
        raise InputError(
            f"{path} has `version` {header.get('version')!r}; this program reads {VERSION}. "
            "Use the program that wrote it, or convert the graph again."
        )
    for name, kind in _KINDS.items():
        if not isinstance(header.get(name), kind):
            raise InputError(f"{path} has no valid `{name}`. Convert the graph again.")
    return header


def _mapped(folder: Path, name: str, facts: Any) -> Array:
    path = folder / f"{name}.npy"
    try:
        dtype, shape, _ = np.dtype(facts["dtype"]), tuple(facts["shape"]), facts["sha256"]
    except (KeyError, TypeError):
        raise InputError(
            f"{folder / HEADER} must give `dtype`, `shape` and `sha256` of {name!r}. "
            "Convert the graph again."
        ) from None
    try:
        array: Array = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = "is missing" if not path.exists() else f"cannot be read ({error})"
        raise InputError(f"{path} {reason}. Copy or convert the graph again.") from None
    if (array.dtype, array.shape) != (dtype, shape):
        raise InputError(
            f"{path} must be {dtype} of shape {shape} as given in {HEADER}, "
            f"got {array.dtype} of shape {array.shape}. Copy or convert the graph again."
        )
    return array


class NpyStream:
    """A ``.npy`` file that is written row by row: its header is completed when it is closed."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.dtype, self.row_shape, self.num_rows = np.dtype(dtype), row_shape, 0
        self._digest = hashlib.sha256()
        self.file = path.open("wb")
        self._write_header()

    def append(self, rows: Array) -> None:
        """Add rows; values are converted to the type of the array."""
        data = np.ascontiguousarray(rows, dtype=self.dtype).reshape(-1).view(np.uint8).data
        self.file.write(data)
        self._digest.update(data)
        self.num_rows += len(rows)

    def close(self) -> dict[str, Any]:
        """Complete the header and close the file; returns its type, shape and SHA-256."""
        self.file.seek(0)
        shape = self._write_header()
        self.file.close()
        return {"dtype": self.dtype.str, "shape": shape, "sha256": self._digest.hexdigest()}

    def _write_header(self) -> list[int]:
        shape = [self.num_rows, *self.row_shape]
        facts = {"descr": self.dtype.str, "fortran_order": False, "shape": tuple(shape)}
        # NumPy pads the header, so that its length does not depend on the number of rows.
        np.lib.format.write_array_header_1_0(self.file, facts)
        return shape
