"""Memory of a long run, estimated before it starts, and its time, from the first epoch."""

from __future__ import annotations

import sys
import time

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.graph import Graph
from pamt_lightning.methods.soft_labels import SoftLabelModule
from pamt_lightning.nn import MLP
from pamt_lightning.training.memory import memory_for_each

_LARGE = 2_000_000  # nodes plus stored edges of a graph that is worth an estimate

# Measured on graphs of 10^6 and 10^7 nodes: the largest number of values held at once for each
# stored entry of Â and for each entry of a matrix [N, C] or [B, hidden].
_PER_EDGE = 8.0
_PER_CLASS = 8.0
_PER_HIDDEN = 4.0
_PROCESS = 0.45e9  # Python, torch and Lightning themselves


class DataNote(Callback):
    """Prints on standard error what was found in the user's own graph and done to its columns."""

    def __init__(self, data: GraphDataModule) -> None:
        super().__init__()
        self._data = data

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print, once if a model is trained for each fold."""
        data = self._data
        if data.spec is None and data.fold in (None, 1) and trainer.is_global_zero:
            for text in data.raw.notes:
                print(f"{data.dataset_name}: {text}", file=sys.stderr)


class LongRunNote(Callback):
    """Prints the memory and the time of a run on a large graph on standard error.

    For methods that learn from soft labels, on CPUs.
    """

    def __init__(self, data: GraphDataModule) -> None:
        super().__init__()
        self._data = data
        self._started: float | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Estimate the memory if the graph is large."""
        if not isinstance(pl_module, SoftLabelModule) or not trainer.is_global_zero:
            return
        graph, batch_size = self._data.graph, self._data.effective_batch_size
        if graph.num_nodes + 2 * graph.num_edges < _LARGE or pl_module.device.type != "cpu":
            return
        memory = memory_of(pl_module, graph, batch_size, trainer.world_size)
        available = memory_for_each(max(1, trainer.world_size // max(1, trainer.num_nodes)))
        free = "" if available is None else f" ({available / 1e9:.1f} GB available)"
        size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges"
        print(f"{size}: about {memory / 1e9:.1f} GB of memory{free}.", file=sys.stderr)
        if available is not None and memory > available:
            print(
                "warning: the memory will not suffice. A smaller --data.batch_size and a graph "
                "store (`pamt datasets convert`) need less; several machines can share the nodes.",
                file=sys.stderr,
            )
        self._started = time.monotonic()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock without pretraining and the first mask."""
        if self._started is not None:
            self._started = time.monotonic()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Report the time of the first epoch, and of all epochs at this rate."""
        if self._started is None:
            return
        seconds, self._started = time.monotonic() - self._started, None
        left = (trainer.max_epochs or 0) - trainer.current_epoch
        total = f", {duration(left * seconds)} for {left:,} epochs at most" if left > 0 else ""
        print(f"first epoch: {duration(seconds)}{total}.", file=sys.stderr)


def memory_of(
    model: SoftLabelModule, graph: Graph, batch_size: int | None, world_size: int
) -> float:
    """Peak memory of a process in bytes, without files that are mapped into memory."""
    nodes, own = graph.num_nodes, graph.num_nodes / world_size
    entries = (2 * graph.num_edges + nodes) / world_size
    networks = sum(isinstance(part, MLP) for part in model.modules())
    size = torch.finfo(torch.float64 if model.dtype == torch.float64 else torch.float32).bits / 8
    wide = 1.0 if entries * world_size < torch.iinfo(torch.int32).max else 1.5  # 64-bit indices
    numbers = wide * _PER_EDGE * entries + _PER_CLASS * nodes * model.num_classes
    numbers += 2 * graph.num_edges  # the ones of A, in every process
    rows = own if batch_size is None else min(own, batch_size)
    numbers += rows * model.net.input.weight.shape[1] * _PER_HIDDEN * networks
    if graph.x.layout == torch.sparse_csr:
        # Column and value, before and after dropout, by node and by attribute.
        stored = len(graph.x.values())
        values_per_node = 8.0 * stored / max(1, nodes)
    else:
        stored = graph.x.numel()
        values_per_node = 2.0 * graph.num_features  # dropout makes a copy
    numbers += rows * values_per_node  # the others are on disk
    numbers += nodes * model.values_per_node + model.attribute_copies * stored
    numbers += 4 * sum(parameter.numel() for parameter in model.parameters())
    return _PROCESS + size * numbers


def duration(seconds: float) -> str:
    """A readable time: ``0.4 s``, ``12 s``, ``5 min``, ``3.2 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
