"""A graph from one ``.npz`` file, as written by ``numpy.savez_compressed``.

===================  ===============================================================================
key                  value
===================  ===============================================================================
``edges``            ``[m, 2]`` integers, the positions (from 0) of the two ends of each edge; or
``adj_data``, ...    CSR ``[n, n]``: ``adj_data, adj_indices, adj_indptr, adj_shape``
``features``         ``[n, d]`` numbers; or
``attr_data``, ...   CSR ``[n, d]``: ``attr_data, attr_indices, attr_indptr, attr_shape``
``labels``           optional, ``[n]`` integers, -1 if unknown, or texts, '' if unknown
``class_names``      optional, ``[c]`` texts; integer ``labels`` are then positions in it
``node_ids``         optional (or ``node_names``), ``[n]`` distinct integers or texts; else 0, 1, ..
``train_index``      optional, positions of nodes; likewise ``val_index`` and ``test_index``
===================  ===============================================================================

CSR matrices may also be stored as ``adj_matrix.data``, ..., ``attr_matrix.data``, .... Weights and
directions of edges are ignored. Other keys are not read. Nothing is ever unpickled.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.raw import (
    Features,
    IntArray,
    RawGraph,
    fits_float32,
    pack_features,
    simple_graph,
    sort_class_names,
)
from pamt_lightning.errors import InputError

Array = npt.NDArray[Any]

# Values of `numpy.dtype.kind` that a key may have, with their name in messages.
_NUMBERS, _INTEGERS, _TEXTS = "biuf", "iu", "U"
_INTEGERS_OR_TEXTS = _INTEGERS + _TEXTS
_KIND_NAMES = {
    _NUMBERS: "numbers",
    _INTEGERS: "integers",
    _TEXTS: "texts",
    _INTEGERS_OR_TEXTS: "integers or texts",
}

_CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_npz(
    path: str | Path, data: bytes | None = None, ignored: Collection[str] = ()
) -> RawGraph:
    """Read the graph in an ``.npz`` file; the caller adds the file's hash.

    Args:
        path: The file.
        data: Its bytes, if they have been read already.
        ignored: Keys that are treated as absent.

    Raises:
        InputError: The file has a defect; the message names the file and the key.
    """
    with NpzArchive.open(path, data, ignored) as archive:
        features = _features(archive)
        num_nodes = int(features.shape[0])
        labels, class_names = _labels(archive, num_nodes)
        return RawGraph(
            adjacency=_adjacency(archive, num_nodes),
            features=features,
            labels=labels,
            node_ids=_node_ids(archive, num_nodes),
            class_names=class_names,
            given_splits=_given_splits(archive, num_nodes),
        )


class NpzArchive:
    """An open ``.npz`` file whose arrays are checked as they are read; nothing is unpickled.

    Attributes:
        path: The file.
        keys: Names of its arrays.
    """

    def __init__(
        self, path: str | Path, file: np.lib.npyio.NpzFile, ignored: Collection[str] = ()
    ) -> None:
        self.path = path
        self.keys = tuple(key for key in file.files if key not in ignored)
        self._file = file

    @classmethod
    @contextmanager
    def open(
        cls, path: str | Path, data: bytes | None = None, ignored: Collection[str] = ()
    ) -> Iterator[NpzArchive]:
        """Open a file for the duration of a ``with`` block; arguments as in `read_npz`."""
        try:
            file = np.load(path if data is None else io.BytesIO(data), allow_pickle=False)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{path}: this is not a readable .npz file ({error}). Write it again with "
                "numpy.savez_compressed."
            ) from None
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise InputError(
                f"{path}: this is a single array (.npy), not an .npz file. Write the file with "
                "numpy.savez_compressed(path, key=array, ...)."
            )
        with file:
            yield cls(path, file, ignored)

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def error(self, key: str, expectation: str, got: object, fix: str) -> InputError:
        """An error about one key."""
        return InputError(f"{self.path}: key `{key}` must be {expectation}, got {got}. {fix}")

    def read(self, key: str, ndim: int, kinds: str) -> Array:
        """The array under a key, of a given number of dimensions and kind of type."""
        try:
            array: Array = self._file[key]
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            if "allow_pickle" not in str(error):
                raise self.error(
                    key, "readable", f"a damaged array ({error})", "Copy or write the file again."
                ) from None
            raise self.error(
                key,
                "stored without pickle",
                "an array of Python objects",
                "Store texts as numpy.array(list_of_str), numbers as a numeric array, and a sparse "
                f"matrix by its parts {key}_data, {key}_indices, {key}_indptr, {key}_shape.",
            ) from None
        if array.ndim == ndim and array.dtype.kind in kinds:
            return array
        fix = "Convert its type."
        if array.ndim != ndim:
            fix = "Reshape it."
        elif kinds == _TEXTS:
            fix = "Convert it with .astype(str)."
        elif array.dtype.kind == "b":
            fix = "If it is a mask, store numpy.flatnonzero(mask)."
        elif _INTEGERS in kinds:
            fix = "Convert it with .astype(int)."
        expectation = f"an array of {_KIND_NAMES[kinds]} with {ndim} dimension(s)"
        raise self.error(key, expectation, f"shape {array.shape} and type {array.dtype}", fix)

    def read_finite(self, key: str, ndim: int) -> Array:
        """The numbers under a key, none of them NaN or infinite."""
        values = self.read(key, ndim, _NUMBERS)
        bad = np.argwhere(~fits_float32(values))
        if len(bad):
            where = tuple(bad[0].tolist())
            raise self.error(
                key,
                "finite everywhere (and at most 3.4e38 in size)",
                f"{values[where]} at position {where}, and {len(bad)} such value(s) in all",
                "Replace them, for instance by 0.",
            )
        return values

    def read_per_node(self, key: str, num_nodes: int) -> Array:
        """The integers or texts under a key, one for each node; texts lose surrounding spaces."""
        array = self.read(key, 1, _INTEGERS_OR_TEXTS)
        if len(array) != num_nodes:
            raise self.error(
                key,
                f"of length {num_nodes}, the number of rows of the features",
                f"{len(array)} entries",
                "Store one entry per node.",
            )
        return np.char.strip(array) if array.dtype.kind == _TEXTS else array

    def read_positions(self, key: str, ndim: int, num_nodes: int) -> IntArray:
        """The node positions under a key, each from 0 to ``num_nodes - 1``."""
        positions = self.read(key, ndim, _INTEGERS)
        return check_positions(positions, num_nodes, f"{self.path}: key `{key}`")

    def read_csr(self, prefix: str) -> sp.csr_array:
        """The CSR matrix whose four parts are stored under keys with this prefix."""
        for part in _CSR_PARTS:
            if prefix + part not in self:
                needed = ", ".join(prefix + name for name in _CSR_PARTS)
                raise InputError(
                    f"{self.path}: key `{prefix + part}` is missing. A CSR matrix needs {needed}."
                )
        data = self.read_finite(prefix + "data", 1)
        indices, indptr, shape = (self.read(prefix + part, 1, _INTEGERS) for part in _CSR_PARTS[1:])
        if len(shape) != 2:
            raise self.error(
                prefix + "shape", "two integers (rows, columns)", shape.tolist(), "Store both."
            )
        try:
            rows, columns = shape.tolist()
            matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise self.error(
                prefix + "indptr",
                f"(with {prefix}indices, {prefix}data, {prefix}shape) a valid CSR matrix",
                f"a matrix where {error}",
                "Take the parts from one scipy.sparse.csr_array.",
            ) from None
        return matrix


def check_positions(positions: Array, num_nodes: int, where: str) -> IntArray:
    """Node positions as int64.

    Raises:
        InputError: One is not from 0 to ``num_nodes - 1``; the message starts with ``where``.
    """
    outside = positions[(positions < 0) | (positions >= num_nodes)]
    if outside.size:
        raise InputError(
            f"{where} must hold node positions from 0 to {num_nodes - 1}, got {outside[0]} "
            f"({outside.size} such value(s)). Count nodes from 0, in the order of the graph's file."
        )
    return positions.astype(np.int64)


def _stored_form(archive: NpzArchive, what: str, plain_key: str, csr_name: str) -> str:
    """The key, or the prefix of the CSR keys, under which the file stores a matrix."""
    prefixes = (f"{csr_name}_", f"{csr_name}_matrix.")
    used = [plain_key] if plain_key in archive else []
    used += [prefix for prefix in prefixes if any(prefix + part in archive for part in _CSR_PARTS)]
    if len(used) == 1:
        return used[0]
    choices = f"`{plain_key}`, or {', '.join(f'`{csr_name}_{part}`' for part in _CSR_PARTS)}"
    if used:
        raise InputError(
            f"{archive.path}: the {what} are stored more than once (keys {', '.join(used)}...). "
            f"Keep one form: {choices}."
        )
    raise InputError(
        f"{archive.path}: the {what} are missing. Store them as {choices}. "
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
        raise archive.error(
            key, "of at least one row and column", features.shape, "Store [nodes, features]."
        )
    return features


def _adjacency(archive: NpzArchive, num_nodes: int) -> sp.csr_array:
    key = _stored_form(archive, "edges", "edges", "adj")
    shape = (num_nodes, num_nodes)
    matrix: sp.coo_array | sp.csr_array
    if key == "edges":
        ends = archive.read_positions(key, 2, num_nodes)
        if ends.shape[1] != 2:
            fix = "Store edges.T." if ends.shape[0] == 2 else "Store one row per edge."
            raise archive.error(key, "of shape [m, 2]", ends.shape, fix)
        ones = np.ones(len(ends), dtype=np.float32)
        matrix = sp.coo_array((ones, (ends[:, 0], ends[:, 1])), shape=shape)
    else:
        matrix = archive.read_csr(key)
        if matrix.shape != shape:
            raise archive.error(
                key + "shape",
                f"{shape}, a row and a column per row of the features",
                matrix.shape,
                "Store adjacency and features of the same nodes.",
            )
    adjacency = simple_graph(matrix)
    if adjacency.nnz == 0:
        raise archive.error(
            key, "at least one edge between two nodes", "no edges", "Add the edges."
        )
    return adjacency


def _labels(archive: NpzArchive, num_nodes: int) -> tuple[IntArray, tuple[str, ...]]:
    names = _class_names(archive)
    if "labels" not in archive:
        return np.full(num_nodes, -1, dtype=np.int64), names or ()
    labels = archive.read_per_node("labels", num_nodes)
    if labels.dtype.kind == _TEXTS:
        is_known = labels != ""
    else:
        is_known = labels != -1
        _check_class_numbers(archive, labels, names)
        if names is not None:
            return labels.astype(np.int64), names
    distinct, codes = np.unique(labels[is_known], return_inverse=True)
    texts = [str(value) for value in distinct.tolist()]
    if names is None:
        names = sort_class_names(texts)
    number = {name: i for i, name in enumerate(names)}
    for text in texts:
        if text not in number:
            raise archive.error(
                "labels", "made of names in `class_names`", repr(text), "Add the name there."
            )
    result = np.full(num_nodes, -1, dtype=np.int64)
    result[is_known] = np.array([number[text] for text in texts], dtype=np.int64)[codes]
    return result, names


def _check_class_numbers(
    archive: NpzArchive, labels: Array, class_names: tuple[str, ...] | None
) -> None:
    wrong = labels < -1
    expectation = "class numbers from 0 on, or -1 if unknown"
    if class_names is not None:
        wrong |= labels >= len(class_names)
        expectation = f"-1 if unknown, or a position in `class_names`: 0 to {len(class_names) - 1}"
    if wrong.any():
        raise archive.error("labels", expectation, labels[wrong][0], "Renumber the classes.")


def _class_names(archive: NpzArchive) -> tuple[str, ...] | None:
    key = "class_names"
    if key not in archive:
        return None
    names = tuple(np.char.strip(archive.read(key, 1, _TEXTS)).tolist())
    if len({*names}) < len(names) or "" in names:
        raise archive.error(key, "distinct and not empty", list(names), "Name each class once.")
    return names


def _node_ids(archive: NpzArchive, num_nodes: int) -> npt.NDArray[np.generic]:
    key = "node_ids" if "node_ids" in archive else "node_names"
    if key not in archive:
        return np.arange(num_nodes)
    ids = archive.read_per_node(key, num_nodes)  # in public files ids end with a line break
    distinct, counts = np.unique(ids, return_counts=True)
    if len(distinct) < num_nodes:
        twice = distinct[counts > 1][0].item()
        raise archive.error(key, "distinct", f"{twice!r} more than once", "Give each node its own.")
    return ids


def _given_splits(archive: NpzArchive, num_nodes: int) -> dict[str, IntArray]:
    keys = {part: f"{part}_index" for part in ("train", "val", "test")}
    given = [key for key in keys.values() if key in archive]
    if not given:
        return {}
    for key in keys.values():
        if key not in archive:
            raise InputError(
                f"{archive.path}: key `{key}` is missing beside {', '.join(given)}. "
                "Store all three parts of the split (test may be empty), or none."
            )
    return {part: archive.read_positions(key, 1, num_nodes) for part, key in keys.items()}
