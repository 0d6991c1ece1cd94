"""What all methods share: steps, metrics, optimiser, prediction, checkpoint."""

from __future__ import annotations

import os
import random
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torchmetrics.functional.classification import (
    multiclass_calibration_error,
    multiclass_f1_score,
)

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import CheckpointError, InputError, require_in
from pamt_lightning.functional import rising_weight_decay
from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood
from pamt_lightning.methods.out_of_fold import OutOfFold
from pamt_lightning.nn.mlp import HOP_SHARES, InputLinear

WeightDecay = float | tuple[float, float]

CALIBRATION_BINS = 10
CHECKPOINT_FORMAT = 4


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction of a method for every node.

    Attributes:
        probs: Class probabilities, shape ``[N, C]``; each row sums to one.
        logits: Output of the network alone, before propagation, if the method has such an output.
        parts: The classes that parts of the method predict, by name, shape ``[N]`` each; their
            accuracy is reported as well.
    """

    probs: Tensor
    logits: Tensor | None = None
    parts: Mapping[str, Tensor] = field(default_factory=dict)


class NodeClassificationModule(pl.LightningModule):
    """Base of all methods: steps on one graph, with the same metrics and life cycle for each.

    A method defines its training loss and its prediction. The arguments of its constructor are
    saved as hyperparameters here.

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only. Of
            two values, it rises from the first to the second; the kept state is that of the best
            epoch, so the validation nodes choose the value.
        decay_epochs: The epochs in which two values of `weight_decay` rise, at most the epochs of
            the trainer; the training does not stop before.
        log_every_n_epochs: How often metrics go to the loggers.
    """

    predicts_from_labels = False
    """Whether a prediction needs the labels of training nodes, not only a trained network."""

    learns_in_batches = False
    """Whether a training step may be on some of the nodes."""

    works_in_shares = False
    """Whether several processes can divide the nodes among them."""

    num_input_hops = 0
    """Over how many hops the network averages the attributes as it reads them."""

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        lr: float = 0.01,
        weight_decay: WeightDecay = 5e-4,
        decay_epochs: int = 600,
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__()
        require_in("[1, inf)", num_features=num_features, log_every_n_epochs=log_every_n_epochs)
        require_in("[2, inf)", num_classes=num_classes)
        require_in("[0, inf)", lr=lr)
        require_in("[1, inf)", whole=True, decay_epochs=decay_epochs)
        weight_decay = _plain_decay(weight_decay)
        self.save_hyperparameters()
        self.num_features = num_features
        self.num_classes = num_classes
        self.lr = float(lr)  # the state of the optimiser holds both, and must be plain values
        self.weight_decay = weight_decay
        self.decay_epochs = decay_epochs
        self.log_every_n_epochs = log_every_n_epochs
        self.last_loss: Tensor | None = None
        self.test_output: tuple[Tensor, Tensor] | None = None  # probabilities, true classes
        self._epoch_losses: list[Tensor] = []
        self._fit_batch: GraphBatch | None = None
        self._seed = int(torch.randint(torch.iinfo(torch.int64).max, ()))  # of the training
        self._restored_rng: dict[str, Any] | None = None
        self.out_of_fold: OutOfFold | None = None  # set it before a training that needs it

    @property
    def short_name(self) -> str:
        """Name of the class in messages, such as ``PAMT``."""
        return type(self).__name__.removesuffix("Module")

    # What a method must define ----------------------------------------------------------------

    @abstractmethod
    def training_loss(self, batch: GraphBatch) -> Tensor:
        """The loss of one step."""

    @abstractmethod
    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """The parameters of the L2 term."""

    @abstractmethod
    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """Class probabilities of every node."""

    def predict_for_validation(self, batch: GraphBatch) -> Prediction:
        """The prediction of a validation during training, in which a method may choose its form."""
        return self.predict_nodes(batch)

    def validation_loss(self, batch: GraphBatch, prediction: Prediction) -> Tensor:
        """The negative log likelihood of the prediction on the validation nodes."""
        return negative_log_likelihood(prediction.probs, batch.graph.y, batch.graph.val_index)

    def kept_state(self) -> dict[str, Tensor]:
        """The state that is kept if this epoch is the best; training does not change it."""
        return {name: value.detach().clone() for name, value in self.state_dict().items()}

    def finish_training(self) -> None:
        """Compute what only the end of the training needs; the kept state is loaded."""

    def out_of_fold_probs(self) -> Tensor | None:
        """Honest predictions of the validation nodes ``[M, C]``, if `out_of_fold` was set."""
        return None if self.out_of_fold is None else self.out_of_fold.result()

    def report(self) -> dict[str, Any]:
        """What a method has to say of a finished run, for its record."""
        return {}

    # Life cycle --------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Refuse precisions and several processes if the method does not support them."""
        self._fit_batch = None  # of a training that was interrupted
        if self.trainer.precision not in ("32-true", "64-true"):
            raise InputError(
                "`trainer.precision` must be 32-true or 64-true (sparse products need these), "
                f"got {self.trainer.precision}."
            )
        if self.trainer.world_size > 1 and not self.works_in_shares:
            raise InputError(
                f"{self.short_name} works in one process: leave out `trainer.devices`, "
                "`trainer.num_nodes` and `trainer.strategy`."
            )

    def on_fit_start(self) -> None:
        """Keep the batch of the whole graph, which hooks before the first step need."""
        datamodule: Any = getattr(self.trainer, "datamodule", None)
        if not hasattr(datamodule, "full_batch"):
            raise InputError(
                f"{type(self).__name__} trains on a GraphDataModule: "
                "trainer.fit(model, datamodule=GraphDataModule(...))."
            )
        self._fit_batch = datamodule.full_batch()
        if self.fit_batch.batch_size is not None and not self.learns_in_batches:
            raise InputError(
                f"{self.short_name} learns from the whole graph at once: leave out "
                "`data.batch_size`."
            )
        self._fit_scales(self.fit_batch)
        # One seed for all processes, and the same for one as for several.
        torch.manual_seed(self.trainer.strategy.broadcast(self._seed))
        if self.trainer.ckpt_path is None:
            self._restored_rng = None  # of an earlier training of this module

    def _fit_scales(self, batch: GraphBatch) -> None:
        """Bring what the first layers see to the scale that the defaults were chosen for."""
        energy = float(self.trainer.strategy.reduce(batch.energy, reduce_op="sum"))
        if hops := min(self.num_input_hops, len(HOP_SHARES) - 1):
            energy *= batch.energy_share(hops) / HOP_SHARES[hops]
        for layer in self.modules():
            if isinstance(layer, InputLinear):
                layer.fit_scale(energy / batch.num_nodes)

    @property
    def fit_batch(self) -> GraphBatch:
        """The batch of the whole graph during a training."""
        if self._fit_batch is None:
            raise RuntimeError("There is no training: `on_fit_start` keeps the batch of the graph.")
        return self._fit_batch

    def on_train_start(self) -> None:
        """Continue the random numbers of the checkpoint."""
        state, self._restored_rng = self._restored_rng, None
        if state is None:
            return
        torch.set_rng_state(state["torch"].cpu())
        random.setstate(state["python"])
        name, keys, *rest = state["numpy"]
        np.random.set_state((name, np.asarray(keys, dtype=np.uint32), *rest))
        if state["cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"].cpu(), self.device)

    def on_fit_end(self) -> None:
        """Release the batch."""
        self._fit_batch = None

    # Steps -------------------------------------------------------------------------------------

    def training_step(self, batch: GraphBatch, batch_idx: int) -> Tensor:
        """One step: on the whole graph, which is an epoch, or on some of its nodes."""
        loss = self.training_loss(batch)
        self._epoch_losses = [*(self._epoch_losses if batch_idx else []), loss.detach()]
        if batch_idx + 1 == self.trainer.num_training_batches:
            self.last_loss = self.trainer.strategy.reduce(
                torch.stack(self._epoch_losses).mean(), reduce_op="mean"
            )
            self._log_epoch({"train_loss": self.last_loss})
        return loss

    def validation_step(self, batch: GraphBatch, batch_idx: int) -> None:
        """Accuracy and loss of the prediction on the validation nodes."""
        in_fit = self.trainer.state.fn == "fit"
        prediction = (self.predict_for_validation if in_fit else self.predict_nodes)(batch)
        y, index = batch.graph.y, batch.graph.val_index
        metrics = {
            "val_acc": accuracy(prediction.probs, y, index),
            "val_loss": self.validation_loss(batch, prediction),
        }
        self.log_dict(metrics, batch_size=1, logger=False if in_fit else None)
        if in_fit and self.out_of_fold is not None and index is not None:
            self.out_of_fold.update(prediction.probs[index], y[index])
        if in_fit and self._logs_this_epoch:
            if prediction.logits is not None:
                metrics["val_acc_network"] = accuracy(prediction.logits, y, index)
            self._log_epoch(metrics)

    def test_step(self, batch: GraphBatch, batch_idx: int) -> None:
        """Metrics of the prediction, and of the network alone, on the test nodes."""
        index = batch.graph.test_index
        if index is None or len(index) == 0:
            raise InputError("The split has no test nodes, so there is nothing to test.")
        prediction = self.predict_nodes(batch)
        probs, target = prediction.probs[index], batch.graph.y[index]
        classes = probs.shape[1]
        metrics = {
            "test_acc": accuracy(probs, target),
            "test_loss": negative_log_likelihood(probs, target),
            "test_f1_macro": multiclass_f1_score(probs, target, classes, average="macro"),
            "test_ece": multiclass_calibration_error(probs, target, classes, CALIBRATION_BINS),
        }
        if prediction.logits is not None:
            metrics["test_acc_network"] = accuracy(prediction.logits[index], target)
        for name, part in prediction.parts.items():
            metrics[f"test_acc_{name}"] = (part[index] == target).to(torch.float32).mean()
        self.test_output = (probs, target)
        self.log_dict(metrics, batch_size=1)

    def predict_step(self, batch: GraphBatch, batch_idx: int) -> Tensor:
        """Class probabilities of every node of the graph, shape ``[N, C]``."""
        return self.predict_nodes(batch).probs.cpu()

    @property
    def _logs_this_epoch(self) -> bool:
        return (self.current_epoch + 1) % self.log_every_n_epochs == 0

    def _log_epoch(self, metrics: dict[str, Tensor]) -> None:
        # Not by `self.log`: Lightning allows no `logger` argument that changes between epochs.
        if self._logs_this_epoch and self.trainer.is_global_zero:
            values = {name: float(value) for name, value in metrics.items()}
            for logger in self.loggers:
                logger.log_metrics(values, step=self.current_epoch + 1)

    # Optimiser ---------------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam; the L2 term is the weight decay of one parameter group."""
        return self.make_optimizer(self.current_decay)

    @property
    def min_epochs(self) -> int:
        """The training does not stop before so many epochs."""
        return 0 if isinstance(self.weight_decay, float) else self.schedule_epochs

    @property
    def schedule_epochs(self) -> int:
        """The epochs in which the weight decay rises."""
        most = self.trainer.max_epochs
        return self.decay_epochs if most is None or most < 0 else min(self.decay_epochs, most)

    @property
    def current_decay(self) -> float:
        """The weight decay of this epoch."""
        if isinstance(self.weight_decay, float):
            return self.weight_decay
        num_epochs = max(1, self.schedule_epochs)  # the trainer may have none
        return rising_weight_decay(self.current_epoch, *self.weight_decay, num_epochs)

    def on_train_epoch_start(self) -> None:
        """Set the weight decay of the epoch, if it is not the same in all."""
        if not isinstance(self.weight_decay, float):
            (optimizer,) = self.trainer.optimizers
            optimizer.param_groups[0]["weight_decay"] = self.current_decay

    def make_optimizer(self, weight_decay: float) -> torch.optim.Optimizer:
        """A new Adam whose decay acts on `decayed_parameters` alone.

        Adam's ``weight_decay`` adds ``weight_decay * W`` to the gradient, which is the gradient of
        (weight_decay / 2)·‖W‖²: the term in the loss, without a pass over W.
        """
        decayed = self.decayed_parameters()
        ids = {id(p) for p in decayed}
        rest = [p for p in self.parameters() if id(p) not in ids]
        groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": weight_decay}]
        return torch.optim.Adam([*groups, {"params": rest}], lr=self.lr, fused=True)

    # Checkpoint --------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what a resumed run or a new process needs and Lightning does not save."""
        checkpoint["format"] = CHECKPOINT_FORMAT
        checkpoint["init_seed"] = os.environ.get("PL_GLOBAL_SEED")  # of seed_everything
        checkpoint["model_class"] = class_path_of(self)
        for section in {"hyper_parameters", "datamodule_hyper_parameters"} & checkpoint.keys():
            checkpoint[section] = {k: _plain(v) for k, v in checkpoint[section].items()}
        if "loops" not in checkpoint:
            return  # for testing and prediction only
        if self.out_of_fold is not None:
            checkpoint["out_of_fold"] = self.out_of_fold.state_dict()
        # Without the state of the random numbers a resumed run would be another run.
        numpy_state: Any = np.random.get_state(legacy=True)
        checkpoint["rng"] = {
            "torch": torch.get_rng_state(),
            "python": random.getstate(),
            "numpy": [numpy_state[0], numpy_state[1].tolist(), *numpy_state[2:]],
            "cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the state of the random numbers until the training starts."""
        self._restored_rng = checkpoint.get("rng")
        if self.out_of_fold is not None and "out_of_fold" in checkpoint:
            self.out_of_fold.load_state_dict(checkpoint["out_of_fold"])

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Load weights; weights of another size raise a one-line `CheckpointError`."""
        try:
            return super().load_state_dict(state_dict, strict, assign)
        except RuntimeError as error:
            raise CheckpointError(
                f"The checkpoint's weights do not fit this {type(self).__name__}: {error}"
            ) from error


def _plain_decay(value: WeightDecay) -> float | tuple[float, float]:
    """A weight decay as plain numbers, which a checkpoint holds."""
    if isinstance(value, (int, float)):
        require_in("[0, inf)", weight_decay=value)
        return float(value)
    if len(value) != 2:
        raise InputError(f"`weight_decay` must be one or two numbers, got {value!r}.")
    first, last = value
    require_in("(0, inf)", note=", if there are two", weight_decay=first)
    require_in(f"[{first}, inf)", note=", the second", weight_decay=last)
    return float(first), float(last)


def class_path_of(model: pl.LightningModule) -> str:
    """Import path of the class of a model, as checkpoints record it."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def _plain(value: Any) -> Any:
    """NumPy scalars as Python numbers and paths as text, which ``weights_only`` can load."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if getattr(value, "shape", None) == () else value
