"""Epochs of PAMT: in a plain loop, under the Trainer, in a whole training, and beside APPNP."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.callbacks import Timer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pamt_lightning.benchmarks.timing import Row, compare, seconds_of
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.functional import rising_weight_decay
from pamt_lightning.methods.metrics import accuracy
from pamt_lightning.methods.pamt import PAMTModule
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.run import run
from pamt_lightning.training.stopping import BestStopping


class Case:
    """PAMT on one data set: the run that is measured with all its defaults, and its data."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config.complete()
        self.data = GraphDataModule(**self.config.data)
        self.data.setup("fit")
        self.name = self.data.dataset_name
        self.options: dict[str, Any] = self.config.model["init_args"]
        self.max_epochs: int = self.config.trainer["max_epochs"]
        self.sizes = f"hidden {self.options['hidden_dim']}, dropout {self.options['dropout']}"

    def new_model(self) -> PAMTModule:
        """An untrained PAMT without pretraining, the same in every call."""
        torch.manual_seed(0)
        options = {**self.options, "pretrain_epochs": 0}
        return PAMTModule(self.data.num_features, self.data.num_classes, **options)


class PlainLoop:
    """PAMT without Lightning: refresh, step, validation and, if wanted, stopping."""

    def __init__(self, case: Case, *, stopping: bool = True) -> None:
        self.model = case.new_model()
        self.batch = case.data.full_batch()
        self.loader = case.data.train_dataloader()
        self.max_epochs, self.epochs = case.max_epochs, 0
        self.model.net.input.fit_scale(float(self.batch.energy) / self.batch.num_nodes)
        self.model.refresh(self.batch, epoch=0)
        self.optimizer = self.model.make_optimizer(self._weight_decay)
        self.stopping = BestStopping() if stopping else None

    @property
    def _weight_decay(self) -> float:
        model = self.model
        if isinstance(model.weight_decay, float):
            return model.weight_decay
        num_epochs = min(model.decay_epochs, self.max_epochs)
        return rising_weight_decay(self.epochs, *model.weight_decay, num_epochs)

    def epoch(self) -> None:
        """One epoch of training, and a validation."""
        model = self.model
        self.optimizer.param_groups[0]["weight_decay"] = self._weight_decay
        self.epochs += 1
        if model.refresh_interval and self.epochs % model.refresh_interval == 0:
            model.refresh(self.batch, self.epochs)
        model.train()
        for batch in self.loader:
            self.optimizer.zero_grad()
            model.training_loss(batch).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        model.eval()
        self._validate()

    @torch.no_grad()
    def _validate(self) -> None:
        model, graph = self.model, self.batch.graph
        prediction = model.predict_nodes(self.batch)
        acc = float(accuracy(prediction.probs, graph.y, graph.val_index))
        loss = float(model.validation_loss(self.batch, prediction))
        if self.stopping is not None and self.stopping.update(acc, loss):
            self.stopping.best_state = {k: v.clone() for k, v in model.state_dict().items()}


class AppnpLoop:
    """APPNP of PyTorch Geometric on dense attributes, with K = 10 and α = 0.1 as in PAMT."""

    def __init__(self, case: Case) -> None:
        from torch_geometric.nn import APPNP

        self.graph, hidden = case.data.graph, case.options["hidden_dim"]
        self.x = self.graph.x.to_dense()
        self.edge_index = self.graph.adjacency.to_sparse().indices()
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Dropout(case.options["dropout"]),
            nn.Linear(self.graph.num_features, hidden),
            nn.ReLU(),
            nn.Dropout(case.options["dropout"]),
            nn.Linear(hidden, self.graph.num_classes),
        )
        self.propagate = APPNP(K=10, alpha=0.1)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01, weight_decay=5e-4)

    def epoch(self) -> None:
        """One epoch of training, and a validation."""
        graph = self.graph
        self.net.train()
        self.optimizer.zero_grad()
        cross_entropy(*self._outputs(graph.train_index)).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.net.eval()
        with torch.no_grad():
            out, y = self._outputs(graph.val_index)
            float((out.argmax(1) == y).float().mean())
            float(cross_entropy(out, y))

    def _outputs(self, index: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.propagate(self.net(self.x), self.edge_index)[index], self.graph.y[index]


def trainer_seconds(config: RunConfig, epochs: int) -> float:
    """Seconds per epoch of a run with logger, progress bar and stopping, as in `pamt fit`."""
    options = {
        "model.pretrain_epochs": 0,
        "stopping.patience": epochs + 1,
        "trainer.max_epochs": epochs,
        "trainer.accelerator": "cpu",
        # Measures all epochs, without set-up and the checkpoints at the end.
        "trainer.callbacks": [{"class_path": "pytorch_lightning.callbacks.Timer"}],
    }
    with tempfile.TemporaryDirectory() as folder:
        config = replace(config.with_options(options), test=False)
        trainer = run(config, folder=Path(folder, "run")).trainer
    (timer,) = (each for each in trainer.callbacks if isinstance(each, Timer))  # type: ignore[attr-defined]
    return timer.time_elapsed() / epochs


def appnp_row(case: Case, rounds: int) -> Row:
    """Epochs of PAMT and of APPNP; neither keeps its best state."""
    ours, theirs = PlainLoop(case, stopping=False), AppnpLoop(case)
    seconds_of(ours.epoch, 3)  # the first ones are slower
    theirs.epoch()
    sides = {
        "PAMT": partial(seconds_of, ours.epoch, 10),
        "APPNP of PyG": partial(seconds_of, theirs.epoch, 2),
    }
    return compare(case.name, sides, rounds, case.sizes)


def trainer_row(case: Case, epochs: int, rounds: int) -> Row:
    """The same epochs in a plain loop and under the Trainer."""
    sides = {
        "plain loop": lambda: seconds_of(PlainLoop(case).epoch, epochs),
        "Trainer": lambda: trainer_seconds(case.config, epochs),
    }
    return compare(case.name, sides, rounds, case.sizes)


def fit_row(case: Case) -> Row:
    """A training until it stops, with pretraining, and as many epochs of APPNP."""
    config = replace(case.config.with_options({"trainer.accelerator": "cpu"}), test=False)
    record = run(config, quiet=True).record
    appnp = AppnpLoop(case)
    appnp.epoch()
    sides = {
        "PAMT": lambda: float(record["seconds"]),
        "as many epochs of APPNP": lambda: record["epochs"] * seconds_of(appnp.epoch, 5),
    }
    note = f"{record['epochs']} epochs, hidden {case.options['hidden_dim']}, once"
    return compare(case.name, sides, 1, note)
