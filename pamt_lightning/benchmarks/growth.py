"""Time and memory of PAMT against the size of the graph; each size in a process of its own."""

from __future__ import annotations

import math
import multiprocessing
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import torch

from pamt_lightning.benchmarks.epochs import Case, PlainLoop
from pamt_lightning.benchmarks.timing import seconds_of
from pamt_lightning.data.store.writer import write_synthetic
from pamt_lightning.data.synthetic import SyntheticOptions
from pamt_lightning.errors import InputError
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.memory import peak_memory_mb

_DEGREE, _FEATURES, _CLASSES, _HIDDEN, _BATCH = 20, 128, 16, 64, 100_000


@dataclass(frozen=True)
class Size:
    """The measurements on a graph of one size."""

    edges: int
    epoch: float  # seconds of a pass over all nodes and a validation
    refresh: float  # seconds of the forward pass, the mask and K steps of propagation
    memory: float  # peak in bytes, beyond that of a process without a graph


def growth(max_edges: int, rounds: int) -> Iterator[Size]:
    """Measure on synthetic graphs of 10^4, 10^5, … edges (128 attributes, 16 classes)."""
    for count in (10**power for power in range(4, len(str(max_edges)))):
        options = SyntheticOptions(2 * count // _DEGREE, _CLASSES, _FEATURES, _DEGREE)
        # A new process: the peak of this one may be that of an earlier measurement.
        spawn = multiprocessing.get_context("spawn")
        with (
            tempfile.TemporaryDirectory() as folder,
            ProcessPoolExecutor(1, mp_context=spawn) as pool,
        ):
            store = Path(folder, "graph")
            write_synthetic(store, options)
            try:
                yield pool.submit(_measure, store, rounds, torch.get_num_threads()).result()
            except BrokenProcessPool:
                raise InputError(
                    f"the measurement on {count:,} edges was killed, probably because memory is "
                    "short: lower --max_edges."
                ) from None


def _measure(store: Path, rounds: int, threads: int) -> Size:
    torch.set_num_threads(threads)
    before = peak_memory_mb() or math.nan
    options = {"hidden_dim": _HIDDEN, "dropout": 0.2, "refresh_interval": 0}
    data = {"path": str(store), "batch_size": _BATCH}
    loop = PlainLoop(Case(RunConfig.create(data=data, model=options)))
    loop.epoch()
    epochs, refreshes = [], []
    for _ in range(rounds):
        epochs.append(seconds_of(loop.epoch))
        refreshes.append(seconds_of(lambda: loop.model.refresh(loop.batch, epoch=1)))
    used = 1e6 * ((peak_memory_mb() or math.nan) - before)
    times = statistics.median(epochs), statistics.median(refreshes)
    return Size(loop.batch.graph.num_edges, *times, max(used, 1.0))
