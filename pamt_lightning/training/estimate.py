"""Memory and time of a long run, estimated before it starts."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.csr import sum_of_rows
from pamt_lightning.kernels.features import Features, as_features
from pamt_lightning.methods.soft_labels import SoftLabelModule
from pamt_lightning.nn import MLP

_LARGE = 2_000_000  # nodes plus stored edges of a graph that is worth an estimate
# Large enough that the measured part does not fit into a cache.
_NODES_TRIED = 100_000
_NEIGHBOURS_TRIED = 5_000_000

# Measured on graphs of 10^6 and 10^7 nodes: the largest number of values held at once for each
# stored entry of Â and for each entry of a matrix [N, C] or [B, hidden].
_PER_EDGE = 8.0
_PER_CLASS = 8.0
_PER_HIDDEN = 4.0
_PROCESS = 0.45e9  # Python, torch and Lightning themselves


@dataclass(frozen=True)
class RunEstimate:
    """Memory and time of a run.

    Attributes:
        memory: Peak memory of each process in bytes, without files that are mapped into memory.
        epoch_seconds: Time of an epoch, including its share of the refreshes.
    """

    memory: float
    epoch_seconds: float


class LongRunNote(Callback):
    """Before a run on a large graph, prints its estimated memory and time on standard error.

    For methods that learn from soft labels, on CPUs. The time is measured on a small part of the
    work and scaled up; the training itself is not affected.
    """

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the estimate if the graph is large."""
        data = getattr(trainer, "datamodule", None)
        if not isinstance(pl_module, SoftLabelModule) or data is None:
            return
        graph: Graph = data.graph
        if graph.num_nodes + 2 * graph.num_edges < _LARGE or pl_module.device.type != "cpu":
            return
        if not trainer.is_global_zero:
            return
        found = estimate_run(pl_module, graph, data.effective_batch_size, trainer.world_size)
        here = max(1, trainer.world_size // max(1, trainer.num_nodes))
        for line in describe(found, graph, memory_for_each(here), trainer.max_epochs):
            print(line, file=sys.stderr)


def estimate_run(
    model: SoftLabelModule, graph: Graph, batch_size: int | None = None, world_size: int = 1
) -> RunEstimate:
    """Memory and time of a training of ``model`` on ``graph`` by ``world_size`` processes."""
    return RunEstimate(
        memory_of(model, graph, batch_size, world_size),
        epoch_seconds_of(model, graph, batch_size, world_size),
    )


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
    numbers += rows * _attributes_in_use(graph)  # the others are on disk
    numbers += 4 * sum(parameter.numel() for parameter in model.parameters())
    return _PROCESS + size * numbers


def _attributes_in_use(graph: Graph) -> float:
    """Values for each node of a step."""
    if graph.x.layout != torch.sparse_csr:
        return 2.0 * graph.num_features  # dropout makes a copy
    # Column and value, before and after dropout, by node and by attribute.
    return 8.0 * len(graph.x.values()) / max(1, graph.num_nodes)


def epoch_seconds_of(
    model: SoftLabelModule, graph: Graph, batch_size: int | None = None, world_size: int = 1
) -> float:
    """Seconds of an epoch, scaled up from a part of it that is measured."""
    nodes = min(graph.num_nodes, _NODES_TRIED)
    dtype: Any = model.dtype
    x = as_features(graph.x).take_rows(slice(0, nodes)).as_type(dtype)
    networks = [copy.deepcopy(part) for part in model.modules() if isinstance(part, MLP)]
    # Batches hold other nodes each time, so no transpose can be kept.
    chosen = None if batch_size is None else torch.arange(nodes)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        step = sum(_seconds(partial(_step, net.train(), x, chosen)) for net in networks)
    with torch.no_grad():
        forward = sum(_seconds(partial(net.eval(), x)) for net in networks)
        smoothing = _seconds_per_product(graph, model.num_classes, dtype)
    refreshes = model.refreshes_per_epoch
    of_nodes = (step + (1 + refreshes) * forward) * graph.num_nodes / nodes
    # A mask takes about as long as two products with Â.
    products = model.num_steps * (model.propagations_per_epoch + refreshes) + 2 * refreshes
    return (of_nodes + products * smoothing) / world_size


def _step(net: MLP, x: Features, chosen: Tensor | None) -> None:
    net(x if chosen is None else x.take_rows(chosen)).sum().backward()


def _seconds_per_product(
    graph: Graph, num_classes: int, dtype: torch.dtype = torch.float32
) -> float:
    crow = graph.adjacency.crow_indices()
    last = max(1, int(torch.searchsorted(crow, _NEIGHBOURS_TRIED)))
    crow = crow[: last + 1]
    entries = int(crow[-1])
    col = graph.adjacency.col_indices()[:entries]
    values = graph.adjacency.values()[:entries].to(dtype)
    y = torch.ones(graph.num_nodes, num_classes, dtype=dtype)
    seconds = _seconds(lambda: sum_of_rows(crow, col, y, values))
    return seconds * (2 * graph.num_edges + graph.num_nodes) / max(1, entries)


def _seconds(work: Callable[[], object]) -> float:
    work()  # the first use reads from disk
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def available_memory() -> int | None:
    """Bytes that this process may still allocate; None if the system does not report it."""
    found = []
    if (kilobytes := _kilobytes("/proc/meminfo", "MemAvailable:")) is not None:
        found.append(1024 * kilobytes)
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError, KeyError):  # no such file, or no limit ("max")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
        parts = dict(line.split() for line in lines)
        files = int(parts["active_file"]) + int(parts["inactive_file"])  # can be reclaimed
        found.append(limit - used + files)
    return min(found, default=None)


def memory_for_each(processes: int) -> int | None:
    """Bytes that each process on this machine may use, including what it holds already."""
    free = available_memory()
    if free is None:
        return None
    resident = _kilobytes("/proc/self/status", "VmRSS:") or 0
    return int(free / processes) + 1024 * resident


def _kilobytes(file: str, name: str) -> int | None:
    """A value of one of Linux's status files; None if there is none."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1])
    return None


def describe(
    estimate: RunEstimate, graph: Graph, available: int | None, max_epochs: int | None
) -> list[str]:
    """The note, and a warning if the memory will not suffice."""
    free = "" if available is None else f" ({available / 1e9:.1f} GB available)"
    lines = [
        f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges: about "
        f"{estimate.memory / 1e9:.1f} GB of memory{free} and {duration(estimate.epoch_seconds)} "
        f"per epoch{_at_most(estimate, max_epochs)}."
    ]
    if available is not None and estimate.memory > available:
        lines.append(
            "warning: there is not enough memory. Use a smaller --data.batch_size, a graph store "
            "(`pamt datasets convert`), or several machines that share the nodes."
        )
    return lines


def _at_most(estimate: RunEstimate, max_epochs: int | None) -> str:
    if not max_epochs or max_epochs < 1:
        return ""
    return f", {duration(max_epochs * estimate.epoch_seconds)} for {max_epochs} epochs"


def duration(seconds: float) -> str:
    """A readable time: ``0.4 s``, ``12 s``, ``5 min``, ``3.2 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
