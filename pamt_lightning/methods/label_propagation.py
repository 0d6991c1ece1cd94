"""Label propagation: no attributes, nothing to learn."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import require_in
from pamt_lightning.functional import propagate_labels
from pamt_lightning.methods.base import NodeClassificationModule, Prediction

_LOG = logging.getLogger(__name__)


class LabelPropagationModule(NodeClassificationModule):
    """Labels propagated over Â: the graph alone, nothing learnt.

    There is one epoch with one validation. A node that no label reaches gets the shares of the
    classes among the labelled nodes; ``test_unreached`` is the share of such test nodes.

    Args:
        alpha: Teleport weight α in [0, 1].
        num_steps: Number of propagation steps K: the largest distance that a label travels.
        reset_labelled: Whether labelled nodes are reset to their one-hot rows after every step.
        log_every_n_epochs: How often metrics go to the loggers; there is one epoch.
    """

    predicts_from_labels = True

    class_shares: Tensor

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        alpha: float = 0.1,
        num_steps: int = 50,
        reset_labelled: bool = False,
        log_every_n_epochs: int = 1,
    ) -> None:
        super().__init__(num_features, num_classes, 0.0, 0.0, log_every_n_epochs=log_every_n_epochs)
        require_in("[0, 1]", alpha=alpha)
        require_in("[0, inf)", num_steps=num_steps)
        self.save_hyperparameters(ignore=("lr", "weight_decay", "decay_epochs"))
        self.alpha = alpha
        self.num_steps = num_steps
        self.reset_labelled = reset_labelled
        self.automatic_optimization = False
        self.register_buffer("class_shares", torch.full((num_classes,), 1.0 / num_classes))

    def on_fit_start(self) -> None:
        """Count the classes of the labelled nodes."""
        super().on_fit_start()
        batch = self.fit_batch
        counts = torch.bincount(batch.train_y, minlength=self.num_classes)
        self.class_shares = counts.to(batch.dtype) / counts.sum()

    def on_train_start(self) -> None:
        """A finished run that is resumed stays finished."""
        super().on_train_start()
        if self.current_epoch > 0:
            self.trainer.should_stop = True

    def training_step(self, batch: GraphBatch, batch_idx: int) -> None:  # type: ignore[override]
        """Nothing to train."""

    def on_train_epoch_end(self) -> None:
        """One epoch is enough."""
        self.trainer.should_stop = True

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """0: nothing is learnt."""
        return torch.zeros((), dtype=batch.dtype, device=self.device)

    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """None."""
        return []

    def configure_optimizers(self) -> Any:
        """None."""
        return []

    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """Propagated labels, rows divided by their sums."""
        labels = self.propagated_labels(batch)
        mass = labels.sum(1, keepdim=True)
        shares = labels / torch.where(mass > 0, mass, 1)
        return Prediction(torch.where(mass > 0, shares, self.class_shares.to(batch.dtype)))

    def propagated_labels(self, batch: GraphBatch) -> Tensor:
        """The labels of the training nodes after K steps; zero rows where none arrives."""
        labelled = (batch.graph.y, batch.train_index, self.num_classes)
        steps, reset = self.num_steps, self.reset_labelled
        return propagate_labels(
            batch.adj_norm, *labelled, num_steps=steps, alpha=self.alpha, reset=reset
        )

    def test_step(self, batch: GraphBatch, batch_idx: int) -> None:
        """The metrics of all methods, and the share of test nodes that no label reaches."""
        super().test_step(batch, batch_idx)
        unreached = self.unreached(batch)[batch.graph.test_index].to(torch.float32).mean()
        self.log("test_unreached", unreached, batch_size=1)

    def predict_step(self, batch: GraphBatch, batch_idx: int) -> Tensor:
        """Class probabilities of every node; a warning if labels do not reach all nodes."""
        if count := int(self.unreached(batch).sum()):
            _LOG.warning(
                f"{count:,} of {batch.num_nodes:,} nodes are reached by no label of a training "
                "node: they get the shares of the classes, and of equal shares the first class."
            )
        return super().predict_step(batch, batch_idx)

    def unreached(self, batch: GraphBatch) -> Tensor:
        """Which nodes no label reaches, shape ``[N]``."""
        return self.propagated_labels(batch).sum(1) == 0
