"""A graph from one ``.npz`` file; docs/own_graphs.md lists its keys.

Other keys are not read. Nothing is ever unpickled.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.own.options import ReadOptions
from pamt_lightning.data.raw import RawGraph, check_distinct, check_positions
from pamt_lightning.errors import InputError, error_context
from pamt_lightning.interop.features import Features, fits_float32, pack_features
from pamt_lightning.interop.labels import IntArray, number_labels, sort_class_names

Array = npt.NDArray[Any]

# What a key may hold: values of `numpy.dtype.kind`, and how to convert other arrays.
_KINDS = {
    "numbers": ("biuf", "astype(float)"),
    "integers": ("iu", "astype(int)"),
    "texts": ("U", "astype(str)"),
    "integers or texts": ("iuU", "astype(int) or .astype(str)"),
}
_CSR_PARTS = ("data", "indices", "indptr", "shape")
_UNREADABLE = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error)


def read_npz(
    path: str | Path,
    data: bytes | None = None,
    ignored: Collection[str] = (),
    options: ReadOptions | None = None,
) -> RawGraph:
    """Read the graph in an ``.npz`` file, see `NpzArchive`; the caller adds the file's hash."""
    with closing(NpzArchive(path, data, ignored)) as archive:
        features = _features(archive)
        num_nodes = int(features.shape[0])
        labels, class_names = _labels(archive, num_nodes)
        adjacency, found = _adjacency(archive, num_nodes, options or ReadOptions(weights=False))
        parts = {part: f"{part}_index" for part in ("train", "val", "test")}
        has_split = not {*archive.keys}.isdisjoint(parts.values())
        return RawGraph(
            adjacency=adjacency,
            notes=(found,),
            features=features,
            labels=labels,
            node_ids=_node_ids(archive, num_nodes),
            class_names=class_names,
            given_splits=archive.read_split(parts, num_nodes) if has_split else {},
        )


class NpzArchive:
    """An open ``.npz`` file whose arrays are checked as they are read; nothing is unpickled.

    A defect raises an `InputError` that names the file and the key.

    Args:
        path: The file.
        data: Its bytes, if they have been read already.
        ignored: Keys that are treated as absent.
    """

    def __init__(
        self, path: str | Path, data: bytes | None = None, ignored: Collection[str] = ()
    ) -> None:
        try:
            file = np.load(path if data is None else io.BytesIO(data), allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array, .npy")
        except _UNREADABLE as error:
            raise InputError(
                f"{path}: this is not a readable .npz file ({error}). Write it again with "
                "numpy.savez_compressed(path, key=array, ...)."
            ) from None
        self.path, self._file = path, file
        self.keys = tuple(key for key in file.files if key not in ignored)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def error(self, key: str, expectation: str, got: object, fix: str) -> InputError:
        """An error about one key."""
        return InputError(f"{self.path}: key `{key}` must be {expectation}, got {got}. {fix}")

    def require(self, keys: Collection[str]) -> None:
        """Raise an InputError if one of these keys is missing."""
        for key in keys:
            if key not in self.keys:
                raise InputError(
                    f"{self.path}: key `{key}` is missing (found: {', '.join(self.keys)}). Store "
                    f"all of {', '.join(keys)}."
                )

    def load(self, key: str) -> Array:
        """The array under a key, of any kind."""
        try:
            array: Array = self._file[key]
        except _UNREADABLE as error:
            got, fix = f"a damaged array ({error})", "Copy or write the file again."
            if "allow_pickle" in str(error):
                got = "Python objects, which only pickle could read"
                parts = ", ".join(f"{key}_{part}" for part in _CSR_PARTS)
                fix = (
                    "Store texts as numpy.array(list_of_str), in pandas column.to_numpy(str), and "
                    f"a sparse matrix by its {parts}."
                )
            raise self.error(key, "readable", got, fix) from None
        return array

    def read(self, key: str, ndim: int, holds: str) -> Array:
        """The array under a key, with so many dimensions and values of a kind in `_KINDS`."""
        array = self.load(key)
        kinds, conversion = _KINDS[holds]
        if array.ndim == ndim and array.dtype.kind in kinds:
            return array
        expectation = f"an array of {holds} with {ndim} dimension(s)"
        fix = "Reshape it." if array.ndim != ndim else f"Convert it with .{conversion}."
        raise self.error(key, expectation, f"{array.dtype} of shape {array.shape}", fix)

    def read_finite(self, key: str, ndim: int) -> Array:
        """The numbers under a key, none of them NaN or infinite."""
        values = self.read(key, ndim, "numbers")
        bad = np.argwhere(~fits_float32(values))
        if len(bad):
            where = tuple(bad[0].tolist())
            got = f"{values[where]} at position {where}, and {len(bad)} such value(s) in all"
            fix = "Replace them, for instance by 0."
            raise self.error(key, "finite and at most 3.4e38 in size", got, fix)
        return values

    def read_per_node(self, key: str, num_nodes: int) -> Array:
        """The integers or texts under a key, one for each node; texts lose surrounding spaces."""
        array = self.read(key, 1, "integers or texts")
        if len(array) != num_nodes:
            expectation = f"of length {num_nodes}, the number of rows of the features"
            raise self.error(key, expectation, f"{len(array)} entries", "Store one per node.")
        return np.char.strip(array) if array.dtype.kind == "U" else array

    def read_positions(self, key: str, num_nodes: int, ndim: int = 1) -> IntArray:
        """The node positions under a key, each from 0 to ``num_nodes - 1``."""
        return check_positions(self.load(key), num_nodes, f"{self.path}: key `{key}`", ndim)

    def read_split(self, keys: Mapping[str, str], num_nodes: int) -> dict[str, IntArray]:
        """The node positions of each part of a split, given the key of each part."""
        self.require(keys.values())
        return {part: self.read_positions(key, num_nodes) for part, key in keys.items()}

    def read_csr(self, prefix: str) -> sp.csr_array:
        """The CSR matrix whose four parts are stored under keys with this prefix."""
        keys = [prefix + part for part in _CSR_PARTS]
        self.require(keys)
        data = self.read_finite(keys[0], 1)
        indices, indptr, shape = (self.read(key, 1, "integers") for key in keys[1:])
        if len(shape) != 2:
            raise self.error(keys[3], "rows and columns", shape.tolist(), "Store both.")
        try:
            matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
            matrix.check_format(full_check=True)
        except ValueError as error:
            expectation = f"(with {', '.join(keys)}) a valid CSR matrix"
            fix = "Take the parts from one scipy.sparse.csr_array."
            raise self.error(keys[2], expectation, f"a matrix where {error}", fix) from None
        return matrix


def _stored_form(archive: NpzArchive, what: str, plain_key: str, csr_name: str) -> str:
    """The key, or the prefix of the CSR keys, under which the file stores a matrix."""
    used = [plain_key] if plain_key in archive.keys else []
    prefixes = f"{csr_name}_", f"{csr_name}_matrix."
    used += [each for each in prefixes if any(each + part in archive.keys for part in _CSR_PARTS)]
    if len(used) == 1:
        return used[0]
    problem = f"stored more than once ({', '.join(used)})" if used else "missing"
    parts = ", ".join(f"`{csr_name}_{part}`" for part in _CSR_PARTS)
    raise InputError(
        f"{archive.path}: the {what} are {problem}. Store them as `{plain_key}`, or as {parts}. "
        f"The file has the keys: {', '.join(archive.keys) or 'none'}."
    )


def _features(archive: NpzArchive) -> Features:
    key = _stored_form(archive, "features", "features", "attr")
    features: Features
    if key == "features":
        features = pack_features(archive.read_finite(key, 2))
    else:
        features = archive.read_csr(key).astype(np.float32)
        features.sum_duplicates()
    if 0 in features.shape:
        raise archive.error(key, "[nodes, features]", features.shape, "Store at least one of each.")
    return features


def _adjacency(
    archive: NpzArchive, num_nodes: int, options: ReadOptions
) -> tuple[sp.csr_array, str]:
    key = _stored_form(archive, "edges", "edges", "adj")
    if key == "edges":
        ends = archive.read_positions(key, num_nodes, ndim=2)
        if ends.shape[1] != 2:
            fix = "Store edges.T." if ends.shape[0] == 2 else "Store one row per edge."
            raise archive.error(key, "of shape [m, 2]", ends.shape, fix)
        weights, shape = np.ones(len(ends)), (num_nodes, num_nodes)
        if is_weighted := "edge_weights" in archive.keys:
            weights = archive.read_finite("edge_weights", 1)
            if len(weights) != len(ends):
                expectation = f"of length {len(ends)}, the number of edges"
                raise archive.error("edge_weights", expectation, len(weights), "Store one each.")
        matrix: Any = sp.coo_array((weights, (ends[:, 0], ends[:, 1])), shape=shape)
    else:
        is_weighted = True
        matrix = archive.read_csr(key)
        if matrix.shape != (num_nodes, num_nodes):
            expectation = f"{(num_nodes, num_nodes)}, as the features have {num_nodes} rows"
            fix = "Store adjacency and features of the same nodes."
            raise archive.error(key + "shape", expectation, matrix.shape, fix)
    with error_context(f"{archive.path}: key `{key}`"):
        adjacency, found = options.adjacency(matrix, is_weighted=is_weighted)
    if adjacency.nnz == 0:
        raise archive.error(key, "at least one edge between two nodes", "no edges", "Add some.")
    return adjacency, found


def _labels(archive: NpzArchive, num_nodes: int) -> tuple[IntArray, tuple[str, ...]]:
    names = _class_names(archive)
    if "labels" not in archive.keys:
        return np.full(num_nodes, -1), names or ()
    labels = archive.read_per_node("labels", num_nodes)
    if labels.dtype.kind != "U":
        last = labels.max(initial=-1) if names is None else len(names) - 1
        wrong = labels[(labels < -1) | (labels > last)]
        if len(wrong):
            expectation = f"-1 if unknown, or class numbers from 0 to {last}"
            raise archive.error("labels", expectation, wrong[0], "Renumber the classes.")
        if names is not None:
            return labels.astype(np.int64), names
        labels = np.where(labels < 0, "", labels.astype(str))
    texts = labels.tolist()
    names = sort_class_names(text for text in texts if text) if names is None else names
    try:
        return number_labels(texts, names), names
    except KeyError as error:
        expectation, fix = "made of names in `class_names`", "Add the name there."
        raise archive.error("labels", expectation, error, fix) from None


def _class_names(archive: NpzArchive) -> tuple[str, ...] | None:
    if "class_names" not in archive.keys:
        return None
    names = tuple(np.char.strip(archive.read("class_names", 1, "texts")).tolist())
    if len({*names}) < len(names) or "" in names:
        fix = "Name each class once."
        raise archive.error("class_names", "distinct and not empty", list(names), fix)
    return names


def _node_ids(archive: NpzArchive, num_nodes: int) -> npt.NDArray[np.generic]:
    key = "node_ids" if "node_ids" in archive.keys else "node_names"
    if key not in archive.keys:
        return np.arange(num_nodes)
    ids = archive.read_per_node(key, num_nodes)  # in public files ids end with a line break
    check_distinct(ids, f"{archive.path}: key `{key}`")
    return ids
