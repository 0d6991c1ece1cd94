"""A graph before split, noise and scaling (NumPy and SciPy only), and what all readers share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from pamt_lightning.data.scaling import Scaling
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.interop.features import Features
from pamt_lightning.interop.labels import IntArray
from pamt_lightning.interop.table import AttributeTable


@dataclass(frozen=True)
class RawGraph:
    """What a reader returns; `pamt_lightning.Graph` is made from it and checks it.

    Attributes:
        adjacency: ``[n, n]``, undirected, positive weights, no self-loops.
        features: ``[n, d]`` float32, sparse CSR or dense.
        labels: ``[n]`` class numbers, -1 where the class is unknown.
        node_ids: ``[n]`` the ids the file uses, integers or texts.
        class_names: Name of class 0, 1, ...
        hashes: SHA-256 of each file that was read, by file name.
        feature_names: Names of the feature columns, if the file has any.
        given_splits: Positions by part (``train``, ``val``, ``test``), if the file has a split.
        table: The columns that the features were made from, if there was a table.
        notes: What was found and done while the graph was read, for the user.
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
    table: AttributeTable | None = None
    notes: tuple[str, ...] = ()
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
        table=None if raw.table is None else raw.table.take(keep),
        given_splits={},
    )


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
