"""The Planetoid files ``ind.<name>.{allx,ally,tx,ty,graph,test.index}``.

They are pickles written by Python 2. A pickle can run code, so these are opened only after their
hash was checked, and by an unpickler that knows six harmless names and refuses all others.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.raw import RawGraph, take_nodes
from pamt_lightning.errors import DatasetIntegrityError
from pamt_lightning.interop.edges import adjacency_of
from pamt_lightning.interop.labels import IntArray

# Class k of the Planetoid files is class CITESEER_CLASS_OF_PLANETOID[k] of citeseer.npz.
CITESEER_CLASS_OF_PLANETOID = (0, 5, 4, 2, 1, 3)
CITESEER_CLASS_NAMES = ("AI", "Agents", "DB", "HCI", "IR", "ML")


class _PickledCsr:
    """Replaces SciPy's old ``csr_matrix``: takes its attributes, runs none of its code."""


# Names in the files to objects of this installation. NumPy has moved `_reconstruct` more than once;
# asking an array for it works in every version.
_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("scipy.sparse.csr", "csr_matrix"): _PickledCsr,
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,  # what `__builtin__` becomes when the unpickler renames modules
}


class _RestrictedUnpickler(pickle.Unpickler):
    """Builds arrays, sparse matrices, dicts and lists, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Resolve one of the few names that the files need."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"it asks for `{module}.{name}`, which no data file needs. Nothing was run; do not "
                "trust this file"
            )
        return _ALLOWED[module, name]


def read_planetoid(content: Mapping[str, bytes]) -> RawGraph:
    """Join the Planetoid files to one graph, with the rows where ``test.index`` says they belong.

    Node ids are the original row numbers. The numbers that ``test.index`` skips, 15 in Citeseer,
    have neither features nor a class and are dropped. ``content`` has the bytes of the six files by
    file name.
    """
    parts: dict[str, Any] = {
        name.split(".", 2)[2]: data.split() if name.endswith(".index") else _unpickle(name, data)
        for name, data in content.items()
    }
    neighbours = parts["graph"]
    rows = np.array([*range(len(parts["ally"])), *map(int, parts["test.index"])])
    order = np.argsort(rows)
    node_ids = rows[order]
    features = sp.csr_array(sp.vstack([_csr(parts["allx"]), _csr(parts["tx"])]))
    # int32, like the indices of the npz files: half the memory, and the products are faster.
    sources = np.repeat(np.fromiter(neighbours, dtype=np.int32), [*map(len, neighbours.values())])
    targets = np.fromiter((j for row in neighbours.values() for j in row), dtype=np.int32)
    adjacency = adjacency_of(sources, targets, int(rows.max()) + 1)
    return RawGraph(
        adjacency=sp.csr_array(adjacency[node_ids][:, node_ids]),
        features=features[order].astype(np.float32),
        labels=np.concatenate([parts["ally"], parts["ty"]])[order].argmax(axis=1),
        node_ids=node_ids,
        class_names=(),
    )


def read_planetoid_citeseer(content: Mapping[str, bytes]) -> RawGraph:
    """Citeseer from its Planetoid files, exactly as it is read from ``citeseer.npz``.

    Nodes, classes and names are put in the order of that file, so that a split with a given seed
    selects the same papers from both.
    """
    raw = read_planetoid(content)
    rows, names = citeseer_order()
    raw = take_nodes(raw, np.searchsorted(raw.node_ids, rows))
    labels = np.array(CITESEER_CLASS_OF_PLANETOID, dtype=np.int64)[raw.labels]
    return replace(raw, labels=labels, node_ids=names, class_names=CITESEER_CLASS_NAMES)


def citeseer_order() -> tuple[IntArray, npt.NDArray[np.str_]]:
    """Planetoid row and name of each node of ``citeseer.npz``, in the order of that file.

    The table was made by colour refinement on both graphs at once, starting from classes (their
    sizes all differ) and features. It identifies all nodes but 5 pairs of twins with the same
    neighbours, features and class. A test compares the graphs value by value.
    """
    table = resources.files(__package__).joinpath("citeseer_order.csv").read_text(encoding="ascii")
    rows, names = zip(*(line.split(",") for line in table.splitlines()[1:]), strict=True)
    return np.array(rows, dtype=np.int64), np.array(names)


def _unpickle(filename: str, data: bytes) -> Any:
    try:
        return _RestrictedUnpickler(io.BytesIO(data), encoding="latin1").load()
    except Exception as error:  # a broken pickle may raise anything at all
        raise DatasetIntegrityError(f"{filename}: not a readable pickle ({error}).") from None


def _csr(pickled: _PickledCsr) -> sp.csr_array:
    state = vars(pickled)
    return sp.csr_array((state["data"], state["indices"], state["indptr"]), shape=state["_shape"])
