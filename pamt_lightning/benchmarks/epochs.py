"""An epoch of PAMT: by hand, under the Trainer, and beside APPNP from PyTorch Geometric."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from pamt_lightning.benchmarks.clock import Row, compare
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.functional import row_indices
from pamt_lightning.methods.metrics import accuracy
from pamt_lightning.methods.pamt import PAMTModule
from pamt_lightning.methods.prepared import Prepared
from pamt_lightning.training.estimate import LongRunNote
from pamt_lightning.training.progress import EpochBar
from pamt_lightning.training.quiet import TRAINER_DEFAULTS
from pamt_lightning.training.stopping import BestStopping
from pamt_lightning.training.tensorboard import TensorBoardMonitor

Options = dict[str, Any]


def pyg_available() -> bool:
    """Whether PyTorch Geometric is installed (the extra `benchmark`)."""
    return find_spec("torch_geometric") is not None


def trainer_row(data: GraphDataModule, options: Options, epochs: int, rounds: int) -> Row:
    """The same epochs in a plain loop and in `pamt fit`'s Trainer."""
    works = {
        "plain loop": lambda: PlainLoop(data, options).run(epochs),
        "Trainer": lambda: trainer_seconds(data, options, epochs),
    }
    return compare(data.dataset_name, works, rounds, _sizes(options), {"epochs": epochs})


def appnp_row(data: GraphDataModule, options: Options, rounds: int) -> Row:
    """PAMT's plain loop, and one with layers of PyTorch Geometric on dense attributes.

    Both step and validate, ours refreshes too, and neither keeps its best state.
    """
    ours, theirs = PlainLoop(data, options, stopping=False), AppnpLoop(data, options)
    ours.run(3)
    theirs.run(1)
    works = {"PAMT": lambda: ours.run(10), "APPNP of PyG": lambda: theirs.run(2)}
    return compare(data.dataset_name, works, rounds, _sizes(options))


def _sizes(options: Options) -> str:
    return f"hidden {options['hidden_dim']}, dropout {options['dropout']}"


def new_model(data: GraphDataModule, options: Options) -> PAMTModule:
    """An untrained PAMT; the same each time."""
    torch.manual_seed(0)
    return PAMTModule(data.num_features, data.num_classes, **{**options, "pretrain_epochs": 0})


class PlainLoop:
    """The loop one would write by hand: refresh, step, validation and stopping.

    Args:
        data: The graph and its split.
        options: Of PAMT.
        batch_size: Nodes in a step; all unless given.
        stopping: Whether patience is counted and the best state kept.
    """

    def __init__(
        self,
        data: GraphDataModule,
        options: Options,
        batch_size: int | None = None,
        stopping: bool = True,
    ) -> None:
        self.model = new_model(data, options)
        self.prepared = replace(self.model.prepare(data.graph), batch_size=batch_size)
        self.loader = data.train_dataloader()
        self.model.refresh(self.prepared, epoch=0)
        self.optimizer = self.model.configure_optimizers()
        self.stopping = BestStopping() if stopping else None
        self.epoch = 0

    def run(self, epochs: int) -> float:
        """Seconds per epoch."""
        start = time.perf_counter()
        for _ in range(epochs):
            self.one_epoch()
        return (time.perf_counter() - start) / epochs

    def one_epoch(self) -> None:
        """What happens in each of them."""
        model, self.epoch = self.model, self.epoch + 1
        if model.refresh_interval and self.epoch % model.refresh_interval == 0:
            model.refresh(self.prepared, self.epoch)
        model.train()
        for nodes in self.loader:
            self.optimizer.zero_grad()
            if nodes is None:
                loss = model.training_loss(self.prepared)
            else:
                loss = model.batch_loss(self.prepared, torch.from_numpy(nodes))
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        model.eval()
        figures = _validate(model, self.prepared)
        if self.stopping is not None and self.stopping.update(*figures):
            self.stopping.best_state = {k: v.clone() for k, v in model.state_dict().items()}


@torch.no_grad()
def _validate(model: PAMTModule, data: Prepared) -> tuple[float, float]:
    prediction = model.predict_nodes(data)
    right = accuracy(prediction.probs, data.graph.y, data.graph.val_index)
    return float(right), float(model.validation_loss(data, prediction))


class _Clock(EpochBar):
    """The epoch bar, and the time from the first epoch's start to the last one's end."""

    start = end = 0.0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock once everything is set up."""
        super().on_train_start(trainer, pl_module)
        self.start = time.perf_counter()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop it before the checkpoints of the end are written."""
        self.end = time.perf_counter()
        super().on_train_end(trainer, pl_module)


def trainer_seconds(data: GraphDataModule, options: Options, epochs: int) -> float:
    """Seconds per epoch under the Trainer, with everything that `pamt fit` switches on."""
    from pytorch_lightning import Trainer
    from pytorch_lightning.loggers import TensorBoardLogger

    clock = _Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            **{**TRAINER_DEFAULTS, "max_epochs": epochs},
            accelerator="cpu",
            logger=TensorBoardLogger(folder, name="", default_hp_metric=False),
            callbacks=[clock, TensorBoardMonitor(), LongRunNote(), BestStopping(epochs + 1)],
        )
        trainer.fit(new_model(data, options), datamodule=data)
    return (clock.end - clock.start) / epochs


class AppnpLoop:
    """APPNP as one would write it today: layers of PyTorch Geometric, attributes as they come.

    Args:
        data: The graph and its split.
        options: ``hidden_dim`` and ``dropout`` are used; K = 10, α = 0.1 as in PAMT.
    """

    def __init__(self, data: GraphDataModule, options: Options) -> None:
        graph = data.graph
        self.x = graph.x.to_dense() if graph.x.layout == torch.sparse_csr else graph.x
        ends = (row_indices(graph.adjacency), graph.adjacency.col_indices())
        self.edge_index = torch.stack([end.long() for end in ends])
        self.y, self.train, self.val = graph.y, graph.train_index, graph.val_index
        torch.manual_seed(0)
        sizes = (data.num_features, options["hidden_dim"], data.num_classes)
        self.net = _Appnp(*sizes, options["dropout"])
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01, weight_decay=5e-4)

    def run(self, epochs: int) -> float:
        """Seconds per epoch."""
        start = time.perf_counter()
        for _ in range(epochs):
            self.net.train()
            self.optimizer.zero_grad()
            out = self.net(self.x, self.edge_index)
            cross_entropy(out[self.train], self.y[self.train]).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.net.eval()
            with torch.no_grad():
                out = self.net(self.x, self.edge_index)[self.val]
                float((out.argmax(1) == self.y[self.val]).float().mean())
                float(cross_entropy(out, self.y[self.val]))
        return (time.perf_counter() - start) / epochs


class _Appnp(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int, rate: float) -> None:
        super().__init__()
        from torch_geometric.nn import APPNP

        self.first, self.second = nn.Linear(features, hidden), nn.Linear(hidden, classes)
        self.propagate: Callable[..., Tensor] = APPNP(K=10, alpha=0.1)
        self.rate = rate

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of every node."""
        x = torch.relu(self.first(dropout(x, self.rate, self.training)))
        return self.propagate(self.second(dropout(x, self.rate, self.training)), edge_index)
