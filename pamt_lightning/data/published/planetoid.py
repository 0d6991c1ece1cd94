"""The Planetoid files ``ind.<name>.{allx,ally,tx,ty,graph,test.index}``.

They are pickles written by Python 2. A pickle can run code, so these are opened only after their
hash was checked, and by an unpickler that knows six harmless names and refuses all others.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.raw import IntArray, RawGraph, take_nodes
from pamt_lightning.errors import DatasetIntegrityError

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

    def __init__(self, content: bytes, filename: str) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        self._filename = filename

    def find_class(self, module: str, name: str) -> Any:
        """Resolve one of the few names that the files need."""
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise DatasetIntegrityError(
                f"{self._filename}: the pickle asks for `{module}.{name}`, which no data file "
                "needs. Nothing was run; do not trust this file."
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        """Refuse references to objects outside the file."""
        raise DatasetIntegrityError(f"{self._filename}: the pickle refers to outside object {pid}.")


def read_planetoid(content: Mapping[str, bytes]) -> RawGraph:
    """Join the Planetoid files to one graph, with the rows where ``test.index`` says they belong.

    Node ids are the original row numbers. Nodes without a class (an all-zero label row) are
    dropped: the numbers that ``test.index`` skips, 15 in Citeseer, which have no features.

    Args:
        content: The bytes of the six files by file name, their hashes checked.
    """
    by_member = {name.split(".", 2)[2]: (name, data) for name, data in content.items()}
    all_x, test_x = (_features(*by_member[member]) for member in ("allx", "tx"))
    all_y, test_y = (_array(*by_member[member]) for member in ("ally", "ty"))
    test_rows = _test_rows(*by_member["test.index"])

    num_known, num_test = all_x.shape[0], test_x.shape[0]
    if (len(all_y), len(test_y)) != (num_known, num_test):
        raise DatasetIntegrityError(
            f"{by_member['ally'][0]}: expected {num_known} rows as in allx, and {num_test} rows in "
            f"ty as in tx, got {len(all_y)} and {len(test_y)}."
        )
    if not len(set(test_rows)) == len(test_rows) == num_test or min(test_rows) < num_known:
        raise DatasetIntegrityError(
            f"{by_member['test.index'][0]}: expected {num_test} different row numbers from "
            f"{num_known} on, one for each row of tx, got {test_rows[:3]} ..."
        )
    # int32, like the indices of the npz files: half the memory, and the products are faster.
    rows = np.array([*range(num_known), *test_rows], dtype=np.int32)
    num_nodes = int(rows.max()) + 1
    stacked = sp.coo_array(sp.vstack([all_x, test_x]))
    features = sp.csr_array(
        sp.coo_array(
            (stacked.data.astype(np.float32), (rows[stacked.row], stacked.col)),
            shape=(num_nodes, all_x.shape[1]),
        )
    )
    one_hot = np.zeros((num_nodes, all_y.shape[1]), dtype=np.int64)
    one_hot[rows] = np.concatenate([all_y, test_y])
    raw = RawGraph(
        adjacency=_adjacency(*by_member["graph"], num_nodes),
        features=features,
        labels=one_hot.argmax(axis=1),
        node_ids=np.arange(num_nodes),
        class_names=(),
    )
    return take_nodes(raw, np.flatnonzero(one_hot.any(axis=1)))


def read_planetoid_citeseer(content: Mapping[str, bytes]) -> RawGraph:
    """Citeseer from its Planetoid files, exactly as it is read from ``citeseer.npz``.

    Nodes, classes and names are put in the order of that file, so that a split with a given seed
    selects the same papers from both.
    """
    raw = read_planetoid(content)
    rows, names = citeseer_order()
    raw = take_nodes(raw, np.searchsorted(raw.node_ids, rows))
    return RawGraph(
        adjacency=raw.adjacency,
        features=raw.features,
        labels=np.array(CITESEER_CLASS_OF_PLANETOID, dtype=np.int64)[raw.labels],
        node_ids=names,
        class_names=CITESEER_CLASS_NAMES,
    )


def citeseer_order() -> tuple[IntArray, npt.NDArray[np.str_]]:
    """Planetoid row and name of each node of ``citeseer.npz``, in the order of that file.

    Both publications hold the same graph with nodes and classes in different orders, and the
    Planetoid files have no names. The table was made by dropping the 15 unlabelled Planetoid nodes,
    taking the largest component, matching classes by their sizes (all differ) and refining colours
    on both graphs at once: a node's colour is a hash of its own, its neighbours' and its features'
    colours, until the number of colours stops growing. That identifies 2,100 of 2,110 nodes; the
    others are 5 pairs of twins with the same neighbours, features and class, for which either order
    gives the same arrays. A test compares adjacency, features and labels value by value.
    """
    table = resources.files(__package__).joinpath("citeseer_order.csv").read_text(encoding="ascii")
    rows, names = zip(*(line.split(",") for line in table.splitlines()[1:]), strict=True)
    return np.array(rows, dtype=np.int64), np.array(names)


def _unpickle(filename: str, data: bytes) -> Any:
    try:
        return _RestrictedUnpickler(data, filename).load()
    except DatasetIntegrityError:
        raise
    except Exception as error:  # a broken pickle may raise anything at all
        raise DatasetIntegrityError(f"{filename}: not a readable pickle ({error!r}).") from None


def _features(filename: str, data: bytes) -> sp.csr_array:
    pickled = _unpickle(filename, data)
    try:
        if not isinstance(pickled, _PickledCsr):
            raise TypeError(type(pickled).__name__)
        state = vars(pickled)
        matrix = sp.csr_array(
            (state["data"], state["indices"], state["indptr"]), shape=state["_shape"]
        )
        matrix.check_format(full_check=True)
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetIntegrityError(
            f"{filename}: expected a SciPy CSR matrix, got {error!r}."
        ) from None
    return matrix


def _array(filename: str, data: bytes) -> npt.NDArray[Any]:
    array = _unpickle(filename, data)
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "biuf":
        raise DatasetIntegrityError(
            f"{filename}: expected a table of numbers, got {type(array).__name__}."
        )
    return array


def _adjacency(filename: str, data: bytes, num_nodes: int) -> sp.csr_array:
    """The graph file: a dict from row number to the list of its neighbours' row numbers."""
    neighbours = _unpickle(filename, data)
    try:
        degrees = [len(row) for row in neighbours.values()]
        sources = np.repeat(np.fromiter(neighbours, dtype=np.int32), degrees)
        targets = np.fromiter((j for row in neighbours.values() for j in row), dtype=np.int32)
        ones = np.ones(len(sources), dtype=np.float32)
        matrix = sp.coo_array((ones, (sources, targets)), shape=(num_nodes, num_nodes))
    except (AttributeError, TypeError, ValueError) as error:
        raise DatasetIntegrityError(
            f"{filename}: expected lists of row numbers below {num_nodes}, got {error!r}."
        ) from None
    return sp.csr_array(matrix)


def _test_rows(filename: str, data: bytes) -> list[int]:
    try:
        return [int(line) for line in data.split()]
    except ValueError as error:
        raise DatasetIntegrityError(f"{filename}: expected one number per line, {error}.") from None
