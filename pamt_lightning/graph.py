"""The one graph object that everything else passes around."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from pamt_lightning.errors import InputError
from pamt_lightning.interop.arrays import GraphArrays, arrays_from_edges, arrays_from_matrix
from pamt_lightning.interop.edges import Opposite, Repeated
from pamt_lightning.interop.table import AttributeTable
from pamt_lightning.kernels.csr import scipy_csr

if TYPE_CHECKING:
    import pandas as pd

SPLIT_FIELDS = ("train_index", "val_index", "test_index")


@dataclass(frozen=True, eq=False)
class Graph:
    """An attributed, undirected graph, validated once when it is made.

    Make one with `from_edges`, `from_pandas`, `from_networkx`, `from_scipy` or `from_pyg`.

    Attributes:
        x: Node attributes X, sparse CSR or dense, floating, shape ``[N, F]``.
        adjacency: A, sparse CSR, symmetric, positive weights (ones in an unweighted graph), sorted
            columns, empty diagonal, ``[N, N]``.
        y: Class of every node as int64, -1 where it is unknown, shape ``[N]``.
        class_names: Names of class 0, 1, ..., C - 1.
        node_ids: The user's own id of every node; 0, 1, ... unless given.
        train_index: Nodes whose labels train the model.
        val_index: Nodes whose labels stop the training and choose the state that is kept.
        test_index: Nodes that only the test looks at.
        feature_names: Names of the attributes, if they have any.
        table: The columns that the attributes were made from, if there was a table: a trained model
            encodes those of another graph as it encoded its own.
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
    feature_names: tuple[str, ...] = ()
    table: AttributeTable | None = None
    check: InitVar[bool] = True

    def __post_init__(self, check: bool) -> None:
        object.__setattr__(self, "class_names", tuple(str(name) for name in self.class_names))
        object.__setattr__(self, "feature_names", tuple(str(name) for name in self.feature_names))
        ids = np.arange(len(self.y)) if self.node_ids is None else np.asarray(self.node_ids)
        object.__setattr__(self, "node_ids", ids)
        if check:
            self._check_adjacency()
            self._check_features()
            self._check_labels()
            self._check_split()

    # From and to other forms -------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        features: Any = None,
        labels: Any = None,
        *,
        node_ids: Any = None,
        weights: Any = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        repeated: Repeated | None = None,
        opposite: Opposite = "max",
    ) -> Graph:
        """Make a graph from a list of edges.

        >>> Graph.from_edges([("ann", "ben"), ("ben", "cleo")], labels={"ann": "red"}).num_nodes
        3

        Args:
            edges: Pairs of node ids, or an array ``[m, 2]``, each in one direction or in both.
                Self-loops are dropped.
            features: Attributes ``[n, d]``: NumPy, SciPy, torch or pandas. Without them, columns
                are made from the structure: degrees, PageRank and positions.
            labels: One for each node, or a dictionary of those that are known. -1, ``None``, NaN
                and an empty text are unknown.
            node_ids: The ids of the nodes, in the order of features and labels. Without them 0, 1,
                … if features or labels are given, else those that occur in ``edges``.
            weights: One for each edge; without them all edges weigh the same.
            class_names: Names of the classes, if the labels are positions in it.
            feature_names: Names of the attributes.
            repeated: What becomes of an edge that is repeated in one direction: the ``sum`` of the
                weights (default if there are any), their ``max``, their ``count``, or ``ignore``
                (default without weights).
            opposite: What becomes of the weights of both directions of an edge: their ``max`` or,
                as for flows, their ``sum``. A symmetric graph stays as it is.
        """
        arrays = arrays_from_edges(
            edges,
            features,
            labels,
            node_ids=node_ids,
            weights=weights,
            class_names=class_names,
            feature_names=feature_names,
            repeated=repeated,
            opposite=opposite,
        )
        return cls.of_arrays(arrays)

    @classmethod
    def from_scipy(
        cls,
        features: Any,
        adjacency: Any,
        labels: Any = None,
        class_names: Sequence[str] | None = None,
        node_ids: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        opposite: Opposite = "max",
    ) -> Graph:
        """Make a graph from SciPy or NumPy matrices; sparse attributes stay sparse.

        Args:
            features: Attributes ``[n, d]``, or None.
            adjacency: Weights of edges ``[n, n]``; see `from_edges` for ``opposite`` and for the
                other arguments.
            labels: One for each node.
            class_names: Names of the classes.
            node_ids: Ids of the nodes.
            feature_names: Names of the attributes.
            opposite: What becomes of the weights of both directions of an edge.
        """
        arrays = arrays_from_matrix(
            adjacency,
            features,
            labels,
            class_names=class_names,
            node_ids=node_ids,
            feature_names=feature_names,
            opposite=opposite,
        )
        return cls.of_arrays(arrays)

    @classmethod
    def from_pandas(
        cls,
        nodes: pd.DataFrame | None,
        edges: pd.DataFrame,
        *,
        id: str | None = None,
        label: str | None = None,
        features: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        repeated: Repeated | None = None,
        opposite: Opposite = "max",
    ) -> Graph:
        """Make a graph from a table of nodes, which may be None, and a table of edges.

        Columns that are not named are recognised by common spellings, such as ``node_id``,
        ``class``, ``src``, ``dst`` and ``weight``, and what was taken is printed. Without an id
        column the index has the ids; all other columns are attributes: numbers, truth values,
        categories, dates and texts, with missing values. ``kinds`` says what a column holds if that
        is not what it looks like: ``{"zip": "category"}``. ``repeated`` and ``opposite`` are those
        of `from_edges`.
        """
        from pamt_lightning.interop.frames import arrays_from_frames

        names = {"id": id, "label": label, "source": source, "target": target, "weight": weight}
        arrays, taken = arrays_from_frames(
            nodes,
            edges,
            **names,
            features=features,
            kinds=kinds,
            repeated=repeated,
            opposite=opposite,
        )
        if all(name is None for name in names.values()):
            print(f"{taken}; {arrays.report}")
        return cls.of_arrays(arrays)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        label: str | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        repeated: Repeated | None = None,
        opposite: Opposite = "max",
    ) -> Graph:
        """Make a graph from a NetworkX graph of any kind; nodes of any type keep their ids.

        Args:
            graph: The NetworkX graph.
            label: The node attribute with the class; a node without it is unlabelled.
            features: Node attributes that are numbers or vectors.
            weight: The edge attribute with the weight.
            repeated: As in `from_edges`.
            opposite: As in `from_edges`.

        Attributes that are not named are those with common names (``label``, ``class``, ``weight``)
        and all numbers and vectors; what was taken is printed.
        """
        from pamt_lightning.interop.networks import arrays_from_networkx

        arrays, taken = arrays_from_networkx(
            graph,
            label=label,
            features=features,
            weight=weight,
            repeated=repeated,
            opposite=opposite,
        )
        if label is None or features is None:
            print(f"{taken}; {arrays.report}")
        return cls.of_arrays(arrays)

    @classmethod
    def from_pyg(
        cls, data: Any, *, repeated: Repeated | None = None, opposite: Opposite = "max"
    ) -> Graph:
        """Make a graph from a ``torch_geometric.data.Data``, with the split of its masks.

        Takes ``edge_index``, ``edge_weight`` or ``edge_attr`` if it is one floating number per
        edge, ``x`` and ``y``, and prints what it took; ``repeated`` and ``opposite`` are those of
        `from_edges`.
        """
        from pamt_lightning.interop.pyg import arrays_from_pyg

        arrays, taken = arrays_from_pyg(data, repeated=repeated, opposite=opposite)
        print(f"{taken}; {arrays.report}")
        return cls.of_arrays(arrays)

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        adjacency: sp.csr_array,
        labels: npt.NDArray[Any] | Sequence[int],
        class_names: Sequence[str],
        node_ids: npt.NDArray[np.generic] | None = None,
        *,
        feature_names: Sequence[str] = (),
        mapped: bool = False,
    ) -> Graph:
        """Make a graph from arrays that are as `Graph` needs them.

        The arrays of a graph store (``mapped``) are neither copied nor checked, as both would read
        all of them.
        """
        x = (
            _csr_tensor(sp.csr_array(features), "features", mapped)  # type: ignore[call-overload]
            if sp.issparse(features)
            else torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
        )
        return cls(
            x,
            _csr_tensor(adjacency, "adjacency", mapped),
            torch.from_numpy(np.asarray(labels, dtype=np.int64)),
            tuple(class_names),
            node_ids,
            feature_names=tuple(feature_names),
            check=not mapped,
        )

    @classmethod
    def of_arrays(cls, arrays: GraphArrays) -> Graph:
        """Make a graph from what `pamt_lightning.interop` returns."""
        graph = cls.from_arrays(
            arrays.features,
            arrays.adjacency,
            arrays.labels,
            arrays.class_names,
            arrays.node_ids,
            feature_names=arrays.feature_names,
        )
        graph = replace(graph, table=arrays.table, check=False)
        parts = (torch.from_numpy(index) for index in arrays.split.values())
        return graph.with_split(*parts) if arrays.split else graph

    def to_pandas(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """A table of nodes (id, label, attributes) and one of edges, each edge once."""
        from pamt_lightning.interop.frames import frames_of

        x = self._scipy_features()
        return frames_of(self._ids, self.labels, x, self.feature_names, scipy_csr(self.adjacency))

    def to_networkx(self, *, features: bool = False) -> Any:
        """A NetworkX graph whose nodes have ``label`` if it is known and, on request, ``x``."""
        from pamt_lightning.interop.networks import networkx_of

        x = self._scipy_features() if features else None
        return networkx_of(self._ids, self.labels, x, scipy_csr(self.adjacency))

    def to_pyg(self) -> Any:
        """A ``torch_geometric.data.Data``; its ``x`` is dense, as most of its layers need it."""
        from torch_geometric.data import Data

        coo = torch.Tensor.to_sparse(self.adjacency)
        x = self.x.to_dense() if self.x.layout == torch.sparse_csr else self.x
        data = Data(x=x, edge_index=coo.indices().long(), y=self.y, num_nodes=self.num_nodes)
        if self.is_weighted:
            data.edge_weight = coo.values()
        for name in SPLIT_FIELDS:
            index: Tensor | None = getattr(self, name)
            if index is not None:
                mask = torch.zeros(self.num_nodes, dtype=torch.bool, device=self.device)
                mask[index] = True
                data[name.replace("_index", "_mask")] = mask
        return data

    def _scipy_features(self) -> Any:
        x = self.x.cpu()
        return scipy_csr(x).astype(np.float32) if x.layout == torch.sparse_csr else x.numpy()

    @property
    def _ids(self) -> npt.NDArray[Any]:
        return np.asarray(self.node_ids)

    # Facts -------------------------------------------------------------------------------------

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The name of the class of each node, ``None`` if it is unknown."""
        names: npt.NDArray[Any] = np.array([*self.class_names, None], dtype=object)
        return np.asarray(names[self.y.cpu().numpy()])

    @property
    def is_weighted(self) -> bool:
        """Whether edges have other weights than one."""
        return bool((self.adjacency.values() != 1).any())

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
        weights = self.adjacency.values() if self.is_weighted else None
        for array in (
            self.adjacency.col_indices(),
            weights,
            self.y,
            self.train_index,
            self.val_index,
        ):
            if array is not None:
                digest.update(array.cpu().contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def __deepcopy__(self, memo: object) -> Graph:
        return self  # it is frozen, and sparse tensors cannot be copied

    def __repr__(self) -> str:
        kind = "sparse" if self.x.layout == torch.sparse_csr else "dense"
        edges = "weighted edges" if self.is_weighted else "edges"
        known = int((self.y >= 0).sum())
        labels = "" if known == self.num_nodes else f", {known} labels"
        return (
            f"Graph({self.num_nodes} nodes, {self.num_edges} {edges}, "
            f"{self.num_features} {kind} features, {self.num_classes} classes{labels}, "
            f"{self.device})"
        )

    def _check_adjacency(self) -> None:
        adj = self.adjacency
        is_square = adj.dim() == 2 and adj.shape[0] == adj.shape[1]
        if adj.layout != torch.sparse_csr or not is_square or not adj.is_floating_point():
            raise _wrong("adjacency", "be a square, floating, sparse CSR tensor", _form(adj))
        wrong = adj.values()[~((adj.values() > 0) & torch.isfinite(adj.values()))]
        if len(wrong):
            raise _wrong("adjacency", "hold positive, finite weights", wrong[0].item())
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
        differ = np.flatnonzero(matrix.data != transposed.data)
        if len(differ):
            row = int(np.searchsorted(matrix.indptr, differ[0], side="right")) - 1
            col = int(matrix.indices[differ[0]])
            got = f"{matrix[row, col]} from node {row} to {col} and {matrix[col, row]} back"
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
        if len(self.feature_names) not in (0, self.num_features):
            expected = f"be {self.num_features} names, one for each attribute"
            raise _wrong("feature_names", expected, len(self.feature_names))
        if len(set(self.class_names)) != self.num_classes:
            raise _wrong("class_names", "be unique", self.class_names)
        if ids.shape != (self.num_nodes,):
            expected = f"hold one id per node ({self.num_nodes} nodes)"
            raise _wrong("node_ids", expected, f"shape {ids.shape}")
        if ids.dtype == object:  # of several types, which cannot be sorted
            counts = Counter(ids.tolist())
            twice = [each for each, count in counts.items() if count > 1]
        else:
            in_order = np.sort(ids)
            twice = in_order[1:][in_order[1:] == in_order[:-1]].tolist()
        if twice:
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
