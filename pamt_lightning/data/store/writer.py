"""Writes a graph store block by block: what is written never has to fit into memory."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from tqdm import tqdm

from pamt_lightning.data.raw import RawGraph, check_distinct, check_positions
from pamt_lightning.data.scaling import Moments, ScaleName, Scaling, normalize_rows, scaling_kind
from pamt_lightning.data.store.edges import EdgeSorter
from pamt_lightning.data.store.format import FORMAT, HEADER, VERSION, NpyStream
from pamt_lightning.data.synthetic import BlockModel, SyntheticOptions
from pamt_lightning.errors import InputError
from pamt_lightning.interop.features import MAX_SPARSE_DENSITY, fits_float32

Array = npt.NDArray[Any]

_ROWS_AT_ONCE = 1 << 16  # nodes that `write_store` takes at a time
_DRAWN_NODES, _DRAWN_EDGES = 1 << 18, 1 << 22  # that `write_synthetic` draws at a time


class GraphStoreWriter:
    """Writes a graph store, which appears complete when the ``with`` block ends without an error.

    docs/large_graphs.md has an example. Edges are undirected and unweighted; duplicates and
    self-loops are dropped. Attributes are all dense or all sparse, and are stored scaled.

    Args:
        folder: The store; it must not exist.
        num_features: Number of attributes d.
        class_names: Names of class 0, 1, …
        feature_names: Names of the attributes, if they have any.
        scale_features: ``l2``, ``l1``, ``standard`` or ``none``, see `GraphDataModule`; by default
            ``l2`` for sparse attributes and ``standard`` for dense ones.

    Attributes:
        split: The positions of nodes in ``train``, ``val`` and ``test``, if the graph has a split.
    """

    def __init__(
        self,
        folder: str | Path,
        num_features: int,
        class_names: Sequence[str],
        feature_names: Sequence[str] = (),
        *,
        scale_features: ScaleName | None = None,
    ) -> None:
        self.folder, self.num_nodes, self.num_features = Path(folder), 0, num_features
        self.class_names, self.feature_names = tuple(class_names), tuple(feature_names)
        if num_features < 1:
            raise InputError(f"`num_features` must be 1 or more, got {num_features}.")
        if len(set(self.class_names)) < len(self.class_names):
            raise InputError(f"`class_names` must be distinct, got {self.class_names}.")
        if len(self.feature_names) not in (0, num_features):
            got = len(self.feature_names)
            raise InputError(f"`feature_names` must be {num_features} names, got {got}.")
        self._scaling = scale_features
        self._moments = Moments(num_features)
        self._streams: dict[str, NpyStream] = {}
        self._ids: list[Array] = []
        self.split: Mapping[str, Array] = {}
        if self.folder.exists():
            raise InputError(f"{self.folder} exists already: choose another name, or remove it.")
        # The unfinished store; the stack closes all files, then removes it.
        self._part = self.folder.with_name(f".{self.folder.name}.{uuid.uuid4().hex}")
        self._stack = ExitStack()
        self._is_open = False

    def __enter__(self) -> GraphStoreWriter:
        self._stack.callback(shutil.rmtree, self._part, ignore_errors=True)
        try:
            self._part.mkdir(parents=True)
            entries = TemporaryFile(dir=self._part)
            self._edges = EdgeSorter(self._stack.enter_context(entries))
        except OSError as error:
            self._stack.close()
            raise self._cannot_write(error) from None
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with self._stack:
            try:
                if kind is None:
                    self._finish()
            except OSError as problem:
                raise self._cannot_write(problem) from None
        if isinstance(error, OSError) and error.filename is None:  # the disk is full
            raise self._cannot_write(error) from None

    def add_nodes(
        self, features: Array | sp.csr_array, labels: Array, node_ids: Array | None = None
    ) -> None:
        """Add the next nodes: finite ``features [m, d]``, dense or sparse; labels -1 if unknown.

        The ids are integers or texts; they are given for all nodes or for none.
        """
        self._check_open()
        classes, last = np.asarray(labels), len(self.class_names) - 1
        count = len(classes)
        where = f"of nodes {self.num_nodes} to {self.num_nodes + count - 1}"
        if features.shape != (count, self.num_features):
            shapes = f"{(count, self.num_features)}, got {features.shape}"
            raise InputError(f"`features` {where} must be of shape {shapes}.")
        if classes.dtype.kind not in "iu" or ((classes < -1) | (classes > last)).any():
            got = f"{classes.dtype} {np.unique(classes)[:5]}"
            raise InputError(f"`labels` {where} must be integers from -1 to {last}, got {got}.")
        if (node_ids is None) != (not self._ids) and self.num_nodes:
            raise InputError("`node_ids` must be given for all nodes or for none.")
        if node_ids is not None and np.shape(node_ids) != (count,):
            raise InputError(f"`node_ids` {where} must be {count}, got {np.shape(node_ids)}.")
        self._add_features(features, where)
        self._stream("labels", np.int32).append(classes)
        if node_ids is not None:
            self._ids.append(np.asarray(node_ids))
        self.num_nodes += count

    def add_edges(self, sources: Array, targets: Array) -> None:
        """Add undirected edges, each in one direction or in both.

        They are given by positions of nodes, from 0; the nodes may be added later.
        """
        self._check_open()
        ends = [np.asarray(side) for side in (sources, targets)]
        kinds = {side.dtype.kind for side in ends}
        if ends[0].ndim != 1 or ends[0].shape != ends[1].shape or kinds - {"i", "u"}:
            got = ", ".join(f"{side.dtype} of shape {side.shape}" for side in ends)
            raise InputError(f"edges must be two lists of integers of one length, got {got}.")
        pairs = np.stack(ends, axis=1).astype(np.int64)
        if pairs.min(initial=0) < 0:
            raise InputError(f"edges must join node positions from 0 on, got {pairs.min()}.")
        self._edges.add(pairs)

    def _check_open(self) -> None:
        if not self._is_open:
            raise InputError("a graph store is written in a block: with GraphStoreWriter(...):")

    def _stream(self, name: str, dtype: npt.DTypeLike, *row_shape: int) -> NpyStream:
        if name not in self._streams:
            self._streams[name] = NpyStream(self._part / f"{name}.npy", dtype, row_shape)
            self._stack.enter_context(self._streams[name].file)
        return self._streams[name]

    def _add_features(self, features: Any, where: str) -> None:
        is_sparse = sp.issparse(features)
        features = sp.csr_array(features) if is_sparse else np.asarray(features)
        if ("features" if is_sparse else "features_data") in self._streams:
            raise InputError(f"`features` {where} must be sparse or dense as those before them.")
        values = features.data if is_sparse else features
        if values.dtype.kind not in "biuf" or not fits_float32(values).all():
            raise InputError(f"`features` {where} must be finite numbers, got others.")
        self._scaling = scaling_kind(features, self._scaling)
        if is_sparse and not features.has_canonical_format:
            features = features.copy()
            features.sum_duplicates()
        if self._scaling == "standard":
            self._moments.add(features)
        elif self._scaling in ("l1", "l2"):
            features = normalize_rows(features.astype(np.float32), self._scaling)
        if not is_sparse:
            self._stream("features", np.float32, self.num_features).append(features)
            return
        data = self._stream("features_data", np.float32)
        indptr = self._stream("features_indptr", np.int64)
        if indptr.num_rows == 0:
            indptr.append(np.zeros(1))
        indptr.append(data.num_rows + features.indptr[1:].astype(np.int64))
        self._stream("features_indices", np.int32).append(features.indices)
        data.append(features.data)

    def _finish(self) -> None:
        """Write what is known only at the end, and give the store its name."""
        edges, last = self._edges, self.num_nodes - 1
        if self.num_nodes == 0 or edges.num_entries == 0:
            raise InputError(f"{self.folder} must have nodes and edges, got none.")
        if edges.last_node > last:
            raise InputError(f"edges must join nodes 0 to {last}, got {edges.last_node}.")
        limit = np.iinfo(np.int32).max
        kind = np.int32 if max(edges.num_entries, self.num_nodes) < limit else np.int64
        indptr = self._stream("adjacency_indptr", kind)
        edges.write(self.num_nodes, indptr, self._stream("adjacency_indices", kind))
        edges.file.close()
        if self._ids:
            ids = np.concatenate(self._ids)
            if ids.dtype.kind not in "iuU":
                raise InputError(f"`node_ids` must be integers or texts, got {ids.dtype}.")
            check_distinct(ids, "`node_ids`")
            self._stream("node_ids", ids.dtype).append(ids)
        for name, index in self.split.items():
            checked = check_positions(np.asarray(index), self.num_nodes, f"`{name}` of the split")
            self._stream(f"{name}_index", np.int64).append(checked)
        if self._scaling == "standard":
            self._standardize()
        arrays = {name: stream.close() for name, stream in sorted(self._streams.items())}
        header = {
            "format": FORMAT,
            "version": VERSION,
            "num_nodes": self.num_nodes,
            "num_edges": arrays["adjacency_indices"]["shape"][0] // 2,
            "num_features": self.num_features,
            "class_names": self.class_names,
            "feature_names": self.feature_names,
            "scaling": self._scaling,
            "arrays": arrays,
        }
        text = json.dumps(header, indent=1, ensure_ascii=False)
        (self._part / HEADER).write_text(text, encoding="utf-8")
        self._part.rename(self.folder)

    def _standardize(self) -> None:
        """Scale dense attributes, now that the mean and deviation of all columns are known."""
        measured = self._part / "measured.npy"
        self._streams.pop("features").close()
        (self._part / "features.npy").rename(measured)
        scaling = Scaling("standard", self._moments.mean, self._moments.std)
        rows = np.load(measured, mmap_mode="r")
        scaled = self._stream("features", np.float32, self.num_features)
        for start in range(0, self.num_nodes, _ROWS_AT_ONCE):
            scaled.append(np.asarray(scaling.apply(rows[start : start + _ROWS_AT_ONCE])))
        del rows  # a mapped file cannot be removed on Windows
        measured.unlink()
        for name in ("mean", "std"):
            self._stream(f"features_{name}", np.float64).append(getattr(self._moments, name))

    def _cannot_write(self, error: OSError) -> InputError:
        return InputError(f"cannot write {self.folder}: {error.strerror}.")


def write_store(
    raw: RawGraph, folder: str | Path, *, scale_features: ScaleName | None = None
) -> None:
    """Write a graph that is in memory as a store; the options are those of `GraphStoreWriter`."""
    if raw.scaled is not None:
        raise InputError("this graph is a store already: copy its folder.")
    if (raw.adjacency.data != 1).any():
        raise InputError(
            "a graph store holds unweighted edges, and these have weights: keep the files, or "
            "write them without weights."
        )
    if raw.table is not None and not raw.table.encoder.is_plain:
        scale_features = scale_features or "none"  # the columns are standardised already
    ids = None if np.array_equal(raw.node_ids, np.arange(raw.num_nodes)) else raw.node_ids
    columns, names = int(raw.features.shape[1]), (raw.class_names, raw.feature_names)
    with GraphStoreWriter(folder, columns, *names, scale_features=scale_features) as writer:
        for start in range(0, raw.num_nodes, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            own_ids = None if ids is None else ids[rows]
            writer.add_nodes(raw.features[rows], raw.labels[rows], own_ids)
            upper = sp.coo_array(sp.triu(raw.adjacency[rows], start + 1))
            writer.add_edges(upper.row.astype(np.int64) + start, upper.col)
        writer.split = raw.given_splits


def write_synthetic(
    folder: str | Path, options: SyntheticOptions, scale_features: ScaleName | None = None
) -> None:
    """Draw a synthetic graph of any size into a store, holding about 40 bytes per node in memory.

    It is not the graph that `synthetic_graph` draws with this seed, because the random numbers are
    used in another order, and it has slightly fewer edges: pairs drawn twice count once.
    """
    model = BlockModel(options)
    total = options.num_nodes + model.num_inside + model.num_across
    writer = GraphStoreWriter(
        folder, options.num_features, model.class_names, scale_features=scale_features
    )
    with tqdm(total=total, desc="drawing", disable=None, unit_scale=True) as bar, writer:
        is_sparse = None
        for start in range(0, options.num_nodes, _DRAWN_NODES):
            labels = model.labels[start : start + _DRAWN_NODES]
            words = model.draw_words(labels)
            if is_sparse is None:  # all blocks are as the first one
                is_sparse = words.nnz / np.prod(words.shape) < MAX_SPARSE_DENSITY
            writer.add_nodes(words if is_sparse else words.toarray(), labels)
            bar.update(len(labels))
        kinds = [(model.draw_inside, model.num_inside), (model.draw_across, model.num_across)]
        for draw, count in kinds:
            for start in range(0, count, _DRAWN_EDGES):
                sources, targets = draw(min(_DRAWN_EDGES, count - start))
                writer.add_edges(sources, targets)
                bar.update(len(sources))
        bar.set_description("sorting")
