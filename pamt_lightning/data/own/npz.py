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

from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.own.archive import (
    CSR_PARTS,
    INTEGERS_OR_TEXTS,
    TEXTS,
    Array,
    NpzArchive,
)
from pamt_lightning.data.own.common import Features, pack_features, sort_class_names
from pamt_lightning.data.raw import IntArray, RawGraph, simple_graph
from pamt_lightning.errors import InputError


def read_npz(path: Path) -> RawGraph:
    """Read the graph in an ``.npz`` file; the file's hash is left to the caller.

    Raises:
        InputError: The file has a defect; the message names the file and the key.
    """
    with NpzArchive.open(path) as archive:
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


def _stored_form(archive: NpzArchive, what: str, plain_key: str, csr_name: str) -> str:
    """The key, or the prefix of the CSR keys, under which the file stores a matrix."""
    prefixes = (f"{csr_name}_", f"{csr_name}_matrix.")
    used = [plain_key] if plain_key in archive else []
    used += [prefix for prefix in prefixes if any(prefix + part in archive for part in CSR_PARTS)]
    if len(used) == 1:
        return used[0]
    choices = f"`{plain_key}`, or {', '.join(f'`{csr_name}_{part}`' for part in CSR_PARTS)}"
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
    labels = archive.read("labels", 1, INTEGERS_OR_TEXTS)
    _check_length(archive, "labels", labels, num_nodes)
    if labels.dtype.kind == TEXTS:
        labels = np.char.strip(labels)
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
        raise archive.error("labels", expectation, labels[wrong][0], "Number the classes so.")


def _class_names(archive: NpzArchive) -> tuple[str, ...] | None:
    key = "class_names"
    if key not in archive:
        return None
    names = archive.read(key, 1, TEXTS)
    stripped = tuple(np.char.strip(names).tolist())
    if len({*stripped}) < len(stripped) or "" in stripped:
        raise archive.error(key, "distinct and not empty", list(stripped), "Name each class once.")
    return stripped


def _node_ids(archive: NpzArchive, num_nodes: int) -> npt.NDArray[np.generic]:
    key = "node_ids" if "node_ids" in archive else "node_names"
    if key not in archive:
        return np.arange(num_nodes)
    ids = archive.read(key, 1, INTEGERS_OR_TEXTS)
    _check_length(archive, key, ids, num_nodes)
    if ids.dtype.kind == TEXTS:
        ids = np.char.strip(ids)  # in public files ids end with a line break
    if len({*ids.tolist()}) < num_nodes:
        distinct, counts = np.unique(ids, return_counts=True)
        twice = distinct[counts > 1][0].item()
        raise archive.error(key, "distinct", f"{twice!r} more than once", "Give each node its own.")
    return ids


def _check_length(archive: NpzArchive, key: str, array: Array, num_nodes: int) -> None:
    if len(array) != num_nodes:
        raise archive.error(
            key,
            f"of length {num_nodes}, the number of rows of the features",
            f"{len(array)} entries",
            "Store one entry per node.",
        )


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
