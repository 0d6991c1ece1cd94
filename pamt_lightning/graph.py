"""The one graph object that everything else passes around."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
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
    """

    x: Tensor
    adjacency: Tensor
    y: Tensor
    class_names: tuple[str, ...]
    node_ids: npt.NDArray[np.generic] | None = None
    train_index: Tensor | None = None
    val_index: Tensor | None = None
    test_index: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", tuple(str(name) for name in self.class_names))
        ids = np.arange(len(self.y)) if self.node_ids is None else np.asarray(self.node_ids)
        object.__setattr__(self, "node_ids", ids)
        self._check_adjacency()
        self._check_features()
        self._check_labels()
        for name in SPLIT_FIELDS:
            self._check_index(name, getattr(self, name))
        self._check_disjoint()

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

        Args:
            features: Node attributes ``[N, F]``, SciPy sparse or a NumPy array.
            adjacency: Symmetric SciPy sparse adjacency ``[N, N]`` without self-loops.
            labels: Class numbers ``[N]``, -1 where unknown.
            class_names: ``"0"``, ``"1"``, ... up to the largest label unless given.
            node_ids: 0, 1, ... unless given.
            mapped: Whether the arrays are those of a graph store: they stay where they are and are
                not checked again, as both would read all of them.
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
        if not mapped:
            return cls(x, adj, y, tuple(class_names), node_ids)
        graph = object.__new__(cls)
        given = {"x": x, "adjacency": adj, "y": y, "class_names": tuple(class_names)}
        given["node_ids"] = np.arange(len(y)) if node_ids is None else node_ids
        for name, value in {**dict.fromkeys(SPLIT_FIELDS), **given}.items():
            object.__setattr__(graph, name, value)
        return graph

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
        """The same graph on ``device``; itself if it is there already.

        Args:
            device: Where to.
            attributes: Whether they go there too, or stay where they are, to be sent in parts.
        """
        device = torch.device(device)
        if device == self.device:
            return self
        moved = {
            name: value.to(device)
            for name in ("adjacency", "y", *SPLIT_FIELDS, *(["x"] if attributes else []))
            if (value := getattr(self, name)) is not None
        }
        return self._replace(moved)

    def with_split(self, train: Tensor, val: Tensor, test: Tensor) -> Graph:
        """The same graph with these index sets; only they are checked."""
        parts = dict(zip(SPLIT_FIELDS, (train, val, test), strict=True))
        for name, index in parts.items():
            if index.dtype == torch.bool or index.is_floating_point():
                raise InputError(
                    f"Graph.{name} must hold node numbers, got {index.dtype}; "
                    "`mask.nonzero().flatten()` turns a mask into numbers."
                )
        graph = self._replace({k: v.to(self.device, torch.int64) for k, v in parts.items()})
        for name in SPLIT_FIELDS:
            graph._check_index(name, getattr(graph, name))
        graph._check_disjoint()
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

    def _replace(self, changes: dict[str, Tensor]) -> Graph:
        # Not dataclasses.replace: that would validate the whole graph again.
        graph = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(graph, name, value)
        return graph

    def _check_adjacency(self) -> None:
        adj = self.adjacency
        if adj.layout != torch.sparse_csr or adj.dim() != 2 or adj.shape[0] != adj.shape[1]:
            raise InputError(
                "Graph.adjacency must be a square sparse CSR tensor, "
                f"got layout {adj.layout} and shape {tuple(adj.shape)}."
            )
        if not adj.is_floating_point():
            raise InputError(f"Graph.adjacency must be floating, got {adj.dtype}.")
        if bool((adj.values() != 1).any()):
            wrong = adj.values()[adj.values() != 1][0].item()
            raise InputError(f"Graph.adjacency must hold ones only (unweighted), got {wrong}.")
        matrix = _scipy_csr(adj)
        if not matrix.has_canonical_format:
            raise InputError(
                "Graph.adjacency must have sorted columns and no duplicate entry in a row, "
                "got neither or one of them; SciPy's sum_duplicates() mends both."
            )
        loops = np.flatnonzero(matrix.diagonal())
        if len(loops):
            raise InputError(
                f"Graph.adjacency must have no self-loops, got {len(loops)}, "
                f"the first at node {loops[0]}."
            )
        transposed = matrix.T.tocsr()
        same = np.array_equal(matrix.indptr, transposed.indptr)
        if not (same and np.array_equal(matrix.indices, transposed.indices)):
            row, col = (int(ends[0]) for ends in (matrix > transposed).nonzero())
            raise InputError(
                "Graph.adjacency must be symmetric (undirected), "
                f"got an edge from node {row} to {col} and none back."
            )

    def _check_features(self) -> None:
        x = self.x
        if x.dim() != 2 or x.shape[0] != self.num_nodes or x.shape[1] < 1:
            raise InputError(
                f"Graph.x must be [N, F] with N={self.num_nodes} and F >= 1, got {tuple(x.shape)}."
            )
        if x.layout not in (torch.sparse_csr, torch.strided):
            raise InputError(f"Graph.x must be dense or sparse CSR, got layout {x.layout}.")
        if not x.is_floating_point():
            raise InputError(f"Graph.x must be floating, got {x.dtype}.")
        finite = torch.isfinite(x.values() if x.layout == torch.sparse_csr else x)
        if not bool(finite.all()):
            raise InputError(
                f"Graph.x must be finite, got {int((~finite).sum())} NaN or infinite value(s)."
            )

    def _check_labels(self) -> None:
        if self.y.dtype != torch.int64 or self.y.shape != (self.num_nodes,):
            raise InputError(
                f"Graph.y must be int64 of shape [{self.num_nodes}], "
                f"got {self.y.dtype} of shape {tuple(self.y.shape)}."
            )
        if len(self.y) and not -1 <= int(self.y.min()) <= int(self.y.max()) < self.num_classes:
            raise InputError(
                f"Graph.y must lie in [-1, {self.num_classes}) (one class name per class), "
                f"got {int(self.y.min())} to {int(self.y.max())}."
            )
        if len(set(self.class_names)) != self.num_classes:
            raise InputError(f"Graph.class_names must be unique, got {self.class_names}.")
        ids = np.asarray(self.node_ids)
        if ids.shape != (self.num_nodes,):
            raise InputError(
                f"Graph.node_ids must hold one id per node ({self.num_nodes} nodes), "
                f"got shape {ids.shape}."
            )
        in_order = np.sort(ids)
        twice = in_order[1:][in_order[1:] == in_order[:-1]]
        if len(twice):
            raise InputError(f"Graph.node_ids must be unique, got {twice[0]!s} more than once.")

    def _check_index(self, name: str, index: Tensor | None) -> None:
        if index is None:
            return
        if index.dtype != torch.int64 or index.dim() != 1:
            raise InputError(
                f"Graph.{name} must be int64 of shape [M], "
                f"got {index.dtype} of shape {tuple(index.shape)}."
            )
        if len(index) == 0:
            return
        if int(index.min()) < 0 or int(index.max()) >= self.num_nodes:
            raise InputError(
                f"Graph.{name} must lie in [0, {self.num_nodes}), "
                f"got {int(index.min())} to {int(index.max())}."
            )
        unknown = index[self.y[index] < 0]
        if len(unknown):
            raise InputError(
                f"Graph.{name} must hold labelled nodes only, got node {int(unknown[0])} (y = -1)."
            )

    def _check_disjoint(self) -> None:
        parts = [index for name in SPLIT_FIELDS if (index := getattr(self, name)) is not None]
        if not parts:
            return
        times_used = torch.bincount(torch.cat(parts), minlength=1)
        if int(times_used.max()) > 1:
            raise InputError(
                "Graph.train_index, val_index and test_index must not overlap or repeat, "
                f"got node {int(times_used.argmax())} {int(times_used.max())} times."
            )


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


def _scipy_csr(tensor: Tensor) -> sp.csr_array:
    crow, col = tensor.crow_indices().cpu().numpy(), tensor.col_indices().cpu().numpy()
    return sp.csr_array(
        (tensor.values().cpu().numpy(), col, crow), shape=(tensor.shape[0], tensor.shape[1])
    )
