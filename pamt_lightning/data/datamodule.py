"""GraphDataModule: one graph with its split and noise, served whole or in batches of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytorch_lightning as pl
import torch

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.data.loaders import GraphLoader
from pamt_lightning.data.memory import raw_of
from pamt_lightning.data.noise import add_structure_noise
from pamt_lightning.data.own.options import ReadOptions
from pamt_lightning.data.own.read import read_own_graph
from pamt_lightning.data.published.download import locate
from pamt_lightning.data.published.readers import read_dataset
from pamt_lightning.data.published.registry import DEFAULT_DATASET, DatasetSpec, get_spec
from pamt_lightning.data.raw import RawGraph, renumber_classes
from pamt_lightning.data.scaling import ScaleName, Scaling, column_order
from pamt_lightning.data.split_files import given_split
from pamt_lightning.data.splits import (
    VALIDATION_SEEDS,
    Split,
    count_or_share,
    ppnp_split,
    random_split,
    resolve_split_seed,
    stratified_folds,
)
from pamt_lightning.data.store.format import is_store
from pamt_lightning.data.synthetic import SyntheticOptions, synthetic_graph
from pamt_lightning.errors import (
    CheckpointError,
    InputError,
    error_context,
    require_in,
    require_one_of,
)
from pamt_lightning.graph import Graph
from pamt_lightning.interop.columns import Columns
from pamt_lightning.interop.edges import Opposite, Repeated
from pamt_lightning.interop.table import AttributeTable, TableEncoder

SplitName = Literal["ppnp", "random", "given", "all"]

DEFAULT_SYNTHETIC = SyntheticOptions()
IN_MEMORY = "graph"  # the name of a graph that has none


class GraphDataModule(pl.LightningDataModule):
    """A graph with its training, validation and test nodes.

    Args:
        dataset: Name in the registry (`pamt datasets` lists them); `synthetic` unless ``path`` is
            given.
        path: A graph of your own: an ``.npz`` file, a folder with edges.csv and nodes.csv, or a
            graph store (`pamt datasets convert`).
        graph: A graph in memory; the split inside it is used with the split ``given``.
        root: Folder or folders that are searched for data files before those of the environment
            variable PAMT_DATA, the cache and the network.
        offline: Never use the network.
        split: ``ppnp`` (the published protocol; default for the four published data sets),
            ``random`` (default elsewhere), ``given`` (that of ``split_path`` or inside the .npz) or
            ``all``: every label is used, see ``folds``; `pamt fit` does so by default for own
            graphs.
        split_seed: A number, or the name of a published seed: test0 ... test19 for reported
            results; val0 ... val19 for choices, with which ``ppnp`` tests on held-out nodes.
        folds: Split ``all``: the labelled nodes are divided into so many folds. For each of them a
            model is trained on the others, which also decides on it when to stop; predictions are
            the mean of all models.
        fold: Split ``all``: the fold that one model stops on, from 1.
        split_path: Index files: a folder with train.txt, val.txt and test.txt, or an .npz file.
        train: Training nodes of each class, by default 20; in the split ``random`` also a share
            such as 0.2.
        val: Validation nodes, or their share; default 500, or half of the nodes that are not for
            training if that is less.
        test: Test nodes, or their share; default all others. The split ``ppnp`` fixes them.
        num_known: Split ``ppnp``: how many nodes may be seen before testing; default as published.
        scale_features: ``l2`` or ``l1`` (each node's attributes divided by that norm: words; ``l2``
            is the default for sparse attributes), ``standard`` (each column with mean 0 and
            deviation 1: measurements; default for dense ones) or ``none``. Their unit never
            matters: a method multiplies all attributes by one number, so that the mean of Σx² over
            the nodes of its training graph is the same for all graphs.
        structure_noise: Rewire edges until this share of them joins different classes: an oracle
            corruption for experiments, which reads the labels of all nodes.
        noise_seed: Seed of the structure noise.
        synthetic: Arguments of the data set `synthetic`, also as a dictionary.
        batch_size: Nodes in a training step, and in each piece of a prediction; by default all. For
            graphs that do not fit into memory or onto the GPU; the attributes of a graph store then
            stay on disk. An epoch uses each node once.
        columns: Own tables: which column holds what, such as
            ``id=node_id,label=type,source=from,target=to,weight=w``, what attributes are
            (``number=``, ``category=``, ``text=``, ``date=``) and which are not used (``skip=``).
            Common spellings are recognised, and what a column holds as well.
        edge_weights: Own graphs: whether to use the weights of edges, if there are any.
        repeated_edges: Own graphs: whether weights of an edge that is repeated in one direction are
            combined by ``sum`` (the default), ``max``, ``count`` (their number) or ``ignore`` (all
            edges weigh one; the default without weights).
        opposite_edges: Own graphs: whether the weights of both directions of an edge are combined
            by ``max``, or by ``sum``, as for flows.
    """

    def __init__(
        self,
        dataset: str | None = None,
        path: str | None = None,
        graph: Graph | None = None,
        root: str | list[str] | None = None,
        offline: bool = False,
        split: SplitName | None = None,
        split_seed: int | str = "test0",
        folds: int = 5,
        fold: int | None = None,
        split_path: str | None = None,
        train: int | float | None = None,
        val: int | float | None = None,
        test: int | float | None = None,
        num_known: int | None = None,
        scale_features: ScaleName | None = None,
        structure_noise: float | None = None,
        noise_seed: int = 0,
        synthetic: SyntheticOptions = DEFAULT_SYNTHETIC,
        batch_size: int | None = None,
        columns: str | None = None,
        edge_weights: bool = True,
        repeated_edges: Repeated | None = None,
        opposite_edges: Opposite = "max",
    ) -> None:
        super().__init__()
        if len([each for each in (dataset, path, graph) if each is not None]) > 1:
            raise InputError(
                "Give one of `dataset`, `path` and `graph`, got "
                f"{dataset!r}, {path!r} and {graph!r}."
            )
        self.path, self.split_path = _absolute(path), _absolute(split_path)
        roots = [] if root is None else [root] if isinstance(root, (str, Path)) else root
        self.roots = [str(_absolute(each)) for each in roots]
        self.split_seed = resolve_split_seed(split_seed)
        self._synthetic = _synthetic_options(synthetic)
        self.save_hyperparameters(ignore=["synthetic", "graph"])
        # A checkpoint holds plain values that mean the same in every working directory.
        self.hparams.update(
            path=self.path,
            split_path=self.split_path,
            root=self.roots,
            split_seed=self.split_seed,
            synthetic=asdict(self._synthetic),
        )
        is_own = path is not None or graph is not None
        self.spec: DatasetSpec | None = None if is_own else get_spec(dataset or DEFAULT_DATASET)
        self._published = self.spec if self.spec and not self.spec.generated else None
        if split is not None:
            require_one_of(get_args(SplitName), split=split)
        require_in("[0, inf)", whole=True, noise_seed=noise_seed)
        if structure_noise is not None:
            require_in("[0, 1]", structure_noise=structure_noise)
        if batch_size is not None:
            require_in("[1, inf)", whole=True, batch_size=batch_size)
        if split_path is not None and split not in (None, "given"):
            raise InputError(f"`split_path` goes with `split`='given', got {split!r}.")
        default: SplitName = "given" if split_path else "ppnp" if self._published else "random"
        self.split_name = split or default
        if num_known is not None and self.split_name != "ppnp":
            raise InputError(f"`num_known` goes with `split`='ppnp', got {self.split_name!r}.")
        if test is not None and self.split_name == "ppnp":
            raise InputError(f"`split`='ppnp' fixes the test nodes: leave out `test`, got {test}.")
        sizes = {"train": train, "val": val, "test": test}
        if self.split_name == "all" and (
            set_ones := [k for k, v in sizes.items() if v is not None]
        ):
            raise InputError(f"`split`='all' uses every label: leave out `{set_ones[0]}`.")
        require_in("[2, inf)", whole=True, folds=folds)
        if fold is not None:
            require_in(f"[1, {folds}]", whole=True, fold=fold)
            if self.split_name != "all":
                raise InputError(f"`fold` goes with `split`='all', got {self.split_name!r}.")
        self.folds, self.fold = folds, fold
        train = 20 if train is None else train
        self.train, self.val, self.test = map(count_or_share, (train, val, test))
        self.num_known, self.batch_size, self.offline = num_known, batch_size, offline
        self.scale_features = scale_features
        self.structure_noise, self.noise_seed = structure_noise, noise_seed
        self.achieved_noise: float | None = None
        self.split: Split | None = None
        self._given = graph
        with error_context("data.columns" if columns else ""):
            named = Columns.parse(columns)
        self._read_options = ReadOptions(named, edge_weights, repeated_edges, opposite_edges)
        self._graph: Graph | None = None
        self._batch: tuple[object, GraphBatch] | None = None
        self._trained_on: Mapping[str, Any] = {}
        self._encoded_raw: RawGraph | None = None
        self._scaling = Scaling("none")
        self._fingerprint = ""

    @property
    def dataset_name(self) -> str:
        """Name of the data set, or of the user's file or folder."""
        if self._given is not None:
            return IN_MEMORY
        # Not Path.stem: a folder's name may have a point, as in graph.v2.
        name = self.spec.name if self.spec else Path(self.path or "").resolve().name
        return name[:-4] if name.lower().endswith(".npz") else name

    @property
    def in_memory(self) -> bool:
        """Whether the graph was given as an object, so that no name leads to it."""
        return self._given is not None

    @property
    def num_features(self) -> int:
        """Number of attributes; data sets of the registry need not be read for it."""
        if self._published:
            return self._published.num_features
        return int(self._encoded().features.shape[1])

    @property
    def num_classes(self) -> int:
        """Number of classes; data sets of the registry need not be read for it."""
        if self._published:
            return self._published.num_classes
        names = self._trained_on.get("class_names") or self.raw.class_names
        if self.spec is None and len(names) < 2:
            raise InputError(
                f"{self._label_file}: training needs labelled nodes of at least two classes, "
                f"found {len(names)} class(es)."
            )
        return len(names)

    @property
    def tested_on(self) -> str:
        """``test nodes``, or ``held-out nodes`` with a published validation seed."""
        choosing = self.split_name == "ppnp" and self.split_seed in VALIDATION_SEEDS
        return "held-out nodes" if choosing else "test nodes"

    @property
    def _label_file(self) -> str:
        if self._given is not None:
            return "the graph"
        path = Path(self.path or "")
        return str(path / "nodes.csv" if path.is_dir() and not is_store(path) else path)

    @cached_property
    def raw(self) -> RawGraph:
        """The graph as read or drawn, before split, noise and normalisation."""
        if self._given is not None:
            return raw_of(self._given)
        if self.spec is None:
            return read_own_graph(self.path or "", self._read_options)
        if self.spec.generated:
            return synthetic_graph(self._synthetic)
        return read_dataset(self.spec, locate(self.spec, self.roots, offline=self.offline))

    @property
    def graph(self) -> Graph:
        """The graph on the CPU; `setup` makes it."""
        if self._graph is None:
            raise RuntimeError("There is no graph yet: call `setup` first.")
        return self._graph

    @property
    def effective_batch_size(self) -> int | None:
        """``batch_size``; None if one batch holds all nodes."""
        all_at_once = self.batch_size is None or self.batch_size >= self.graph.num_nodes
        return None if all_at_once else self.batch_size

    def full_batch(self) -> GraphBatch:
        """The whole graph as all loaders serve it, on the trainer's device and in its precision."""
        device, precision, rank, world_size = torch.device("cpu"), "32-true", 0, 1
        if self.trainer is not None:
            device, precision = self.trainer.strategy.root_device, self.trainer.precision
            rank, world_size = self.trainer.global_rank, self.trainer.world_size
        key = (device, precision, rank, world_size)
        if self._batch is None or self._batch[0] != key:
            dtype = torch.float64 if precision == "64-true" else torch.float32
            size = self.effective_batch_size
            # A training cannot use tensors that a test before it made in inference mode.
            with torch.inference_mode(False):
                graph = self.graph.to(device, attributes=size is None)
                self._batch = key, GraphBatch.from_graph(graph, dtype, size, rank, world_size)
        return self._batch[1]

    def select_fold(self, fold: int) -> None:
        """Split ``all``: serve the training and validation nodes of another model."""
        self.fold = self.hparams["fold"] = fold
        if self._graph is not None:
            self.split = self._make_split(self._graph)
            self._graph = self._graph.with_split(*map(torch.from_numpy, self.split))
            self._fingerprint = self._graph.fingerprint()
            if self._batch is not None:  # what does not depend on the split was expensive
                self._batch = self._batch[0], self._batch[1].with_split_of(self._graph)

    def use_all_labels(self) -> None:
        """Make all labelled nodes training nodes, for a prediction from labels alone."""
        graph = self.graph
        none = torch.empty(0, dtype=torch.int64)
        self._graph = graph.with_split(torch.nonzero(graph.y >= 0).flatten(), none, none)
        self._batch = None

    def match_model(self, state: Mapping[str, Any]) -> None:
        """Number classes, order and scale attributes as in training data with this `state_dict`."""
        self._trained_on = state
        self._encoded_raw = None
        self._graph = self._batch = self.split = None

    # Lightning's hooks -------------------------------------------------------------------------

    def prepare_data(self) -> None:
        """Fetch and read published files in one process of each machine; others read in `setup`."""
        if self._published:
            _ = self.raw

    def setup(self, stage: str) -> None:
        """Read the graph and split it; a prediction needs no split."""
        if self._graph is None:
            self._graph = self._make_graph()
        if stage != "predict" and self.split is None:
            own = self.spec is None and self.split_name != "given"  # that names its own file
            with error_context(self._label_file if own else ""):
                self.split = self._make_split(self._graph)
            self._graph = self._graph.with_split(*map(torch.from_numpy, self.split))
            self._batch = None
            self._fingerprint = self._graph.fingerprint()

    def train_dataloader(self) -> GraphLoader:
        """The whole graph once per epoch, or all its nodes in batches."""
        return GraphLoader(self.full_batch(), self.effective_batch_size, self._epoch)

    def val_dataloader(self) -> GraphLoader:
        """The whole graph: a prediction is propagated over all of it."""
        return GraphLoader(self.full_batch())

    test_dataloader = predict_dataloader = val_dataloader

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint records about its data: classes, scaling, and hashes of the files."""
        table, names = self._encoded().table, self._encoded().feature_names
        encoding = None if table is None else table.encoder.to_list()
        return {
            "dataset": self.dataset_name,
            **({"in_memory": True} if self.in_memory else {}),
            "class_names": list(self.graph.class_names),
            "num_nodes": self.graph.num_nodes,
            "hashes": dict(self.raw.hashes),
            "fingerprint": self._fingerprint,
            "feature_names": list(self._trained_on.get("feature_names") or names),
            **({} if encoding is None else {"encoding": encoding}),
            "scaling": {
                name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
                for name, value in vars(self._scaling).items()
            },
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse to resume a training on data other than its own."""
        mine = self.state_dict()
        # Both follow from the files, whose hashes are compared.
        computed = ("scaling", "encoding")
        changed = [k for k in mine if k not in computed and mine[k] != state_dict.get(k)]
        if changed and self.trainer is not None and self.trainer.state.fn == "fit":
            first = changed[0]
            raise CheckpointError(
                f"This training was started on other data: {first} was {state_dict.get(first)}, "
                f"now it is {mine[first]}. Resume on the same data, or start a new run."
            )

    # How the graph is made ---------------------------------------------------------------------

    def _encoded(self) -> RawGraph:
        """The graph as read, its columns encoded as in the training data of a model."""
        if self._encoded_raw is None:
            raw, columns = self.raw, self._trained_on.get("encoding")
            if raw.table is not None and columns:
                encoder = TableEncoder.from_list(columns)
                with error_context(self._label_file):
                    table = AttributeTable(raw.table.frame, encoder)
                    raw = replace(raw, features=table.features, table=table)
                raw = replace(raw, feature_names=encoder.feature_names)
            self._encoded_raw = raw
        return self._encoded_raw

    def _epoch(self) -> int:
        return self.trainer.current_epoch if self.trainer is not None else 0

    def _make_graph(self) -> Graph:
        raw, model = self._encoded(), self._trained_on
        expected: Scaling | None = None
        if model:
            raw = renumber_classes(raw, tuple(model["class_names"]), self.dataset_name)
            scaling: dict[str, Any] = {
                name: value.numpy() if isinstance(value, torch.Tensor) else value
                for name, value in model["scaling"].items()
            }
            expected = Scaling(**scaling)
        if self.structure_noise is not None:
            raw, self.achieved_noise = add_structure_noise(
                raw, self.structure_noise, self.noise_seed
            )
        order = column_order(raw.feature_names, model.get("feature_names", ()), self.dataset_name)
        features = raw.features if order is None else raw.features[:, order]
        if raw.scaled is None:
            is_encoded = raw.table is not None and not raw.table.encoder.is_plain
            kind = self.scale_features or ("none" if is_encoded else None)
            self._scaling = expected or Scaling.of(features, kind)
            features = self._scaling.apply(features)
        else:
            written = raw.scaled.reordered(order)
            own = Scaling(self.scale_features or written.kind, written.mean, written.std)
            self._scaling = expected or own
            features = written.rescale(features, self._scaling, self.path or "")
        return Graph.from_arrays(
            features,
            raw.adjacency,
            raw.labels,
            raw.class_names,
            raw.node_ids,
            feature_names=tuple(model.get("feature_names") or raw.feature_names),
            mapped=raw.mapped and self.structure_noise is None,
        )

    def _make_split(self, graph: Graph) -> Split:
        labels, seed, names = graph.y.numpy(), self.split_seed, graph.class_names
        if self.split_name == "given":
            given = self.split_path or self.raw.given_splits
            return given_split(given, labels, np.asarray(graph.node_ids), self.dataset_name)
        if self.split_name == "random":
            return random_split(labels, seed, self.train, self.val, self.test, names)
        if self.split_name == "all":
            parts = stratified_folds(labels, self.folds, seed)
            held = parts[min(self.fold or 1, len(parts)) - 1]
            labelled = np.flatnonzero(labels >= 0)
            return Split(labelled[~np.isin(labelled, held)], held, labelled[:0])
        known = self.num_known
        if known is None:
            known = self.spec.num_known if self.spec else 1500
        val = 500 if self.val is None else self.val
        return ppnp_split(labels, seed, known, self.train, val, names)


def _synthetic_options(given: SyntheticOptions | Mapping[str, Any]) -> SyntheticOptions:
    if isinstance(given, SyntheticOptions):
        return given
    try:
        return SyntheticOptions(**given)
    except TypeError as error:
        raise InputError(f"`synthetic`: {error}.") from None


def _absolute(path: str | Path | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
