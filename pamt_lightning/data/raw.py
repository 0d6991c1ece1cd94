"""A graph as read from files (NumPy and SciPy only), and what all readers share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from pamt_lightning.data.scaling import Scaling
from pamt_lightning.errors import CheckpointError, InputError

IntArray: TypeAlias = npt.NDArray[np.int64]
Features: TypeAlias = sp.csr_array | npt.NDArray[np.float32]

# Below this share of non-zero entries features are treated as words: kept sparse, scaled by rows.
MAX_SPARSE_DENSITY = 0.25

_INTEGER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class RawGraph:
    """What a reader returns; `pamt_lightning.Graph` is made from it and checks it.

    Attributes:
        adjacency: ``[n, n]``, undirected, unweighted, without self-loops (see `simple_graph`).
        features: ``[n, d]`` float32, sparse CSR or dense.
        labels: ``[n]`` class numbers, -1 where the class is unknown.
        node_ids: ``[n]`` the ids the file uses, integers or texts.
        class_names: Name of class 0, 1, ...
        hashes: SHA-256 of each file that was read, by file name.
        feature_names: Names of the feature columns, if the file has any.
        given_splits: Positions by part (``train``, ``val``, ``test``), if the file has a split.
        scaled: How the features have been scaled already; None if they are as measured.
        mapped: Whether the arrays are mapped from disk, written and checked by this program.
    """

    adjacency: sp.csr_array
    features: Features
    labels: IntArray
    node_ids: npt.NDArray[np.generic]
    class_names: tuple[str, ...]
    hashes: Mapping[str, str] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    given_splits: Mapping[str, IntArray] = field(default_factory=dict)
    scaled: Scaling | None = None
    mapped: bool = False

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return int(self.adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges, each counted once."""
        return int(self.adjacency.nnz // 2)


def adjacency_of(
    sources: npt.NDArray[Any], targets: npt.NDArray[Any], num_nodes: int
) -> sp.csr_array:
    """The adjacency of a simple graph from the ends of its edges; see `simple_graph`."""
    ones = np.ones(len(sources), dtype=np.float32)
    return simple_graph(sp.coo_array((ones, (sources, targets)), shape=(num_nodes, num_nodes)))


def simple_graph(adjacency: sp.csr_array | sp.coo_array) -> sp.csr_array:
    """Make an adjacency undirected, unweighted and free of self-loops and duplicates."""
    coo = sp.coo_array(adjacency)
    ends = np.stack([coo.row, coo.col])[:, (coo.row != coo.col) & (coo.data != 0)]
    both = np.concatenate([ends, ends[::-1]], axis=1)
    ones = np.ones(both.shape[1], dtype=np.float32)
    simple = sp.csr_array(sp.coo_array((ones, (both[0], both[1])), shape=coo.shape))
    simple.sum_duplicates()
    simple.data[:] = 1.0
    return simple


def largest_component(raw: RawGraph) -> RawGraph:
    """Keep the nodes of the largest connected component, in their old order."""
    count, component = connected_components(raw.adjacency, directed=False)
    if count == 1:
        return raw
    return take_nodes(raw, np.flatnonzero(component == np.bincount(component).argmax()))


def take_nodes(raw: RawGraph, keep: IntArray) -> RawGraph:
    """The subgraph on the nodes ``keep``, in that order; given splits are dropped."""
    return replace(
        raw,
        adjacency=sp.csr_array(raw.adjacency[keep][:, keep]),
        features=raw.features[keep],
        labels=raw.labels[keep],
        node_ids=raw.node_ids[keep],
        given_splits={},
    )


def sort_class_names(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct class names in order: by number if all are integers, else alphabetically.

    >>> sort_class_names(["10", "2", "10"]), sort_class_names(["10", "2", "b"])
    (('2', '10'), ('10', '2', 'b'))
    """
    distinct = set(names)
    if all(_INTEGER.fullmatch(name) for name in distinct):
        # The name itself breaks the tie of "1" and "01", which are two classes.
        return tuple(sorted(distinct, key=lambda name: (int(name), name)))
    return tuple(sorted(distinct))


def number_labels(texts: Sequence[str], class_names: Sequence[str]) -> IntArray:
    """The class number of each label, -1 for an empty one; a KeyError names an unknown label."""
    number = {name: i for i, name in enumerate(["", *class_names], -1)}
    return np.array([number[text] for text in texts], dtype=np.int64)


def check_positions(
    positions: npt.NDArray[Any], num_nodes: int, where: str, ndim: int = 1
) -> IntArray:
    """Node positions as int64; an InputError about others starts with ``where``."""
    if positions.ndim != ndim or positions.dtype.kind not in "iu":
        raise InputError(
            f"{where} must be an array of integers with {ndim} dimension(s), got {positions.dtype} "
            f"of shape {positions.shape}. Store numpy.flatnonzero(mask) for a mask."
        )
    outside = positions[(positions < 0) | (positions >= num_nodes)]
    if outside.size:
        raise InputError(
            f"{where} must hold node positions from 0 to {num_nodes - 1}, got {outside[0]} "
            f"({outside.size} such value(s)). Count nodes from 0, in the order of the graph's file."
        )
    return positions.astype(np.int64)


def check_distinct(ids: npt.NDArray[Any], where: str) -> None:
    """Raise an InputError that starts with ``where`` if an id is used twice."""
    in_order = np.sort(ids)
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(repeated):
        raise InputError(
            f"{where} must be distinct, got {repeated[0].item()!r} more than once. "
            "Give each node its own id."
        )


def not_utf8(path: Path) -> InputError:
    """The error for a text file that is not UTF-8, with the first wrong line."""
    text = path.read_bytes().decode(errors="surrogateescape")
    line = 1 + re.split("[\udc80-\udcff]", text, maxsplit=1)[0].count("\n")
    return InputError(f"{path}, line {line}: this is not UTF-8 text. Save it with encoding UTF-8.")


def fits_float32(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Which values are finite and stay finite as float32 (NaN compares false)."""
    fits: npt.NDArray[np.bool_] = np.abs(values) <= np.finfo(np.float32).max
    return fits


def pack_features(values: npt.NDArray[np.generic]) -> Features:
    """Rows of features as float32, sparse if few entries differ from zero."""
    block = values.astype(np.float32)
    if np.count_nonzero(block) < MAX_SPARSE_DENSITY * block.size:
        return sp.csr_array(block)
    return block


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def renumber_classes(raw: RawGraph, expected: tuple[str, ...], source: str) -> RawGraph:
    """Number the classes as a trained model does; unlabelled nodes stay unlabelled."""
    unknown = [name for name in raw.class_names if name not in expected]
    if unknown:
        raise CheckpointError(
            f"{source} has class {unknown[0]!r}, which the trained model does not know "
            f"(its classes: {', '.join(expected)})."
        )
    numbers = np.array([expected.index(name) for name in raw.class_names] + [-1], dtype=np.int64)
    return replace(raw, labels=numbers[raw.labels], class_names=expected)
