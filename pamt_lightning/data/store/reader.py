"""A graph on disk as a folder of plain ``.npy`` arrays that are mapped, not read.

===========================  =======================================================================
file                         content
===========================  =======================================================================
``graph.json``               the header: format, version, sizes, names, and of each array its type,
                             shape and the SHA-256 of its bytes
``adjacency_indptr.npy``     ``[n + 1]`` and ``[2m]``, CSR of the undirected graph: both directions
``adjacency_indices.npy``    of each edge, rows sorted, no duplicates, no self-loops
``labels.npy``               ``[n]`` int32, -1 where the class is unknown
``features.npy``             ``[n, d]`` float32, scaled as the header says; or, if they are sparse,
``features_indptr.npy``, …   CSR: ``features_indptr``, ``features_indices``, ``features_data``
``features_mean.npy``, …     of columns that were scaled to mean 0 and deviation 1, with
                             ``features_std``: what they had been, ``[d]`` float64
``node_ids.npy``             optional, ``[n]`` integers or texts; else 0, 1, …
``train_index.npy``, …       optional, with ``val_index`` and ``test_index``: a split of its own
===========================  =======================================================================

`GraphStoreWriter` writes one in a stream and checks what it writes; opening one checks the header,
the shapes and the split, `GraphStore.verify` every byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.raw import RawGraph
from pamt_lightning.data.scaling import Scaling
from pamt_lightning.errors import InputError

HEADER = "graph.json"
FORMAT, VERSION = "pamt-graph", 1
SPLIT_PARTS = ("train", "val", "test")
_REQUIRED = ("adjacency_indptr", "adjacency_indices", "labels")
_SPARSE = ("features_indptr", "features_indices", "features_data")
_MOMENTS = ("features_mean", "features_std")
_BLOCK = 1 << 24  # bytes hashed at once

Array = npt.NDArray[Any]


def is_store(path: Path) -> bool:
    """Whether a folder is such a graph, or was meant to be one."""
    return (path / HEADER).is_file()


@dataclass(frozen=True)
class GraphStore:
    """A graph on disk that has been opened.

    Attributes:
        folder: Where it is.
        header: The content of ``graph.json``.
        arrays: The arrays by name, mapped; what is written into them never reaches the disk.
    """

    folder: Path
    header: Mapping[str, Any]
    arrays: Mapping[str, Array]

    @classmethod
    def open(cls, folder: str | Path) -> GraphStore:
        """Open a store: read its header and map its arrays.

        Raises:
            InputError: The header cannot be read or is of another version, an array is missing, or
                has another type or shape than the header says, or a split names no nodes.
        """
        folder = Path(folder)
        header = _read_header(folder / HEADER)
        arrays = {name: _mapped(folder, name, facts) for name, facts in header["arrays"].items()}
        store = cls(folder, header, arrays)
        store._check_shapes()
        return store

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return int(self.header["num_nodes"])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges m."""
        return int(self.header["num_edges"])

    @property
    def num_features(self) -> int:
        """Number of attributes d."""
        return int(self.header["num_features"])

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of the bytes of each array, as the header has them."""
        return {f"{name}.npy": str(facts["sha256"]) for name, facts in self._facts.items()}

    @property
    def features(self) -> sp.csr_array | Array:
        """The attributes ``[n, d]``, mapped: dense, or a CSR matrix of mapped arrays."""
        if "features" in self.arrays:
            return self.arrays["features"]
        indptr, indices, data = (self.arrays[name] for name in _SPARSE)
        if len(indices) < np.iinfo(np.int32).max:
            indptr = indptr.astype(indices.dtype)  # of two types SciPy would make one, in memory
        return sp.csr_array((data, indices, indptr), shape=(self.num_nodes, self.num_features))

    @property
    def adjacency(self) -> sp.csr_array:
        """The adjacency ``[n, n]``; its ones are made here, as they are not stored."""
        indptr, indices = self.arrays["adjacency_indptr"], self.arrays["adjacency_indices"]
        self._require_nodes(indptr, indices)
        ones = np.ones(len(indices), dtype=np.float32)
        return sp.csr_array((ones, indices, indptr), shape=(self.num_nodes, self.num_nodes))

    def raw(self) -> RawGraph:
        """The graph, its attributes still on disk."""
        mean, std = (self.arrays.get(f"features_{name}") for name in ("mean", "std"))
        kind: Any = self.header["scaling"]
        ids = self.arrays.get("node_ids")
        parts = {part: self.arrays.get(f"{part}_index") for part in SPLIT_PARTS}
        return RawGraph(
            adjacency=self.adjacency,
            features=self.features,
            labels=self.arrays["labels"].astype(np.int64),
            node_ids=np.arange(self.num_nodes) if ids is None else np.array(ids),
            class_names=tuple(self.header["class_names"]),
            hashes=self.hashes,
            feature_names=tuple(self.header["feature_names"]),
            scaled=Scaling(kind, *(None if m is None else np.array(m) for m in (mean, std))),
            mapped=True,
            given_splits={
                part: index.astype(np.int64) for part, index in parts.items() if index is not None
            },
        )

    def verify(self) -> None:
        """Read every byte and compare it with the header.

        Raises:
            InputError: An array is not the one that was written; the message names the file.
        """
        for name, facts in self._facts.items():
            found = sha256_of_array(self.arrays[name])
            if found != facts["sha256"]:
                raise InputError(
                    f"{self.folder / name}.npy is damaged: {HEADER} says SHA-256 "
                    f"{facts['sha256']}, found {found}. Copy or convert the graph anew."
                )

    @property
    def _facts(self) -> Mapping[str, Mapping[str, Any]]:
        facts: Mapping[str, Mapping[str, Any]] = self.header["arrays"]
        return facts

    def _check_shapes(self) -> None:
        """That the arrays fit each other: mapped memory is read without a check of its bounds."""
        nodes, arrays = self.num_nodes, self.arrays
        dense = "features" in arrays
        for name in _REQUIRED if dense else (*_REQUIRED, *_SPARSE):
            if name not in arrays:
                raise self._error(f"has no array `{name}`")
        expected: dict[str, tuple[int, ...]] = {"labels": (nodes,), "node_ids": (nodes,)}
        expected |= dict.fromkeys(("adjacency_indptr", "features_indptr"), (nodes + 1,))
        expected["adjacency_indices"] = (2 * self.num_edges,)
        expected["features"] = (nodes, self.num_features)
        self._require_shapes(expected)
        stored = {"adjacency_indices": "adjacency_indptr"}
        if not dense:
            stored |= dict.fromkeys(("features_indices", "features_data"), "features_indptr")
        expected = {name: (int(arrays[pointers][-1]),) for name, pointers in stored.items()}
        expected |= dict.fromkeys(_MOMENTS, (self.num_features,))
        self._require_shapes(expected)
        self._require_all_or_none(_MOMENTS, self.header["scaling"] == "standard")
        splits = [f"{part}_index" for part in SPLIT_PARTS]
        self._require_all_or_none(splits, any(name in arrays for name in splits))
        for name in splits if splits[0] in arrays else ():
            index = arrays[name]
            if index.ndim != 1 or index.dtype.kind not in "iu":
                raise self._error(
                    f"must have whole numbers in `{name}`, got {index.dtype} of {index.shape}"
                )
            wrong = index[(index < 0) | (index >= nodes)]
            if len(wrong):
                raise self._error(f"must have positions below {nodes} in `{name}`, got {wrong[0]}")

    def _require_all_or_none(self, names: Sequence[str], all_of_them: bool) -> None:
        for name in names:
            if (name in self.arrays) != all_of_them:
                needed = "must have" if all_of_them else "must not have"
                raise self._error(f"{needed} `{name}` beside what it has")

    def _require_nodes(self, indptr: Array, indices: Array) -> None:
        """That all entries are of nodes; the edges are read whole anyway."""
        rising = indptr[0] == 0 and bool((indptr[1:] >= indptr[:-1]).all())
        inside = indices.min(initial=0) >= 0 and indices.max(initial=-1) < self.num_nodes
        for name, good in (("adjacency_indptr", rising), ("adjacency_indices", inside)):
            if not good:
                raise InputError(
                    f"{self.folder / name}.npy is damaged: it has entries of no node. "
                    "Copy or convert the graph anew."
                )

    def _require_shapes(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        for name, shape in expected.items():
            found = self.arrays.get(name)
            if found is not None and found.shape != shape:
                raise self._error(f"must have `{name}` of shape {shape}, got {found.shape}")

    def _error(self, what: str) -> InputError:
        return InputError(f"{self.folder / HEADER} {what}. Convert the graph anew.")


def sha256_of_array(array: Array) -> str:
    """SHA-256 of the bytes of an array, block by block."""
    digest = hashlib.sha256()
    flat = array.reshape(-1)
    step = max(1, _BLOCK // array.dtype.itemsize)
    for start in range(0, len(flat), step):
        digest.update(np.ascontiguousarray(flat[start : start + step]).view(np.uint8).data)
    return digest.hexdigest()


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path.parent} is no graph store: it has no {HEADER}.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}). Convert the graph anew.") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path} must have `format` {FORMAT!r}: this is no graph store.")
    if header.get("version") != VERSION:
        raise InputError(
            f"{path} has `version` {header.get('version')!r}; this program reads {VERSION}. "
            "Use the program that wrote it, or convert the graph anew."
        )
    kinds: dict[str, type] = dict.fromkeys(("num_nodes", "num_edges", "num_features"), int)
    kinds |= {"class_names": list, "feature_names": list, "scaling": str, "arrays": dict}
    for name, kind in kinds.items():
        if not isinstance(header.get(name), kind):
            raise InputError(f"{path} has no valid `{name}`. Convert the graph anew.")
    return header


def _mapped(folder: Path, name: str, facts: Any) -> Array:
    path = folder / f"{name}.npy"
    try:
        array: Array = np.load(path, mmap_mode="c", allow_pickle=False)
        dtype, shape = np.dtype(facts["dtype"]), tuple(facts["shape"])
        str(facts["sha256"])
    except FileNotFoundError:
        raise InputError(f"{path} is missing. Copy or convert the graph anew.") from None
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read ({error}). Copy the graph anew.") from None
    except (KeyError, TypeError):
        raise InputError(
            f"{folder / HEADER} must give `dtype`, `shape` and `sha256` of {name!r}. "
            "Convert the graph anew."
        ) from None
    if (array.dtype, array.shape) != (dtype, shape):
        raise InputError(
            f"{path} must be {dtype} of shape {shape} as {HEADER} says, "
            f"got {array.dtype} of shape {array.shape}. Copy or convert the graph anew."
        )
    return array
