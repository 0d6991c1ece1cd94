"""What every method shares: steps, metrics, optimiser, prediction, checkpoint."""

from __future__ import annotations

import inspect
import os
import random
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torchmetrics.functional.classification import (
    multiclass_calibration_error,
    multiclass_f1_score,
)

from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.functional import RowShare
from pamt_lightning.graph import Graph, NodeBatch
from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood
from pamt_lightning.methods.prepared import Prediction, Prepared
from pamt_lightning.plain import make_plain

CALIBRATION_BINS = 10
Network = TypeVar("Network", bound=torch.nn.Module)


def require_range(
    name: str, value: float, low: float, high: float, *, open_high: bool = False
) -> None:
    """Raise an `InputError` unless ``low <= value <= high`` (``< high`` if ``open_high``)."""
    if not (low <= value < high if open_high else low <= value <= high):
        close = ")" if open_high else "]"
        raise InputError(f"`{name}` must lie in [{low}, {high}{close}, got {value}.")


def require_count(**counts: int) -> None:
    """Raise an `InputError` unless all counts are 0 or more."""
    for name, count in counts.items():
        if count < 0:
            raise InputError(f"`{name}` must be 0 or more, got {count}.")


def built(network: Callable[..., Network], *sizes: Any, **options: Any) -> Network:
    """A network; what it refuses is the user's fault."""
    try:
        return network(*sizes, **options)
    except ValueError as error:
        raise InputError(str(error)) from None


class NodeClassificationModule(pl.LightningModule):
    """Base of all methods: full-batch steps on one graph, the same metrics and life cycle for each.

    A method says what its training loss is and how it predicts. Metric names: ``train_loss``,
    ``val_loss``, ``val_acc``, ``test_acc``; what stops the training and what is kept is decided by
    `pamt_lightning.training.stopping.BestStopping` on ``val_acc`` and ``val_loss``.

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        log_every_n_epochs: How often training figures go to the logger.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        lr: float,
        weight_decay: float,
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__()
        if num_features < 1 or num_classes < 2:
            raise InputError(
                "`num_features` must be 1 or more and `num_classes` 2 or more, "
                f"got {num_features} and {num_classes}."
            )
        require_range("lr", lr, 0.0, float("inf"), open_high=True)
        require_range("weight_decay", weight_decay, 0.0, float("inf"), open_high=True)
        if log_every_n_epochs < 1:
            raise InputError(f"`log_every_n_epochs` must be 1 or more, got {log_every_n_epochs}.")
        self.num_features = num_features
        self.num_classes = num_classes
        self.lr = lr
        self.weight_decay = weight_decay
        self.log_every_n_epochs = log_every_n_epochs
        self.last_loss: Tensor | None = None
        self._epoch_losses: list[Tensor] = []
        self.test_output: tuple[Tensor, Tensor] | None = None  # probabilities, true classes
        self._prepared: Prepared | None = None
        self._seed = int(torch.randint(torch.iinfo(torch.int64).max, ()))  # of the training
        self._restored_rng: dict[str, Any] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        # Lightning notes the hook it is in, a hundred times per epoch; what torch does for an
        # attribute that may be a parameter would be a tenth of the epochs of a small graph.
        if name == "_current_fx_name":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    predicts_from_labels = False
    """Whether a prediction needs the labels of training nodes, not just a trained network."""

    learns_in_batches = False
    """Whether a step may be on some of the nodes: see `SoftLabelModule`."""

    works_in_shares = False
    """Whether several processes can divide the nodes among them."""

    @property
    def method(self) -> str:
        """Name of the method in results, such as ``PAMT``."""
        return type(self).__name__.removesuffix("Module")

    def save_hyperparameters(self, *args: Any, **options: Any) -> None:
        """Lightning's, with values that a checkpoint can be loaded with safely."""
        frame = inspect.currentframe()
        options.setdefault("frame", frame.f_back if frame else None)  # whose arguments they are
        super().save_hyperparameters(*args, **options)
        make_plain(self.hparams)

    @property
    def class_path(self) -> str:
        """Where the class is, as a checkpoint names it."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    # What a method must say -------------------------------------------------------------------

    @abstractmethod
    def training_loss(self, data: Prepared) -> Tensor:
        """The loss of one full-batch step."""

    @abstractmethod
    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """The parameters that the L2 term holds down."""

    @abstractmethod
    def predict_nodes(self, data: Prepared) -> Prediction:
        """Class probabilities of every node."""

    def predict_for_stopping(self, data: Prepared) -> Prediction:
        """The prediction that stopping looks at; a method may choose here how to predict."""
        return self.predict_nodes(data)

    def validation_loss(self, data: Prepared, prediction: Prediction) -> Tensor:
        """The loss that stopping looks at: negative log likelihood of the prediction."""
        return negative_log_likelihood(prediction.probs, data.graph.y, data.graph.val_index)

    def setup(self, stage: str) -> None:
        """Refuse precisions, batches and processes that the method does not know."""
        if self.trainer.precision not in ("32-true", "64-true"):
            raise InputError(
                "`trainer.precision` must be 32-true or 64-true (sparse products know no others), "
                f"got {self.trainer.precision}."
            )
        if self._batch_size() is not None and not self.learns_in_batches:
            raise InputError(
                f"{self.method} learns from the whole graph at once: leave `data.batch_size` out. "
                "PTS, PTD, PTA, PAMT and PAMT_plus can learn from batches of nodes."
            )
        if self.trainer.world_size > 1 and not self.works_in_shares:
            raise InputError(
                f"{self.method} works in one process: leave `trainer.devices`, "
                "`trainer.num_nodes` and `trainer.strategy` out. PTS, PTD, PTA and PAMT can share "
                "the nodes among several."
            )

    # Steps -------------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """A new training, also of a module that was trained before, starts anew."""
        # The same in all processes, and in one as in several: Lightning seeds the latter again.
        torch.manual_seed(self.trainer.strategy.broadcast(self._seed))
        if self.trainer.ckpt_path is None:
            self._restored_rng = None

    def fit_data(self) -> Prepared:
        """What the training that has begun is about; for hooks that come before its first batch."""
        datamodule: Any = getattr(self.trainer, "datamodule", None)
        if datamodule is None or not hasattr(datamodule, "graph_on"):
            raise InputError(
                f"{type(self).__name__} trains on a GraphDataModule: "
                "trainer.fit(model, datamodule)."
            )
        return self.prepare(datamodule.graph_on(self.device))

    def _share(self, graph: Graph) -> RowShare:
        trainer = self._trainer
        if trainer is None:
            return RowShare.of(graph.num_nodes)
        return RowShare.of(graph.num_nodes, trainer.global_rank, trainer.world_size)

    def _batch_size(self) -> int | None:
        datamodule: Any = getattr(self._trainer, "datamodule", None)
        size: int | None = getattr(datamodule, "nodes_at_once", None)
        return size

    def prepare(self, graph: Graph) -> Prepared:
        """Everything that depends on the graph alone, computed once per graph and precision."""
        data = self._prepared
        if data is None or data.graph is not graph or data.dtype != self.dtype:
            # A test may come before a training, which cannot use what inference mode made.
            with torch.inference_mode(False):
                dtype: Any = self.dtype
                share = self._share(graph)
                data = Prepared.from_graph(graph, dtype, self._batch_size(), share)
                self._prepared = data
        return data

    def step_loss(self, batch: Any) -> Tensor:
        """The loss of a step on what the loader gives: the whole graph."""
        return self.training_loss(self.prepare(batch))

    def training_step(self, batch: Graph | NodeBatch, batch_idx: int) -> Tensor:
        """One step: on the whole graph, which is an epoch, or on some of its nodes."""
        loss = self.step_loss(batch)
        self._epoch_losses = [*(self._epoch_losses if batch_idx else []), loss.detach()]
        if batch_idx + 1 == self.trainer.num_training_batches:
            self.last_loss = self.trainer.strategy.reduce(
                torch.stack(self._epoch_losses).mean(), reduce_op="mean"
            )
            if (self.current_epoch + 1) % self.log_every_n_epochs == 0:
                self._log_now({"train_loss": self.last_loss})
        return loss

    def validation_step(self, graph: Graph, batch_idx: int) -> None:
        """Accuracy and loss of the propagated prediction on the stopping set."""
        data = self.prepare(graph)
        in_fit = self.trainer.state.fn == "fit"
        prediction = self.predict_for_stopping(data) if in_fit else self.predict_nodes(data)
        metrics = {
            "val_acc": accuracy(prediction.probs, graph.y, graph.val_index),
            "val_loss": self.validation_loss(data, prediction),
        }
        if not in_fit:
            self.log_dict(metrics, batch_size=1)
            return
        # What callbacks monitor. `self.log` would take a fifth of an epoch on a small graph.
        self.trainer.callback_metrics.update(metrics)
        if (self.current_epoch + 1) % self.log_every_n_epochs == 0:
            if prediction.logits is not None:
                metrics["val_acc_network"] = accuracy(prediction.logits, graph.y, graph.val_index)
            self._log_now(metrics)

    def test_step(self, graph: Graph, batch_idx: int) -> None:
        """Metrics of the propagated prediction, and of the network alone, on the test set."""
        data = self.prepare(graph)
        index = graph.test_index
        if index is None or len(index) == 0:
            raise InputError("The split has no test nodes, so there is nothing to test.")
        prediction = self.predict_nodes(data)
        probs, target = prediction.probs[index], graph.y[index]
        classes = probs.shape[1]
        metrics = {
            "test_acc": accuracy(probs, target),
            "test_loss": negative_log_likelihood(probs, target),
            "test_f1_macro": multiclass_f1_score(probs, target, classes, average="macro"),
            "test_ece": multiclass_calibration_error(probs, target, classes, CALIBRATION_BINS),
        }
        if prediction.logits is not None:
            metrics["test_acc_network"] = accuracy(prediction.logits[index], target)
        self.test_output = (probs, target)
        self.log_dict(metrics, batch_size=1)

    def predict_step(self, graph: Graph, batch_idx: int) -> Tensor:
        """Class probabilities of every node of the graph, shape ``[N, C]``."""
        return self.predict_nodes(self.prepare(graph)).probs.cpu()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam; the L2 term enters as the decay of one parameter group."""
        return self.make_optimizer(self.weight_decay)

    def make_optimizer(self, weight_decay: float) -> torch.optim.Optimizer:
        """A new Adam whose decay acts on `decayed_parameters` alone.

        Adam's ``weight_decay`` adds ``weight_decay * W`` to the gradient, which is the gradient of
        (weight_decay / 2)·‖W‖²: the same thing as the term in the loss, without a pass over W.
        """
        decayed = self.decayed_parameters()
        ids = {id(p) for p in decayed}
        rest = [p for p in self.parameters() if id(p) not in ids]
        groups: list[dict[str, Any]] = [
            {"params": decayed, "weight_decay": weight_decay},
            {"params": rest},
        ]
        return torch.optim.Adam(groups, lr=self.lr, fused=True)

    # Checkpoint --------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what a resumed run or a new process needs and Lightning does not save."""
        checkpoint["init_seed"] = os.environ.get("PL_GLOBAL_SEED")  # of seed_everything
        checkpoint["model_class"] = self.class_path
        if "loops" not in checkpoint:
            return  # for testing and prediction only
        # Without the random-number state a resumed run would be another run.
        numpy_state: Any = np.random.get_state(legacy=True)
        checkpoint["rng"] = {
            "torch": torch.get_rng_state(),
            "python": random.getstate(),
            "numpy": [numpy_state[0], numpy_state[1].tolist(), *numpy_state[2:]],
            "cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the random-number state until training really starts."""
        self._restored_rng = checkpoint.get("rng")

    def on_train_start(self) -> None:
        """Continue the random numbers where the checkpoint left them."""
        state, self._restored_rng = self._restored_rng, None
        if state is None:
            return
        torch.set_rng_state(state["torch"].cpu())
        random.setstate(state["python"])
        name, keys, *rest = state["numpy"]
        np.random.set_state((name, np.asarray(keys, dtype=np.uint32), *rest))
        if state["cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"].cpu(), self.device)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Load weights; a checkpoint of another size gets one plain line, not a list of tensors."""
        try:
            return super().load_state_dict(state_dict, strict, assign)
        except RuntimeError as error:
            raise CheckpointError(
                f"The checkpoint's weights do not fit this {type(self).__name__}: {error}"
            ) from error

    def _log_now(self, metrics: dict[str, Tensor]) -> None:
        # Straight to the logger: `self.log` costs half a millisecond per key and epoch.
        if self.logger is not None and self.trainer.is_global_zero:
            values = {name: float(value) for name, value in metrics.items()}
            self.logger.log_metrics(values, step=self.current_epoch + 1)
