"""What PTS, PTD, PTA and PAMT share: an MLP that learns from propagated labels."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import CheckpointError, require_in, require_one_of
from pamt_lightning.functional import (
    confidence_weights,
    propagate,
    propagate_labels,
    soft_cross_entropy,
)
from pamt_lightning.kernels.columns import by_column, row_softmax
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.methods.base import NodeClassificationModule, Prediction, WeightDecay
from pamt_lightning.nn import MLP

StoppingLoss = Literal["nll", "soft"]


class SoftLabelModule(NodeClassificationModule):
    """An MLP trained on soft labels of all nodes; its prediction is propagated as well.

    The MLP maps each node independently, so a step may be on some nodes, and several processes may
    share the nodes: every process holds the soft labels and predictions ``[N, C]``, but attributes
    and edges of its own nodes only.

    A method defines its soft labels (`make_soft_labels`) and their weights (`gamma`).

    Args:
        hidden_dim: Size of the MLP's hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only; of
            two values it rises from one to the other, see `NodeClassificationModule`.
        alpha: Teleport weight α in [0, 1] of every propagation; 1 ignores the graph.
        num_steps: Number of propagation steps K.
        loss_weight: λ, the weight of the soft-label cross entropy beside the L2 term.
        reset_labelled: Whether labelled nodes are reset to their one-hot rows after every step of
            the propagation.
        stopping_loss: ``nll`` (negative log likelihood of the propagated prediction) or ``soft``
            (the authors': the MLP against labels propagated from the validation nodes).
        **options: All others are those of `NodeClassificationModule`.
    """

    learns_in_batches = True
    works_in_shares = True

    values_per_node = 0
    """Values that are held for each node beside those of all such methods."""

    attribute_copies = 0
    """How many copies of all attributes, in single precision, fit into what it holds for a time."""

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.0,
        lr: float = 0.1,
        weight_decay: WeightDecay = (2e-4, 1e-2),
        alpha: float = 0.1,
        num_steps: int = 10,
        loss_weight: float = 0.05,
        reset_labelled: bool = True,
        stopping_loss: StoppingLoss = "nll",
        **options: Any,
    ) -> None:
        super().__init__(num_features, num_classes, lr=lr, weight_decay=weight_decay, **options)
        require_in("[0, 1]", alpha=alpha)
        require_in("[0, inf)", loss_weight=loss_weight, num_steps=num_steps)
        require_one_of(get_args(StoppingLoss), stopping_loss=stopping_loss)
        self.net = MLP(num_features, hidden_dim, num_classes, dropout)
        self.alpha = alpha
        self.num_steps = num_steps
        self.loss_weight = loss_weight
        self.reset_labelled = reset_labelled
        self.stopping_loss: StoppingLoss = stopping_loss
        # Plain attributes, not buffers: their length is the graph's, not the model's.
        self.soft_labels: Tensor | None = None
        self._val_labels: Tensor | None = None

    # What a method may define ------------------------------------------------------------------

    def make_soft_labels(self, batch: GraphBatch) -> None:
        """Set the first soft labels, before the first epoch: those propagated over Â."""
        self.soft_labels = self.propagated_labels(batch.adj_norm, batch)

    def gamma(self) -> float:
        """Exponent of the loss weights softmax(f)^γ in this epoch; 0 weighs all labels alike."""
        return 0.0

    # Life cycle --------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Forget the validation labels of a training that was interrupted."""
        super().setup(stage)
        self._val_labels = None

    def on_fit_end(self) -> None:
        """Forget the validation labels, which are those of one graph."""
        super().on_fit_end()
        self._val_labels = None

    def on_fit_start(self) -> None:
        """Make the first soft labels, or take those of the checkpoint."""
        super().on_fit_start()
        batch = self.fit_batch
        if self.stopping_loss == "soft":
            self._val_labels = self.propagated_labels(batch.adj_norm, batch, validation=True)
        if self.trainer.ckpt_path is None:
            # Those of an earlier training may contain the labels of other nodes.
            self.soft_labels = None
        if self.soft_labels is None:
            self.make_soft_labels(batch)
            return
        self.soft_labels = by_column(self.soft_labels.to(self.device))
        if len(self.soft_labels) != batch.num_nodes:
            raise CheckpointError(
                f"The checkpoint was written on a graph of {len(self.soft_labels)} nodes, "
                f"this one has {batch.num_nodes}: resume on the data of that run."
            )

    @torch.no_grad()
    def propagated_labels(
        self, adj: SparseOperator, batch: GraphBatch, *, validation: bool = False
    ) -> Tensor:
        """The training or validation labels after K steps over ``adj`` (PAMT, Eq. 8 and 9)."""
        labelled = (batch.graph.y, batch.val_index if validation else batch.train_index)
        steps, reset = self.num_steps, validation or self.reset_labelled
        labels = propagate_labels(
            adj, *labelled, self.num_classes, num_steps=steps, alpha=self.alpha, reset=reset
        )
        return by_column(labels)  # the layout of the loss

    # The method --------------------------------------------------------------------------------

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """λ times the soft-label cross entropy (PAMT, Eq. 10)."""
        return self.soft_label_loss(self.net(batch.x), self.soft_labels, batch)

    def soft_label_loss(self, logits: Tensor, labels: Tensor | None, batch: GraphBatch) -> Tensor:
        """The loss of an MLP's output on soft labels of the nodes of a step.

        On some of the nodes it is scaled up, so that its mean over batches is that of all nodes.
        """
        if labels is None:
            raise RuntimeError("There are no soft labels yet: `on_fit_start` makes them.")
        scale = self.loss_weight
        scale *= batch.rows.world_size  # DDP takes the mean of the processes' gradients
        if batch.nodes is not None:
            scale *= batch.num_nodes / len(batch.nodes)
        gamma = self.gamma()
        weights = None if gamma == 0.0 else confidence_weights(logits, gamma)
        return scale * soft_cross_entropy(logits, batch.rows_of(labels), weights)

    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """W₁."""
        return [self.net.input.weight]

    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """Class probabilities Ŷ = Ā · softmax(f_θ(X)) (PAMT, Eq. 4)."""
        logits = batch.outputs(self.net)
        return Prediction(self.propagated_prediction(logits, batch.adj_norm), logits)

    def propagated_prediction(self, logits: Tensor, adj: SparseOperator) -> Tensor:
        """The MLP's probabilities after K steps over ``adj``, rows divided by their sums."""
        start = row_softmax(logits).contiguous()  # the layout of the products
        probs = propagate(adj, start, num_steps=self.num_steps, alpha=self.alpha)
        return probs / probs.sum(1, keepdim=True)

    def validation_loss(self, batch: GraphBatch, prediction: Prediction) -> Tensor:
        """The validation loss; see ``stopping_loss``."""
        if self.stopping_loss == "nll" or prediction.logits is None:
            return super().validation_loss(batch, prediction)
        labels = self._val_labels
        if labels is None:  # a validation outside of a training
            labels = self.propagated_labels(batch.adj_norm, batch, validation=True)
        return soft_cross_entropy(prediction.logits, labels)

    # Checkpoint --------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the soft labels, which are part of the training state."""
        super().on_save_checkpoint(checkpoint)
        if self.soft_labels is not None and "loops" in checkpoint:
            checkpoint["soft_labels"] = self.soft_labels

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the soft labels."""
        super().on_load_checkpoint(checkpoint)
        self.soft_labels = checkpoint.get("soft_labels")
