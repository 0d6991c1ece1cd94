"""PAMT_plus: PAMT with what the validation splits proved worth it, and one setting for all data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pamt_lightning.functional import (
    row_indices,
    trust_edges,
)
from pamt_lightning.functional.mask import Representation
from pamt_lightning.graph import Graph
from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood
from pamt_lightning.methods.pamt import INFERENCES, Inference, PAMTModule
from pamt_lightning.methods.prepared import Prediction, Prepared
from pamt_lightning.nn import MLP

# What `auto` chooses among: the masked learner over Â, over A_p, by itself, over the trusted graph;
# and the other two.
_OTHERS = ("unmasked", "graphless")
CHOICES = (*INFERENCES, "trusted", *_OTHERS)


class PAMTPlusModule(PAMTModule):
    """PAMT_plus: not the paper's method, but one that grew out of it.

    How far edges can be trusted is not known beforehand, so three MLPs learn side by side: one
    trusts all edges (labels propagated over Â, which is PTA), one those that the attributes of
    their ends and its own mask speak for (PAMT over the trusted graph), one none (labelled nodes
    alone). The stopping set chooses whose prediction is kept, and what it is propagated over.

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the hidden layer of each MLP.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        momentum: β in [0, 1): share of the old soft labels that a refresh keeps (Eq. 11).
        refresh_interval: t_u: how often mask and soft labels are made anew.
        mask_from: First epoch with a mask.
        representation: What H in Eq. 5 is.
        adaptive_weighting: PTA's loss weights softmax(f)^γ with γ = ln(1 + t / 100).
        attribute_trust: Whether the masked MLP's Â is weighted by the chance that an edge was not
            drawn at random, read off the attributes of its ends; ``mask_floor`` applies after it.
        inference: ``auto`` chooses on the stopping set among the ``unmasked`` MLP's prediction
            (over Â), the ``graphless`` one's and, from its first mask on, the masked one's
            (propagated over Â, over A_p, over the trusted graph, or not at all); any other value is
            for the masked MLP, which then learns alone.
        **options: All others are those of `PAMTModule`.
    """

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
        representation: Representation = "cosine",
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
            representation=representation,
            adaptive_weighting=adaptive_weighting,
            inference=inference,
            **options,
        )
        self.attribute_trust = attribute_trust
        self.others = torch.nn.ModuleDict()
        if inference == "auto":
            sizes = (num_features, hidden_dim, num_classes, dropout)
            self.others.update({name: MLP(*sizes) for name in _OTHERS})
            # Both start where PTA does.
            self.others["unmasked"].load_state_dict(self.net.state_dict())
        self.unmasked_labels: Tensor | None = None
        self.random_share: float | None = None
        self._trusted_data: tuple[Prepared, Prepared] | None = None

    works_in_shares = False  # trust in edges looks at all of them at once

    @property
    def method(self) -> str:
        """``PAMT_plus``: never to be mistaken for the paper's method."""
        return "PAMT_plus"

    # Life cycle --------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Make the labels of the unmasked learner, too: they are the same in all epochs."""
        super().on_fit_start()
        data = self.fit_data()
        if self.attribute_trust:
            self.random_share = 1.0 - float(self.edge_trust(data).double().mean())
        if self.others:
            self.unmasked_labels = self.propagated_labels(data.adj_norm, data)

    def refresh(self, data: Prepared, epoch: int) -> None:
        """As PAMT does, over the trusted graph."""
        super().refresh(self.trusted(data), epoch)

    @torch.no_grad()
    def trusted(self, data: Prepared) -> Prepared:
        """The same data with the graph that the masked learner trusts for its Â."""
        known = self._trusted_data
        if not self.attribute_trust or (known is not None and known[1] is data):
            return data
        if known is None or known[0] is not data:
            # Random numbers of its own: one graph is trusted alike in all runs and predictions.
            generator = torch.Generator().manual_seed(0)
            where = data.graph.x.device  # the attributes may have stayed there
            adj = trust_edges(data.adj_norm.to(where), data.graph.x, generator).to(data.device)
            known = self._trusted_data = (data, replace(data, adj_norm=adj))
        return known[1]

    @torch.no_grad()
    def edge_trust(self, data: Prepared) -> Tensor:
        """How far the attributes speak for each stored entry of the adjacency, in [0, 1]."""
        adj = data.adj_norm
        edges = row_indices(adj) != adj.col_indices()  # not the self-loops
        return (self.trusted(data).adj_norm.values() / adj.values())[edges]

    def mask_similarity(self, graph: Graph) -> Tensor:
        """What is left of each stored entry of the adjacency: trust times A_s."""
        return super().mask_similarity(graph) * self.edge_trust(self.prepare(graph))

    def _mask_of(self, logits: Tensor, data: Prepared) -> Tensor:
        return super()._mask_of(logits, self.trusted(data))

    # The method --------------------------------------------------------------------------------

    def training_loss(self, data: Prepared) -> Tensor:
        """The sum of the learners' losses; they share no weights, so each learns by itself."""
        return self._loss_of_all(data, None)

    def batch_loss(self, data: Prepared, nodes: Tensor) -> Tensor:
        """The same on some nodes; the graphless learner sees all labelled nodes in every step."""
        return self._loss_of_all(data, nodes)

    def _loss_of_all(self, data: Prepared, nodes: Tensor | None) -> Tensor:
        loss = self.soft_label_loss(self.net, self.soft_labels, data, nodes)
        if not self.others:
            return loss
        unmasked, graphless = (self._learner(name) for name in _OTHERS)
        loss = loss + self.soft_label_loss(unmasked, self.unmasked_labels, data, nodes)
        return loss + cross_entropy(graphless(data.train_x), data.train_y)

    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """W₁ of each learner."""
        others: list[Any] = list(self.others.values())
        return [*super().decayed_parameters(), *(net.input.weight for net in others)]

    @property
    def propagations_per_epoch(self) -> int:
        """How often a validation propagates: once for each choice that needs the graph."""
        return 4 if self.others else super().propagations_per_epoch

    @property
    def chosen(self) -> str:
        """What the prediction is taken from; see ``inference``."""
        return CHOICES[int(self.inference_choice)] if self.others else self.inference

    def predict_nodes(self, data: Prepared) -> Prediction:
        """Class probabilities as chosen."""
        if not self.others:
            return super().predict_nodes(data)
        logits = data.outputs(self._learner(self.chosen))
        return Prediction(self._probs(self.chosen, logits, data), logits)

    def predict_for_stopping(self, data: Prepared) -> Prediction:
        """Choose by the accuracy on the stopping set, then by its loss; the first of equals."""
        if not self.others:
            return super().predict_for_stopping(data)
        y, index = data.graph.y, data.graph.val_index
        logits = {name: data.outputs(self._learner(name)) for name in (INFERENCES[0], *_OTHERS)}
        best: tuple[float, float] | None = None
        # Until its first mask the masked learner is not asked.
        names = CHOICES if self.current_epoch + 1 >= self.mask_from else _OTHERS
        for name in names:
            if name == "trusted" and not self.attribute_trust:
                continue  # the same as `structure`
            own = logits[name if name in _OTHERS else INFERENCES[0]]
            probs = self._probs(name, own, data)
            loss = float(negative_log_likelihood(probs, y, index))
            score = (float(accuracy(probs, y, index)), -loss)
            if best is None or score > best:
                best, prediction = score, Prediction(probs, own)
                self.inference_choice.fill_(CHOICES.index(name))
        return prediction

    def _learner(self, name: str) -> MLP:
        other: Any = self.others[name] if name in _OTHERS else self.net
        learner: MLP = other
        return learner

    def _probs(self, name: str, logits: Tensor, data: Prepared) -> Tensor:
        way = {"unmasked": "structure", "graphless": "network"}.get(name, name)
        return self._predict_by(way, logits, data)

    def _predict_by(self, way: str, logits: Tensor, data: Prepared) -> Tensor:
        if way == "trusted":
            return self.propagated_prediction(logits, self.trusted(data).adj_norm, data)
        return super()._predict_by(way, logits, data)
