"""How epoch, refresh and memory grow with the graph, each size in a process of its own."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from pamt_lightning.benchmarks.clock import seconds_of
from pamt_lightning.benchmarks.epochs import PlainLoop
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.data.store.synthetic import write_synthetic
from pamt_lightning.data.synthetic import SyntheticOptions
from pamt_lightning.errors import InputError
from pamt_lightning.training.results import peak_memory_mb

DEGREE, FEATURES, CLASSES, HIDDEN, BATCH = 20, 128, 16, 64, 100_000


@dataclass(frozen=True)
class Size:
    """What was measured on a graph of one size.

    Attributes:
        edges: Number of edges.
        epoch: Seconds of a step and a validation on all nodes.
        refresh: Seconds of the forward pass, the mask and K steps of propagation.
        memory: Peak bytes of the process, less those it had before the graph was opened.
    """

    edges: int
    epoch: float
    refresh: float
    memory: float


def growth(edges: Sequence[int], rounds: int) -> list[Size]:
    """Measure on synthetic graphs of these sizes (20 neighbours, 128 attributes, 16 classes)."""
    sizes = []
    for count in tqdm(edges, "growth", leave=False, disable=None):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
            store = Path(folder, "graph")
            options = SyntheticOptions(
                num_nodes=2 * count // DEGREE,
                num_classes=CLASSES,
                num_features=FEATURES,
                average_degree=DEGREE,
            )
            write_synthetic(store, options)
            command = [sys.executable, "-m", __name__, str(store), str(rounds)]
            command.append(str(torch.get_num_threads()))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
            raise InputError(f"the measurement on {count:,} edges failed: {last[0]}")
        sizes.append(Size(**json.loads(done.stdout)))
    return sizes


def exponent(edges: Sequence[float], values: Sequence[float]) -> float:
    """The b of values ≈ a · edges^b, by least squares on logarithms."""
    slope, _ = np.polyfit(np.log(edges), np.log(values), 1)
    return float(slope)


def measure(store: str, rounds: int) -> Size:
    """What `growth` has measured in a process of its own."""
    before = peak_memory_mb() or math.nan
    data = GraphDataModule(path=store, batch_size=BATCH)
    data.setup("fit")
    options = {"hidden_dim": HIDDEN, "dropout": 0.2, "refresh_interval": 0}
    loop = PlainLoop(data, options, BATCH)
    loop.run(1)
    epochs, refreshes = [], []
    for _ in range(rounds):
        epochs.append(loop.run(1))
        refreshes.append(seconds_of(lambda: loop.model.refresh(loop.prepared, epoch=1)))
    used = 1e6 * ((peak_memory_mb() or math.nan) - before)
    return Size(
        data.graph.num_edges, float(np.median(epochs)), float(np.median(refreshes)), max(used, 1.0)
    )


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[3]))
    print(json.dumps(asdict(measure(sys.argv[1], int(sys.argv[2])))))
