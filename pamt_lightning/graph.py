"""The one graph object that everything else passes around."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from pamt_lightning.errors import InputError

SPLIT_FIELDS = ("train_index", "val_index", "test_index")


@dataclass(frozen=True, eq=False)
class Graph:
    """An attributed, undirected, unweighted graph, validated once when it is made.

    Attributes:
        x: Node attributes X, sparse CSR or dense, floating, shape ``[N, F]``.
        adjacency: A, sparse CSR, symmetric, ones, sorted columns, empty diagonal, ``[N, N]``.
        y: Class of every node as int64, -1 where it is unknown, shape ``[N]``.
        class_names: Names of class 0, 1, ..., C - 1.
        node_ids: The user's own id of every node; 0, 1, ... unless given.
        train_index: Nodes whose labels train the model.
        val_index: Nodes whose labels stop the training and choose the state that is kept.
        test_index: Nodes that only the test looks at.
        check: Whether to validate the graph.
    """

    x: Tensor
    adjacency: Tensor
    y: Tensor
    class_names: tuple[str, ...]
    node_ids: npt.NDArray[np.generic] | None = None
    train_index: Tensor | None = None
    val_index: Tensor | None = None
    test_index: Tensor | None = None
    check: InitVar[bool] = True

    def __post_init__(self, check: bool) -> None:
        object.__setattr__(self, "class_names", tuple(str(name) for name in self.class_names))
        ids = np.arange(len(self.y)) if self.node_ids is None else np.asarray(self.node_ids)
        object.__setattr__(self, "node_ids", ids)
        if check:
            self._check_adjacency()
            self._check_features()
            self._check_labels()
            self._check_split()

    @classmethod
    def from_scipy(
        cls,
        features: Any,
        adjacency: Any,
        labels: npt.NDArray[Any] | Sequence[int],
        class_names: Sequence[str] | None = None,
        node_ids: npt.NDArray[np.generic] | None = None,
        *,
        mapped: bool = False,
    ) -> Graph:
        """Make a graph from SciPy or NumPy arrays; sparse features stay sparse.

        Classes are named ``"0"``, ``"1"``, ... unless names are given. The arrays of a graph store
        (``mapped``) are neither copied nor checked, as both would read all of them.
        """
        numbers = np.asarray(labels)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise InputError(f"`labels` must be whole numbers, got {numbers.dtype}.")
        y = torch.from_numpy(numbers.astype(np.int64))
        if class_names is None:
            class_names = [str(c) for c in range(int(y.max()) + 1 if len(y) else 0)]
        x = (
            _csr_tensor(sp.csr_array(features), "features", mapped)  # type: ignore[call-overload]
            if sp.issparse(features)
            else torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
        )
        adj = _csr_tensor(sp.csr_array(adjacency), "adjacency", mapped)
        return cls(x, adj, y, tuple(class_names), node_ids, check=not mapped)

    @property
    def num_nodes(self) -> int:
        """Number of nodes N."""
        return int(self.adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges, each counted once."""
        return self.adjacency.col_indices().numel() // 2

    @property
    def num_features(self) -> int:
        """Number of attributes F."""
        return int(self.x.shape[1])

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return len(self.class_names)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.y.device

    def to(self, device: torch.device | str, *, attributes: bool = True) -> Graph:
        """The same graph on ``device``, with or without the attributes; itself if it is there."""
        device = torch.device(device)
        if device == self.device:
            return self
        moved: dict[str, Any] = {
            name: value.to(device)
            for name in ("adjacency", "y", *SPLIT_FIELDS, *(["x"] if attributes else []))
            if (value := getattr(self, name)) is not None
        }
        return replace(self, **moved, check=False)

    def with_split(self, train: Tensor, val: Tensor, test: Tensor) -> Graph:
        """The same graph with these index sets; only they are checked."""
        parts: dict[str, Any] = {}
        for name, index in zip(SPLIT_FIELDS, (train, val, test), strict=True):
            is_integer = not (index.dtype == torch.bool or index.is_floating_point())
            parts[name] = index.to(self.device, torch.int64 if is_integer else index.dtype)
        graph = replace(self, **parts, check=False)
        graph._check_split()
        return graph

    def fingerprint(self) -> str:
        """A hash of edges, labels and split: another seed or noise gives another one."""
        digest = hashlib.sha256()
        for array in (self.adjacency.col_indices(), self.y, self.train_index, self.val_index):
            if array is not None:
                digest.update(array.cpu().contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        kind = "sparse" if self.x.layout == torch.sparse_csr else "dense"
        return (
            f"Graph({self.num_nodes} nodes, {self.num_edges} edges, "
            f"{self.num_features} {kind} features, {self.num_classes} classes, {self.device})"
        )

    def _check_adjacency(self) -> None:
        adj = self.adjacency
        is_square = adj.dim() == 2 and adj.shape[0] == adj.shape[1]
        if adj.layout != torch.sparse_csr or not is_square or not adj.is_floating_point():
            raise _wrong("adjacency", "be a square, floating, sparse CSR tensor", _form(adj))
        weights = adj.values()[adj.values() != 1]
        if len(weights):
            raise _wrong("adjacency", "hold ones only (unweighted)", weights[0].item())
        arrays = (adj.values(), adj.col_indices(), adj.crow_indices())
        data, indices, indptr = (array.cpu().numpy() for array in arrays)
        matrix = sp.csr_array((data, indices, indptr), shape=(self.num_nodes, self.num_nodes))
        if not matrix.has_canonical_format:
            got = "neither or one of them; SciPy's sum_duplicates() mends both"
            raise _wrong("adjacency", "have sorted columns and no duplicate entry in a row", got)
        loops = np.flatnonzero(matrix.diagonal())
        if len(loops):
            got = f"{len(loops)}, the first at node {loops[0]}"
            raise _wrong("adjacency", "have no self-loops", got)
        transposed = matrix.T.tocsr()
        same = np.array_equal(matrix.indptr, transposed.indptr)
        if not (same and np.array_equal(matrix.indices, transposed.indices)):
            row, col = (int(ends[0]) for ends in (matrix > transposed).nonzero())
            got = f"an edge from node {row} to {col} and none back"
            raise _wrong("adjacency", "be symmetric (undirected)", got)

    def _check_features(self) -> None:
        x = self.x
        if x.dim() != 2 or x.shape[0] != self.num_nodes or x.shape[1] < 1:
            raise _wrong("x", f"be [N, F] with N={self.num_nodes} and F >= 1", _form(x))
        if x.layout not in (torch.sparse_csr, torch.strided) or not x.is_floating_point():
            raise _wrong("x", "be floating, and dense or sparse CSR", _form(x))
        finite = torch.isfinite(x.values() if x.layout == torch.sparse_csr else x)
        if not bool(finite.all()):
            raise _wrong("x", "be finite", f"{int((~finite).sum())} NaN or infinite value(s)")

    def _check_labels(self) -> None:
        y, ids = self.y, np.asarray(self.node_ids)
        if y.dtype != torch.int64 or y.shape != (self.num_nodes,):
            raise _wrong("y", f"be int64 of shape [{self.num_nodes}]", _form(y))
        if len(y) and not -1 <= int(y.min()) <= int(y.max()) < self.num_classes:
            expected = f"lie in [-1, {self.num_classes}) (one class name per class)"
            raise _wrong("y", expected, f"{int(y.min())} to {int(y.max())}")
        if len(set(self.class_names)) != self.num_classes:
            raise _wrong("class_names", "be unique", self.class_names)
        if ids.shape != (self.num_nodes,):
            expected = f"hold one id per node ({self.num_nodes} nodes)"
            raise _wrong("node_ids", expected, f"shape {ids.shape}")
        in_order = np.sort(ids)
        twice = in_order[1:][in_order[1:] == in_order[:-1]]
        if len(twice):
            raise _wrong("node_ids", "be unique", f"{twice[0]!s} more than once")

    def _check_split(self) -> None:
        parts = {n: index for n in SPLIT_FIELDS if (index := getattr(self, n)) is not None}
        for name, index in parts.items():
            if index.dtype != torch.int64 or index.dim() != 1:
                fix = "; `mask.nonzero().flatten()` turns a mask into numbers"
                raise _wrong(name, "be int64 node numbers of shape [M]", _form(index) + fix)
            if len(index) and not 0 <= int(index.min()) <= int(index.max()) < self.num_nodes:
                got = f"{int(index.min())} to {int(index.max())}"
                raise _wrong(name, f"lie in [0, {self.num_nodes})", got)
            unknown = index[self.y[index] < 0]
            if len(unknown):
                raise _wrong(name, "hold labelled nodes only", f"node {int(unknown[0])} (y = -1)")
        times = torch.bincount(torch.cat([*parts.values(), self.y.new_empty(0)]), minlength=1)
        if int(times.max()) > 1:
            got = f"node {int(times.argmax())} {int(times.max())} times"
            raise _wrong("train_index, val_index and test_index", "not overlap or repeat", got)


def _wrong(field: str, expected: str, got: object) -> InputError:
    return InputError(f"Graph.{field} must {expected}, got {got}.")


def _form(tensor: Tensor) -> str:
    return f"{tensor.dtype}, {tensor.layout} of shape {tuple(tensor.shape)}"


def _csr_tensor(matrix: sp.csr_array, name: str, mapped: bool = False) -> Tensor:
    if not mapped and not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()  # a copy: the caller's arrays stay as they are
    if not mapped and not matrix.has_canonical_format:
        raise InputError(
            f"`{name}` must have no duplicate entry in a row, got some; "
            "SciPy's sum_duplicates() mends it."
        )
    # 32-bit indices halve the traffic of every product; SciPy picks 64 bit only when it must.
    kind = np.int32 if max(matrix.nnz, *matrix.shape) < np.iinfo(np.int32).max else np.int64
    with warnings.catch_warnings():
        # Said once per process of every CSR tensor; what we use of them is tested.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(kind, copy=not mapped)),
            torch.from_numpy(matrix.indices.astype(kind, copy=not mapped)),
            torch.from_numpy(matrix.data.astype(np.float32, copy=not mapped)),
            matrix.shape,
            check_invariants=not mapped,
        )
