"""PAMT_plus: PAMT with three learners and edge trust, and one setting for all data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.methods.base import Prediction
from pamt_lightning.methods.pamt import INFERENCES, Inference, PAMTModule
from pamt_lightning.nn import MLP

# `auto` chooses among the masked learner over Â, over A_p, alone and over the trusted graph, and
# the two other learners.
_OTHERS = ("unmasked", "graphless")
CHOICES = (*INFERENCES, "trusted", *_OTHERS)


class PAMTPlusModule(PAMTModule):
    """PAMT_plus: an extension of the paper's method.

    It is not known beforehand how reliable the edges are, so three MLPs learn side by side: one
    uses all edges (labels propagated over Â, which is PTA), one weighs them by the attributes of
    their ends and by its own mask (PAMT over the trusted graph), one uses none (labelled nodes
    alone). The validation nodes decide whose prediction is kept, and what it is propagated over.

    Args:
        hidden_dim: Size of the hidden layer of each MLP.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        momentum: β in [0, 1): share of the old soft labels that a refresh keeps (Eq. 11).
        refresh_interval: t_u: epochs between two refreshes of mask and soft labels.
        mask_from: First epoch with a mask.
        adaptive_weighting: PTA's loss weights softmax(f)^γ with γ = ln(1 + t / 100).
        attribute_trust: Whether the masked MLP's Â is weighted by the probability that an edge was
            not drawn at random, estimated from the attributes of its ends; ``mask_floor`` applies
            after it.
        inference: ``auto`` chooses on the validation nodes among the ``unmasked`` MLP's prediction
            (over Â), the ``graphless`` one's and, from its first mask on, the masked one's
            (propagated over Â, over A_p, over the trusted graph, or not at all); with any other
            value the masked MLP learns alone.
        **options: All others are those of `PAMTModule`.
    """

    works_in_shares = False  # trust is estimated from all edges at once

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        hidden_dim: int = 64,
        dropout: float = 0.0,
        lr: float = 0.1,
        weight_decay: float = 0.005,
        momentum: float = 0.0,
        refresh_interval: int = 10,
        mask_from: int = 100,
        adaptive_weighting: bool = True,
        attribute_trust: bool = True,
        inference: Inference = "auto",
        **options: Any,
    ) -> None:
        super().__init__(
            num_features,
            num_classes,
            hidden_dim=hidden_dim,
            dropout=dropout,
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            refresh_interval=refresh_interval,
            mask_from=mask_from,
            adaptive_weighting=adaptive_weighting,
            inference=inference,
            **options,
        )
        self.attribute_trust = attribute_trust
        self.others = torch.nn.ModuleDict()
        if inference == "auto":
            sizes = (num_features, hidden_dim, num_classes, dropout)
            self.others.update({name: MLP(*sizes) for name in _OTHERS})
            # Both start from the weights of PTA.
            self.others["unmasked"].load_state_dict(self.net.state_dict())
        self.unmasked_labels: Tensor | None = None
        self.random_share: float | None = None

    # Life cycle --------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Also make the labels of the unmasked learner, which are the same in all epochs."""
        super().on_fit_start()
        batch = self.fit_batch
        if self.attribute_trust:
            self.random_share = 1.0 - float(self.edge_trust(batch).double().mean())
        if self.others:
            self.unmasked_labels = self.propagated_labels(batch.adj_norm, batch)

    def structure(self, batch: GraphBatch) -> SparseOperator:
        """The trusted graph, or Â without ``attribute_trust``."""
        return batch.trusted_adj if self.attribute_trust else batch.adj_norm

    @torch.no_grad()
    def edge_trust(self, batch: GraphBatch) -> Tensor:
        """The trust in each stored entry of the adjacency, in [0, 1]."""
        adj = batch.adj_norm
        edges = adj.row_index != adj.col  # not the self-loops
        return (self.structure(batch).values / adj.values)[edges]

    def mask_similarity(self, batch: GraphBatch) -> Tensor:
        """Trust times A_s, for each stored entry of the adjacency."""
        return super().mask_similarity(batch) * self.edge_trust(batch)

    # The method --------------------------------------------------------------------------------

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """The sum of the losses of the learners, which share no weights.

        The graphless learner sees all labelled nodes in every step.
        """
        loss = super().training_loss(batch)
        if not self.others:
            return loss
        unmasked, graphless = (self._learner(name) for name in _OTHERS)
        loss = loss + self.soft_label_loss(unmasked, self.unmasked_labels, batch)
        return loss + cross_entropy(graphless(batch.train_x), batch.train_y)

    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """W₁ of each learner."""
        others: list[Any] = list(self.others.values())
        return [*super().decayed_parameters(), *(net.input.weight for net in others)]

    @property
    def chosen(self) -> str:
        """The learner and form of the prediction; see ``inference``."""
        return CHOICES[int(self.inference_choice)] if self.others else super().chosen

    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """Class probabilities of the chosen learner and form."""
        logits = batch.outputs(self._learner(self.chosen))
        return Prediction(self.predict_by(self.chosen, logits, batch), logits)

    def predict_for_validation(self, batch: GraphBatch) -> Prediction:
        """Choose by the accuracy on the validation nodes, then by loss; the first of equals."""
        if not self.others:
            return super().predict_for_validation(batch)
        return self.choose(batch, self._candidates(batch))

    def _candidates(self, batch: GraphBatch) -> Iterator[tuple[int, Prediction]]:
        # Before its first mask the masked learner is no candidate.
        names = CHOICES if self.current_epoch + 1 >= self.mask_from else _OTHERS
        logits: dict[MLP, Tensor] = {}
        for name in names:
            if name == "trusted" and not self.attribute_trust:
                continue  # the same as `structure`
            learner = self._learner(name)
            if learner not in logits:
                logits[learner] = batch.outputs(learner)
            probs = self.predict_by(name, logits[learner], batch)
            yield CHOICES.index(name), Prediction(probs, logits[learner])

    def _learner(self, name: str) -> MLP:
        learner: Any = self.others[name] if name in _OTHERS else self.net
        network: MLP = learner
        return network

    def predict_by(self, inference: str, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Class probabilities from the logits of a learner."""
        if inference == "trusted":
            return self.propagated_prediction(logits, batch.trusted_adj)
        inference = {"unmasked": "structure", "graphless": "network"}.get(inference, inference)
        return super().predict_by(inference, logits, batch)
