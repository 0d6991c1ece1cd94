"""PAMT: propagation with an adaptive mask, then training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.functional import (
    blend_soft_labels,
    confidence_weights,
    mask_adjacency,
    mask_representation,
    one_hot_rows,
    propagate,
    renormalize_mask,
    soft_cross_entropy,
)
from pamt_lightning.functional.similarity import MaskNormalization, Representation
from pamt_lightning.graph import Graph
from pamt_lightning.modules.base import (
    NodeClassificationModule,
    Prediction,
    Prepared,
    require_range,
)
from pamt_lightning.nn import MLP, SparseFeatures
from pamt_lightning.plain import make_plain


@dataclass(frozen=True)
class RefreshReport:
    """What the newest refresh of the soft labels did, for those who watch the training.

    Attributes:
        epoch: The epoch t it happened in; 0 for the first soft labels.
        adj_mask: The matrix A_p the labels were propagated over.
        change: Mean absolute change of a node's soft-label row.
    """

    epoch: int
    adj_mask: Tensor
    change: float


class PAMTModule(NodeClassificationModule):
    """Propagation with Adaptive Mask then Training (Chen, Li, He and He).

    An MLP is trained on soft labels that are propagated over the graph, each edge weighted by how
    alike its two ends look to the MLP itself; every ``refresh_interval`` epochs the mask and the
    soft labels are made anew from the MLP as it is then. Equation numbers are the paper's.

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the MLP's hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam, in pretraining and training.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        alpha: Teleport weight α in [0, 1] of every propagation; 1 ignores the graph.
        num_steps: Number of propagation steps K.
        momentum: β in [0, 1): share of the old soft labels that a refresh keeps (Eq. 11).
        refresh_interval: t_u: soft labels are refreshed in epochs t with t mod t_u = 0; 0 = never.
        loss_weight: λ, the weight of the soft-label cross entropy (Eq. 10) beside the L2 term.
        pretrain_epochs: Epochs on the labelled nodes alone before the first mask; 0 leaves the MLP
            at random (the paper's PAMT_r).
        pretrain_weight_decay: The L2 term during pretraining.
        mask: Whether edges are weighted at all; off, labels are propagated over Â (the PTS method).
        representation: What H in Eq. 5 is: the MLP's probabilities, these with rows of length one,
            or its raw output.
        mask_temperature: Divides the MLP's output before the mask's softmax; above 1 softens it.
        mask_floor: No edge falls below this share of its weight; 0 is the paper's Eq. 7.
        mask_normalization: Whether A_p is renormalised: ``none`` (as written), ``row`` or ``sym``.
        reset_labelled: Whether labelled nodes go back to their one-hot rows after every step of the
            propagation, as in the PT method.
        adaptive_weighting: PTA's loss weights softmax(f)^γ with γ = ln(1 + t / 100).
        inference: The matrix the prediction is propagated over: ``structure`` (Â, Eq. 4) or
            ``mask`` (A_p of the trained MLP).
        stopping_loss: ``nll`` (negative log likelihood of the propagated prediction) or ``soft``
            (PT's: the MLP against labels propagated from the stopping set).
        log_every_n_epochs: How often training figures go to the logger.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 128,
        dropout: float = 0.2,
        lr: float = 0.05,
        weight_decay: float = 0.025,
        alpha: float = 0.1,
        num_steps: int = 10,
        momentum: float = 0.5,
        refresh_interval: int = 30,
        loss_weight: float = 0.05,
        pretrain_epochs: int = 100,
        pretrain_weight_decay: float = 0.005,
        mask: bool = True,
        representation: Representation = "cosine",
        mask_temperature: float = 1.0,
        mask_floor: float = 0.0,
        mask_normalization: MaskNormalization = "none",
        reset_labelled: bool = True,
        adaptive_weighting: bool = False,
        inference: Literal["structure", "mask"] = "structure",
        stopping_loss: Literal["nll", "soft"] = "nll",
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__(num_features, num_classes, lr, weight_decay, log_every_n_epochs)
        require_range("dropout", dropout, 0.0, 1.0, open_high=True)
        require_range("alpha", alpha, 0.0, 1.0)
        require_range("momentum", momentum, 0.0, 1.0, open_high=True)
        require_range("mask_floor", mask_floor, 0.0, 1.0)
        require_range("loss_weight", loss_weight, 0.0, float("inf"), open_high=True)
        require_range("pretrain_weight_decay", pretrain_weight_decay, 0.0, float("inf"))
        for name, count in (
            ("num_steps", num_steps),
            ("refresh_interval", refresh_interval),
            ("pretrain_epochs", pretrain_epochs),
        ):
            if count < 0:
                raise InputError(f"`{name}` must be 0 or more, got {count}.")
        if hidden_dim < 1:
            raise InputError(f"`hidden_dim` must be 1 or more, got {hidden_dim}.")
        if not mask_temperature > 0:
            raise InputError(f"`mask_temperature` must be greater than 0, got {mask_temperature}.")
        if representation == "logits" and mask_normalization != "none":
            raise InputError(
                "`representation`='logits' gives negative weights, which only "
                f"`mask_normalization`='none' accepts, got {mask_normalization!r}."
            )
        for name, value, choices in (
            ("representation", representation, ("softmax", "cosine", "logits")),
            ("mask_normalization", mask_normalization, ("none", "row", "sym")),
            ("inference", inference, ("structure", "mask")),
            ("stopping_loss", stopping_loss, ("nll", "soft")),
        ):
            if value not in choices:
                raise InputError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}.")
        if representation == "logits" and inference == "mask":
            raise InputError(
                "`representation`='logits' gives negative weights, which no prediction can be "
                "propagated over: use `inference`='structure'."
            )
        self.save_hyperparameters()
        make_plain(self.hparams)
        self.net = MLP(num_features, hidden_dim, num_classes, dropout)
        self.alpha = alpha
        self.num_steps = num_steps
        self.momentum = momentum
        self.refresh_interval = refresh_interval
        self.loss_weight = loss_weight
        self.pretrain_epochs = pretrain_epochs
        self.pretrain_weight_decay = pretrain_weight_decay
        self.mask = mask
        self.representation: Representation = representation
        self.mask_temperature = mask_temperature
        self.mask_floor = mask_floor
        self.mask_normalization: MaskNormalization = mask_normalization
        self.reset_labelled = reset_labelled
        self.adaptive_weighting = adaptive_weighting
        self.inference = inference
        self.stopping_loss = stopping_loss
        # Plain attributes, not buffers: their length is the graph's, not the model's.
        self.soft_labels: Tensor | None = None
        self.refresh_report: RefreshReport | None = None
        self._stopping_labels: tuple[Graph, Tensor] | None = None

    # Life cycle --------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Pretrain f_θ on the labelled nodes and make the first soft labels (steps 1 to 3)."""
        datamodule: Any = getattr(self.trainer, "datamodule", None)
        if datamodule is None or not hasattr(datamodule, "graph_on"):
            raise InputError(
                "PAMTModule trains on a GraphDataModule: trainer.fit(model, datamodule)."
            )
        data = self.prepare(datamodule.graph_on(self.device))
        if self.trainer.ckpt_path is None:
            # A new training, also of a module that was trained before: its soft labels may know
            # the labels of other nodes.
            self.soft_labels = self._restored_rng = None
        if self.soft_labels is not None:  # restored from a checkpoint: pretraining lies behind it
            self.soft_labels = self.soft_labels.to(self.device)
            if self.soft_labels.shape[0] != data.graph.num_nodes:
                raise CheckpointError(
                    f"The checkpoint was written on a graph of {self.soft_labels.shape[0]} nodes, "
                    f"this one has {data.graph.num_nodes}: resume on the data it was started with."
                )
            return
        self.pretrain(data)
        self.refresh(data, epoch=0)

    def on_train_epoch_start(self) -> None:
        """Refresh mask and soft labels in every epoch t = 1, 2, ... with t mod t_u = 0 (step 4)."""
        epoch = self.current_epoch + 1
        if self.refresh_interval and epoch % self.refresh_interval == 0 and self._prepared:
            self.refresh(self._prepared, epoch)

    def pretrain(self, data: Prepared) -> None:
        """Train f_θ with cross entropy on the labelled nodes alone, with an Adam of its own."""
        index = data.graph.train_index
        if self.pretrain_epochs == 0 or index is None:
            return
        x = data.x.take_rows(index) if isinstance(data.x, SparseFeatures) else data.x[index]
        target = data.graph.y[index]
        optimizer = self.make_optimizer(self.pretrain_weight_decay)
        self.net.train()
        epochs = tqdm(
            range(self.pretrain_epochs), "pretraining", leave=False, disable=None, delay=1.0
        )
        for _ in epochs:
            optimizer.zero_grad()
            cross_entropy(self.net(x), target).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        self.zero_grad()

    @torch.no_grad()
    def refresh(self, data: Prepared, epoch: int) -> None:
        """Make mask and soft labels anew from f_θ as it is now (Eq. 5 to 8), and blend (Eq. 11)."""
        graph = data.graph
        if graph.train_index is None:
            raise InputError("The graph has no training nodes: give it a split first.")
        adj_mask = self.masked_adjacency(data)
        y0 = one_hot_rows(graph.y, graph.train_index, self.num_classes, data.dtype)
        new = propagate(
            adj_mask,
            y0,
            num_steps=self.num_steps,
            alpha=self.alpha,
            reset_index=graph.train_index if self.reset_labelled else None,
        )
        old = self.soft_labels
        self.soft_labels = new if old is None else blend_soft_labels(old, new, self.momentum)
        change = self.soft_labels if old is None else self.soft_labels - old
        mean_change = float(change.abs().sum(1).mean())
        if not math.isfinite(mean_change):
            raise InputError(
                f"Training diverged: the soft labels of epoch {epoch} are not finite. "
                f"Lower `lr` (now {self.lr})."
            )
        self.refresh_report = RefreshReport(epoch, adj_mask, mean_change)

    @torch.no_grad()
    def masked_adjacency(self, data: Prepared) -> Tensor:
        """A_p of f_θ as it is now, or Â if the mask is off (Eq. 5 to 7)."""
        if not self.mask:
            return data.adj_norm
        was_training = self.net.training
        self.net.eval()
        logits = self.net(data.x)
        self.net.train(was_training)
        return self._mask_of(logits, data)

    def _mask_of(self, logits: Tensor, data: Prepared) -> Tensor:
        if not self.mask:
            return data.adj_norm
        h = mask_representation(logits, self.representation, self.mask_temperature)
        adj_mask = mask_adjacency(data.adj_norm, h, floor=self.mask_floor)
        return renormalize_mask(adj_mask, self.mask_normalization)

    # The method --------------------------------------------------------------------------------

    def training_loss(self, data: Prepared) -> Tensor:
        """λ times the soft-label cross entropy (Eq. 10)."""
        if self.soft_labels is None:
            raise RuntimeError("There are no soft labels yet: `on_fit_start` makes them.")
        logits = self.net(data.x)
        weights = (
            confidence_weights(logits, self.current_epoch) if self.adaptive_weighting else None
        )
        return self.loss_weight * soft_cross_entropy(logits, self.soft_labels, weights)

    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """W₁."""
        return [self.net.input.weight]

    def predict_nodes(self, data: Prepared) -> Prediction:
        """Ŷ = Ā · softmax(f_θ(X)) (Eq. 4), rows divided by their sums to make distributions."""
        logits = self.net(data.x)
        adj = data.adj_norm if self.inference == "structure" else self._mask_of(logits, data)
        start = torch.softmax(logits, dim=-1)
        probs = propagate(adj, start, num_steps=self.num_steps, alpha=self.alpha)
        return Prediction(probs / probs.sum(1, keepdim=True), logits)

    def validation_loss(self, data: Prepared, prediction: Prediction) -> Tensor:
        """The loss that stopping looks at; see ``stopping_loss``."""
        if self.stopping_loss == "nll" or prediction.logits is None:
            return super().validation_loss(data, prediction)
        return soft_cross_entropy(prediction.logits, self._labels_for_stopping(data))

    def _labels_for_stopping(self, data: Prepared) -> Tensor:
        graph = data.graph
        if self._stopping_labels is None or self._stopping_labels[0] is not graph:
            if graph.val_index is None:
                raise InputError("The graph has no stopping nodes: give it a split first.")
            y0 = one_hot_rows(graph.y, graph.val_index, self.num_classes, data.dtype)
            labels = propagate(
                data.adj_norm,
                y0,
                num_steps=self.num_steps,
                alpha=self.alpha,
                reset_index=graph.val_index,
            )
            self._stopping_labels = (graph, labels)
        return self._stopping_labels[1]

    # Checkpoint --------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Soft labels are part of the training state."""
        super().on_save_checkpoint(checkpoint)
        if self.soft_labels is not None and checkpoint.get("optimizer_states"):
            checkpoint["soft_labels"] = self.soft_labels

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the soft labels back; `on_fit_start` then knows that pretraining was done."""
        super().on_load_checkpoint(checkpoint)
        self.soft_labels = checkpoint.get("soft_labels")
