"""Networks trained with cross entropy on the labelled nodes, from the MLP to robust GCN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.methods.base import (
    NodeClassificationModule,
    Prediction,
    build,
    require_range,
)
from pamt_lightning.nn import APPNP, GAT, GCN, MLP, SGC, RobustGCN


class SupervisedModule(NodeClassificationModule):
    """A network, the cross entropy of the labelled nodes, and the softmax of its output."""

    net: Any  # each method's own network

    def logits(self, batch: GraphBatch) -> Tensor:
        """Output of the network for every node."""
        out: Tensor = self.net(batch.x.to(batch.device), batch.adj_norm)
        return out

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """Mean cross entropy of the labelled nodes."""
        return cross_entropy(self.logits(batch)[batch.train_index], batch.train_y)

    def decayed_parameters(self) -> list[nn.Parameter]:
        """W₁."""
        return [self.net.input.weight]

    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """Softmax of the network's output."""
        return Prediction(torch.softmax(self.logits(batch), dim=-1))


class MLPModule(SupervisedModule):
    """An MLP on the attributes alone, without the graph.

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        log_every_n_epochs: How often metrics go to the loggers.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.5,
        lr: float = 0.01,
        weight_decay: float = 0.005,
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__(num_features, num_classes, lr, weight_decay, log_every_n_epochs)
        self.save_hyperparameters()
        self.net = build(MLP, num_features, hidden_dim, num_classes, dropout=dropout)

    def logits(self, batch: GraphBatch) -> Tensor:
        """Output of the MLP for every node."""
        return batch.outputs(self.net)

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """Mean cross entropy of the labelled nodes, the only ones that the MLP needs."""
        return cross_entropy(self.net(batch.train_x), batch.train_y)


class GCNModule(SupervisedModule):
    """GCN: two graph convolutions (Kipf and Welling 2017, arXiv:1609.02907).

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        log_every_n_epochs: How often metrics go to the loggers.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.5,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__(num_features, num_classes, lr, weight_decay, log_every_n_epochs)
        self.save_hyperparameters()
        self.net = build(GCN, num_features, hidden_dim, num_classes, dropout=dropout)


class GATModule(SupervisedModule):
    """GAT: attention over the neighbours (Veličković et al. 2018, arXiv:1710.10903).

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of each head of the hidden layer.
        num_heads: Heads of the hidden layer; their outputs are joined.
        num_output_heads: Heads of the output layer; their outputs are averaged.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        attention_dropout: Share of the attention weights set to zero in training.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W‖², on all weights but the biases.
        log_every_n_epochs: How often metrics go to the loggers.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 8,
        num_heads: int = 8,
        num_output_heads: int = 1,
        dropout: float = 0.6,
        attention_dropout: float = 0.6,
        lr: float = 0.005,
        weight_decay: float = 5e-4,
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__(num_features, num_classes, lr, weight_decay, log_every_n_epochs)
        self.save_hyperparameters()
        self.net = build(
            GAT,
            num_features,
            hidden_dim,
            num_classes,
            num_heads=num_heads,
            num_output_heads=num_output_heads,
            dropout=dropout,
            attention_dropout=attention_dropout,
        )

    def decayed_parameters(self) -> list[nn.Parameter]:
        """All weights but the biases, as its authors intend."""
        return [p for name, p in self.net.named_parameters() if "bias" not in name]


class RobustGCNModule(SupervisedModule):
    """Robust GCN: hidden states are Gaussians, and uncertain neighbours count less.

    Zhu et al., *Robust Graph Convolutional Networks Against Adversarial Attacks*, KDD 2019. It
    samples in training and predicts with the means, so that predictions are reproducible.

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the hidden means, and of the hidden variances.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        gamma: Attention is exp(-gamma · variance); 0 weighs all neighbours alike.
        kl_weight: Weight of the divergence of the first layer's Gaussians from the standard one.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        log_every_n_epochs: How often metrics go to the loggers.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 16,
        dropout: float = 0.6,
        gamma: float = 1.0,
        kl_weight: float = 5e-4,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__(num_features, num_classes, lr, weight_decay, log_every_n_epochs)
        require_range("kl_weight", kl_weight, 0.0, float("inf"), open_high=True)
        self.save_hyperparameters()
        self.kl_weight = kl_weight
        self.net = build(
            RobustGCN, num_features, hidden_dim, num_classes, dropout=dropout, gamma=gamma
        )

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """Cross entropy of the sampled output, and the divergence of the first layer."""
        logits, kl = self.net.forward_with_kl(batch.x, batch.adj_norm)
        loss: Tensor = cross_entropy(logits[batch.train_index], batch.train_y) + self.kl_weight * kl
        return loss


class SGCModule(SupervisedModule):
    """SGC: logistic regression on propagated attributes (Wu et al. 2019, arXiv:1902.07153).

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        num_steps: Number of propagation steps K; 0 gives logistic regression.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W‖², on the weights.
        log_every_n_epochs: How often metrics go to the loggers.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        num_steps: int = 2,
        lr: float = 0.2,
        weight_decay: float = 1.3e-5,
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__(num_features, num_classes, lr, weight_decay, log_every_n_epochs)
        self.save_hyperparameters()
        self.net = build(SGC, num_features, num_classes, num_steps=num_steps)


class APPNPModule(SupervisedModule):
    """APPNP: an MLP trained through propagation (Gasteiger et al. 2019, arXiv:1810.05997).

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the MLP's hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        alpha: Teleport weight α in [0, 1]; 1 ignores the graph.
        num_steps: Number of propagation steps K.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        log_every_n_epochs: How often metrics go to the loggers.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.5,
        alpha: float = 0.1,
        num_steps: int = 10,
        lr: float = 0.01,
        weight_decay: float = 0.005,
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__(num_features, num_classes, lr, weight_decay, log_every_n_epochs)
        self.save_hyperparameters()
        self.net = build(
            APPNP,
            num_features,
            hidden_dim,
            num_classes,
            dropout=dropout,
            alpha=alpha,
            num_steps=num_steps,
        )

    def decayed_parameters(self) -> list[nn.Parameter]:
        """W₁ of the MLP."""
        return [self.net.mlp.input.weight]

    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """Softmax of the propagated output, and the MLP's own output."""
        alone = batch.outputs(self.net.mlp)
        propagated = self.net.propagate(alone, batch.adj_norm)
        return Prediction(torch.softmax(propagated, dim=-1), alone)
