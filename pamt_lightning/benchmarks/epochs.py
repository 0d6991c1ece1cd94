"""Epochs of PAMT: in a plain loop, under the Trainer, and in a whole training."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback

from pamt_lightning.benchmarks.appnp import AppnpLoop
from pamt_lightning.benchmarks.timing import Row, compare
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.methods.metrics import accuracy
from pamt_lightning.methods.pamt import PAMTModule
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.run import run
from pamt_lightning.training.stopping import BestStopping


@dataclass(frozen=True)
class Case:
    """PAMT on one data set.

    Attributes:
        config: The run that is measured.
        data: Its graph with the split.
    """

    config: RunConfig
    data: GraphDataModule

    @classmethod
    def load(cls, config: RunConfig) -> Case:
        """Read the data of a run and fill in its defaults."""
        config = config.complete()
        data = GraphDataModule(**config.data)
        data.setup("fit")
        return cls(config, data)

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.data.dataset_name

    @property
    def options(self) -> Mapping[str, Any]:
        """Arguments of PAMT."""
        options: Mapping[str, Any] = self.config.model["init_args"]
        return options

    def new_model(self) -> PAMTModule:
        """An untrained PAMT without pretraining, the same in every call."""
        torch.manual_seed(0)
        options = {**self.options, "pretrain_epochs": 0}
        return PAMTModule(self.data.num_features, self.data.num_classes, **options)

    def appnp(self) -> AppnpLoop:
        """The APPNP to compare with."""
        return AppnpLoop(self.data.graph, self.options["hidden_dim"], self.options["dropout"])

    def sizes(self) -> str:
        """The options that the times depend on most."""
        return f"hidden {self.options['hidden_dim']}, dropout {self.options['dropout']}"


class PlainLoop:
    """The loop without Lightning: refresh, step, validation and stopping.

    Args:
        case: The run.
        stopping: Whether to count patience and keep the best state.
    """

    def __init__(self, case: Case, *, stopping: bool = True) -> None:
        self.model = case.new_model()
        self.batch = case.data.full_batch()
        self.loader = case.data.train_dataloader()
        self.model.refresh(self.batch, epoch=0)
        self.optimizer = self.model.configure_optimizers()
        self.stopping = BestStopping() if stopping else None
        self.epoch = 0

    def run(self, epochs: int) -> float:
        """Train for some epochs; returns the seconds per epoch."""
        start = time.perf_counter()
        for _ in range(epochs):
            self.train_epoch()
            self.validate()
        return (time.perf_counter() - start) / epochs

    def train_epoch(self) -> None:
        """One epoch of training."""
        model, self.epoch = self.model, self.epoch + 1
        if model.refresh_interval and self.epoch % model.refresh_interval == 0:
            model.refresh(self.batch, self.epoch)
        model.train()
        for batch in self.loader:
            self.optimizer.zero_grad()
            model.training_loss(batch).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    @torch.no_grad()
    def validate(self) -> None:
        """Accuracy and loss on the validation nodes."""
        model, graph = self.model, self.batch.graph
        model.eval()
        prediction = model.predict_nodes(self.batch)
        acc = float(accuracy(prediction.probs, graph.y, graph.val_index))
        loss = float(model.validation_loss(self.batch, prediction))
        if self.stopping is not None and self.stopping.update(acc, loss):
            self.stopping.best_state = {k: v.clone() for k, v in model.state_dict().items()}


class EpochClock(Callback):
    """Measures all epochs of a training, without set-up and the checkpoints at the end."""

    def __init__(self) -> None:
        self.start = self.seconds = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start when everything is set up."""
        self.start = time.perf_counter()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop after the last epoch."""
        self.seconds = time.perf_counter() - self.start


def trainer_seconds(config: RunConfig, epochs: int) -> float:
    """Seconds per epoch of a run with logger, progress bar and stopping, as in `pamt fit`."""
    clock = {"class_path": f"{__name__}.{EpochClock.__name__}"}
    options = {
        "model.pretrain_epochs": 0,
        "stopping.patience": epochs + 1,
        "trainer.max_epochs": epochs,
        "trainer.accelerator": "cpu",
        "trainer.callbacks": [clock],
    }
    with tempfile.TemporaryDirectory() as folder:
        config = replace(config.with_options(options), test=False)
        trainer = run(config, folder=Path(folder, "run")).trainer
    (found,) = (each for each in trainer.callbacks if isinstance(each, EpochClock))  # type: ignore[attr-defined]
    return found.seconds / epochs


def appnp_row(case: Case, rounds: int) -> Row:
    """Epochs of PAMT and of APPNP; neither keeps its best state."""
    ours, theirs = PlainLoop(case, stopping=False), case.appnp()
    ours.run(3)
    theirs.run(1)
    sides = {"PAMT": lambda: ours.run(10), "APPNP of PyG": lambda: theirs.run(2)}
    return compare(case.name, sides, rounds, case.sizes())


def trainer_row(case: Case, epochs: int, rounds: int) -> Row:
    """The same epochs in a plain loop and under the Trainer."""
    sides = {
        "plain loop": lambda: PlainLoop(case).run(epochs),
        "Trainer": lambda: trainer_seconds(case.config, epochs),
    }
    return compare(case.name, sides, rounds, case.sizes(), {"epochs": epochs})


def fit_row(case: Case) -> Row:
    """A training until it stops, with pretraining, and as many epochs of APPNP."""
    config = replace(case.config.with_options({"trainer.accelerator": "cpu"}), test=False)
    record = run(config, quiet=True).record
    appnp = case.appnp()
    appnp.run(1)
    sides = {
        "PAMT": lambda: float(record["seconds"]),
        "as many epochs of APPNP": lambda: record["epochs"] * appnp.run(5),
    }
    note = f"{record['epochs']} epochs, hidden {case.options['hidden_dim']}, once"
    return compare(case.name, sides, 1, note)
