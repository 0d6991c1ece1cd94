"""Published files to graphs: parse, simplify, check the counts."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.published.download import Located
from pamt_lightning.data.published.planetoid import read_planetoid, read_planetoid_citeseer
from pamt_lightning.data.published.registry import DatasetSpec
from pamt_lightning.data.raw import RawGraph, largest_component, simple_graph
from pamt_lightning.errors import DatasetIntegrityError


def read_dataset(spec: DatasetSpec, located: Located) -> RawGraph:
    """Read the files of a data set.

    The graph is made undirected, unweighted and free of self-loops, and cut down to its largest
    connected component. Features are float32 CSR with sorted indices, as published: not normalised.

    Args:
        spec: The data set.
        located: Its files with checked hashes, see `pamt_lightning.data.published.download.locate`.

    Raises:
        DatasetIntegrityError: A file cannot be parsed, or a count is not that of the registry.
    """
    raw = _READERS[located.variant.reader](located.content)
    raw = largest_component(replace(raw, adjacency=simple_graph(raw.adjacency)))
    raw.adjacency.sort_indices()
    features = cast("sp.csr_array", raw.features).astype(np.float32)  # every reader gives CSR
    features.sum_duplicates()  # sorts the indices too
    names = raw.class_names or spec.class_names or tuple(map(str, range(spec.num_classes)))
    raw = replace(
        raw,
        features=features,
        node_ids=_stripped(raw.node_ids),
        class_names=names,
        hashes=located.hashes,
    )
    _check_counts(spec, raw, features)
    return raw


def read_ppnp_npz(content: Mapping[str, bytes]) -> RawGraph:
    """Read an ``.npz`` in one of the two key layouts of the ppnp files, never unpickling anything.

    Args:
        content: The bytes of the one file by its name, hash checked.
    """
    ((filename, data),) = content.items()
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            separator = "_matrix." if "adj_matrix.data" in archive.files else "_"
            names = _optional(archive, "class_names")
            node_names = _optional(archive, "node_names")
            adjacency = _csr(archive, f"adj{separator}")
            if node_names is None:
                node_names = np.arange(adjacency.shape[0])
            return RawGraph(
                adjacency=adjacency,
                features=_csr(archive, f"attr{separator}"),
                labels=archive["labels"].astype(np.int64),
                node_ids=node_names,
                class_names=() if names is None else tuple(_stripped(names).tolist()),
            )
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DatasetIntegrityError(
            f"{filename}: expected an .npz with adj_*, attr_* and labels, got {error!r}."
        ) from None


_READERS: Mapping[str, Callable[[Mapping[str, bytes]], RawGraph]] = {
    "ppnp_npz": read_ppnp_npz,
    "planetoid": read_planetoid,
    "planetoid_citeseer": read_planetoid_citeseer,
}


def _csr(archive: Mapping[str, Any], prefix: str) -> sp.csr_array:
    data, indices, indptr = (archive[prefix + key] for key in ("data", "indices", "indptr"))
    matrix = sp.csr_array((data, indices, indptr), shape=tuple(archive[f"{prefix}shape"]))
    matrix.check_format(full_check=True)
    return matrix


def _optional(archive: Mapping[str, Any], key: str) -> npt.NDArray[Any] | None:
    """An optional array; None if it is absent or stored as a pickle."""
    try:
        return np.asarray(archive[key])
    except (KeyError, ValueError):
        return None


def _stripped(names: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Names without surrounding white space."""
    if names.dtype.kind != "U":
        return names
    return np.array([name.strip() for name in names.tolist()])


def _check_counts(spec: DatasetSpec, raw: RawGraph, features: sp.csr_array) -> None:
    counts = {
        "nodes": (spec.num_nodes, raw.num_nodes),
        "edges": (spec.num_edges, raw.num_edges),
        "features": (spec.num_features, features.shape[1]),
        "feature non-zeros": (spec.num_nonzeros, features.nnz),
        "classes": (spec.num_classes, len(np.unique(raw.labels))),
    }
    wrong = [
        f"{name} expected {expected:,}, got {got:,}"
        for name, (expected, got) in counts.items()
        if got != expected
    ]
    if wrong:
        raise DatasetIntegrityError(
            f"Data set `{spec.name}` does not match the registry: {'; '.join(wrong)}."
        )
