"""What PTS, PTD, PTA and PAMT share: an MLP that learns from propagated labels."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.functional import (
    by_column,
    confidence_weights,
    propagate,
    propagate_labels,
    row_softmax,
    soft_cross_entropy,
    take_rows_by_column,
)
from pamt_lightning.graph import Graph, NodeBatch
from pamt_lightning.methods.base import (
    NodeClassificationModule,
    built,
    require_count,
    require_range,
)
from pamt_lightning.methods.prepared import Prediction, Prepared
from pamt_lightning.nn import MLP

StoppingLoss = Literal["nll", "soft"]


class SoftLabelModule(NodeClassificationModule):
    """An MLP trained on soft labels over all nodes; its prediction is propagated in turn.

    The MLP looks at one node at a time, so a step may be on some nodes, and several processes may
    share the nodes: soft labels and predictions ``[N, C]`` are in each of them, attributes and
    edges only those of its own nodes.

    A method says what its soft labels are (`make_soft_labels`) and how far each counts (`gamma`).
    The arguments are those of `PTSModule`.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int,
        dropout: float,
        lr: float,
        weight_decay: float,
        alpha: float,
        num_steps: int,
        loss_weight: float,
        reset_labelled: bool,
        stopping_loss: StoppingLoss,
        log_every_n_epochs: int,
    ) -> None:
        super().__init__(num_features, num_classes, lr, weight_decay, log_every_n_epochs)
        require_range("alpha", alpha, 0.0, 1.0)
        require_range("loss_weight", loss_weight, 0.0, float("inf"), open_high=True)
        require_count(num_steps=num_steps)
        if stopping_loss not in ("nll", "soft"):
            raise InputError(f"`stopping_loss` must be one of nll, soft, got {stopping_loss!r}.")
        self.net = built(MLP, num_features, hidden_dim, num_classes, dropout)
        self.alpha = alpha
        self.num_steps = num_steps
        self.loss_weight = loss_weight
        self.reset_labelled = reset_labelled
        self.stopping_loss: StoppingLoss = stopping_loss
        # Plain attributes, not buffers: their length is the graph's, not the model's.
        self.soft_labels: Tensor | None = None
        self._stopping_labels: tuple[Prepared, Tensor] | None = None

    learns_in_batches = True
    works_in_shares = True

    # What a method may say ---------------------------------------------------------------------

    def make_soft_labels(self, data: Prepared) -> None:
        """Set the first soft labels, before the first epoch: those propagated over Â."""
        self.soft_labels = self.propagated_labels(data.adj_norm, data)

    def gamma(self) -> float:
        """Exponent of the loss weights softmax(f)^γ in this epoch; 0 weighs all labels alike."""
        return 0.0

    def predict_from(self, logits: Tensor, data: Prepared) -> Tensor:
        """Class probabilities out of f_θ(X): Ŷ = Ā · softmax(f_θ(X)) (PAMT, Eq. 4)."""
        return self.propagated_prediction(logits, data.adj_norm, data)

    @property
    def propagations_per_epoch(self) -> int:
        """How often a validation propagates; for estimates."""
        return 1

    @property
    def refreshes_per_epoch(self) -> float:
        """How often soft labels are made anew; for estimates."""
        return 0.0

    # Life cycle --------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Make the first soft labels, or take those of the checkpoint."""
        super().on_fit_start()
        data = self.fit_data()
        if self.trainer.ckpt_path is None:
            # Of a module that was trained before, they may know the labels of other nodes.
            self.soft_labels = None
        if self.soft_labels is None:
            self.make_soft_labels(data)
            return
        self.soft_labels = by_column(self.soft_labels.to(self.device))
        if self.soft_labels.shape[0] != data.graph.num_nodes:
            raise CheckpointError(
                f"The checkpoint was written on a graph of {self.soft_labels.shape[0]} nodes, "
                f"this one has {data.graph.num_nodes}: resume on the data it was started with."
            )

    @torch.no_grad()
    def propagated_labels(self, adj: Tensor, data: Prepared) -> Tensor:
        """The training labels after K steps over ``adj`` (PAMT, Eq. 8 and 9)."""
        return self._propagated(data.train_index, self.reset_labelled, adj, data)

    def _propagated(self, index: Tensor, reset: bool, adj: Tensor, data: Prepared) -> Tensor:
        labels = propagate_labels(
            adj,
            data.graph.y,
            index,
            self.num_classes,
            num_steps=self.num_steps,
            alpha=self.alpha,
            reset=reset,
            share=data.share,
        )
        return by_column(labels)  # as the loss takes them

    # The method --------------------------------------------------------------------------------

    def step_loss(self, batch: Graph | NodeBatch) -> Tensor:
        """The loss on the whole graph or on some of its nodes."""
        if isinstance(batch, NodeBatch):
            return self.batch_loss(self.prepare(batch.graph), batch.nodes)
        return super().step_loss(batch)

    def training_loss(self, data: Prepared) -> Tensor:
        """λ times the soft-label cross entropy (PAMT, Eq. 10)."""
        return self.soft_label_loss(self.net, self.soft_labels, data)

    def batch_loss(self, data: Prepared, nodes: Tensor) -> Tensor:
        """The same of some nodes, times N by their number: its mean over batches is the whole."""
        return self.soft_label_loss(self.net, self.soft_labels, data, nodes)

    def soft_label_loss(
        self, net: MLP, labels: Tensor | None, data: Prepared, nodes: Tensor | None = None
    ) -> Tensor:
        """The loss of an MLP that learns from some soft labels, on all nodes or on some."""
        if labels is None:
            raise RuntimeError("There are no soft labels yet: `on_fit_start` makes them.")
        scale = self.loss_weight
        scale *= data.share.world_size  # DDP takes the mean of the processes' gradients
        if nodes is None:
            logits: Tensor = net(data.x, data.share.first)
            labels = labels[data.share.rows]
        else:
            features, own, before = data.batch(nodes)
            logits, labels = net(features, before), take_rows_by_column(labels, own)
            scale *= data.num_nodes / len(nodes)
        gamma = self.gamma()
        weights = None if gamma == 0.0 else confidence_weights(logits, gamma)
        return scale * soft_cross_entropy(logits, labels, weights)

    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """W₁."""
        return [self.net.input.weight]

    def predict_nodes(self, data: Prepared) -> Prediction:
        """See `predict_from`."""
        logits = data.outputs(self.net)
        return Prediction(self.predict_from(logits, data), logits)

    def propagated_prediction(self, logits: Tensor, adj: Tensor, data: Prepared) -> Tensor:
        """The MLP's probabilities after K steps over ``adj``, rows divided by their sums."""
        start = row_softmax(logits)
        probs = propagate(adj, start, num_steps=self.num_steps, alpha=self.alpha, share=data.share)
        return probs / probs.sum(1, keepdim=True)

    def validation_loss(self, data: Prepared, prediction: Prediction) -> Tensor:
        """The loss that stopping looks at; see ``stopping_loss``."""
        if self.stopping_loss == "nll" or prediction.logits is None:
            return super().validation_loss(data, prediction)
        return soft_cross_entropy(prediction.logits, self._labels_for_stopping(data))

    def _labels_for_stopping(self, data: Prepared) -> Tensor:
        graph = data.graph
        if self._stopping_labels is None or self._stopping_labels[0] is not data:
            if graph.val_index is None:
                raise InputError("The graph has no stopping nodes: give it a split first.")
            labels = self._propagated(graph.val_index, True, data.adj_norm, data)
            self._stopping_labels = (data, labels)
        return self._stopping_labels[1]

    # Checkpoint --------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Soft labels are part of the training state."""
        super().on_save_checkpoint(checkpoint)
        if self.soft_labels is not None and "loops" in checkpoint:
            checkpoint["soft_labels"] = self.soft_labels

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the soft labels back; `on_fit_start` then knows that they were made."""
        super().on_load_checkpoint(checkpoint)
        self.soft_labels = checkpoint.get("soft_labels")
