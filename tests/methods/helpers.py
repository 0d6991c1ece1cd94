"""Small trainings for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from pamt_lightning import Graph, GraphDataModule, PAMTModule
from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.data.loaders import GraphLoader
from pamt_lightning.data.synthetic import SyntheticOptions

SMALL = SyntheticOptions(num_nodes=240, num_classes=3, num_features=60, words_per_node=8.0)


def small_data(**options: Any) -> GraphDataModule:
    """A data module with 240 nodes in 3 classes, 5 training nodes of each."""
    data = GraphDataModule(**{"synthetic": SMALL, "train": 5, "val": 60, **options})
    data.setup("fit")
    return data


class OneGraph(pl.LightningDataModule):
    """Serves a graph as it is, for training, validation and testing."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.batch = GraphBatch.from_graph(graph)
        self.num_features, self.num_classes = graph.num_features, graph.num_classes

    def full_batch(self) -> GraphBatch:
        return self.batch

    def train_dataloader(self) -> GraphLoader:
        return GraphLoader(self.batch)

    val_dataloader = test_dataloader = train_dataloader


class Interrupt(pl.Callback):
    """Ends a training with an error before the epoch after so many others."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.current_epoch == self.after:
            raise InterruptedError


def seeded(method: Any, data: GraphDataModule, **options: Any) -> Any:
    """A model for the data, initialised with seed 0."""
    pl.seed_everything(0, verbose=False)
    return method(data.num_features, data.num_classes, **options)


def small_model(data: GraphDataModule, **options: Any) -> PAMTModule:
    """A small PAMT."""
    defaults = {"hidden_dim": 8, "refresh_interval": 3, "pretrain_epochs": 5}
    model: PAMTModule = seeded(PAMTModule, data, **{**defaults, **options})
    return model


def assert_same_bits(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    """Fail unless both hold the same tensors."""
    torch.testing.assert_close(dict(one), dict(other), rtol=0, atol=0)


def quiet_trainer(folder: Path, epochs: int, *callbacks: pl.Callback, **options: Any) -> pl.Trainer:
    """A trainer on the CPU that prints nothing and by default logs nothing."""
    defaults: dict[str, Any] = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": bool(callbacks),
        "num_sanity_val_steps": 0,
        "log_every_n_steps": 1,
        "accelerator": "cpu",
        "devices": 1,
        "default_root_dir": folder,
        "max_epochs": epochs,
    }
    return pl.Trainer(callbacks=list(callbacks), **{**defaults, **options})
