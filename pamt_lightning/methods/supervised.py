"""Networks trained with cross entropy on the labelled nodes, from the MLP to robust GCN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import require_in
from pamt_lightning.methods.base import NodeClassificationModule, Prediction, WeightDecay
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
        hidden_dim: Size of the hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        **options: All others are those of `NodeClassificationModule`.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.5,
        weight_decay: WeightDecay = 0.005,
        **options: Any,
    ) -> None:
        super().__init__(num_features, num_classes, weight_decay=weight_decay, **options)
        self.net = MLP(num_features, hidden_dim, num_classes, dropout)

    def logits(self, batch: GraphBatch) -> Tensor:
        """Output of the MLP for every node."""
        return batch.outputs(self.net)

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """Mean cross entropy of the labelled nodes, the only ones that the MLP needs."""
        return cross_entropy(self.net(batch.train_x), batch.train_y)


class GCNModule(SupervisedModule):
    """GCN: two graph convolutions (Kipf and Welling 2017, arXiv:1609.02907).

    Args:
        hidden_dim: Size of the hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        **options: All others are those of `NodeClassificationModule`.
    """

    num_input_hops = 1

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.5,
        **options: Any,
    ) -> None:
        super().__init__(num_features, num_classes, **options)
        self.net = GCN(num_features, hidden_dim, num_classes, dropout)


class GATModule(SupervisedModule):
    """GAT: attention over the neighbours (Veličković et al. 2018, arXiv:1710.10903).

    Args:
        hidden_dim: Size of each head of the hidden layer.
        num_heads: Heads of the hidden layer; their outputs are joined.
        num_output_heads: Heads of the output layer; their outputs are averaged.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        attention_dropout: Share of the attention weights set to zero in training.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W‖², on all weights but the biases.
        **options: All others are those of `NodeClassificationModule`.
    """

    num_input_hops = 1

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
        weight_decay: WeightDecay = 5e-4,
        **options: Any,
    ) -> None:
        super().__init__(num_features, num_classes, lr=lr, weight_decay=weight_decay, **options)
        sizes = (num_features, hidden_dim, num_classes, num_heads, num_output_heads)
        self.net = GAT(*sizes, dropout, attention_dropout)

    def decayed_parameters(self) -> list[nn.Parameter]:
        """All weights but the biases, as its authors intend."""
        return [p for name, p in self.net.named_parameters() if "bias" not in name]


class RobustGCNModule(SupervisedModule):
    """Robust GCN: hidden states are Gaussians, and uncertain neighbours count less.

    Zhu et al., *Robust Graph Convolutional Networks Against Adversarial Attacks*, KDD 2019. It
    samples in training and predicts with the means, so that predictions are reproducible.

    Args:
        hidden_dim: Size of the hidden means, and of the hidden variances.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        gamma: Attention is exp(-gamma · variance); 0 weighs all neighbours alike.
        kl_weight: Weight of the divergence of the first layer's Gaussians from the standard one.
        **options: All others are those of `NodeClassificationModule`.
    """

    num_input_hops = 1

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 16,
        dropout: float = 0.6,
        gamma: float = 1.0,
        kl_weight: float = 5e-4,
        **options: Any,
    ) -> None:
        super().__init__(num_features, num_classes, **options)
        require_in("[0, inf)", kl_weight=kl_weight)
        self.kl_weight = kl_weight
        self.net = RobustGCN(num_features, hidden_dim, num_classes, dropout, gamma)

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """Cross entropy of the sampled output, and the divergence of the first layer."""
        logits, kl = self.net.forward_with_kl(batch.x, batch.adj_norm)
        loss: Tensor = cross_entropy(logits[batch.train_index], batch.train_y) + self.kl_weight * kl
        return loss


class SGCModule(SupervisedModule):
    """SGC: logistic regression on propagated attributes (Wu et al. 2019, arXiv:1902.07153).

    Args:
        num_steps: Number of propagation steps K; 0 gives logistic regression.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W‖², on the weights.
        **options: All others are those of `NodeClassificationModule`.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        num_steps: int = 2,
        lr: float = 0.2,
        weight_decay: WeightDecay = 1.3e-5,
        **options: Any,
    ) -> None:
        super().__init__(num_features, num_classes, lr=lr, weight_decay=weight_decay, **options)
        self.num_input_hops = num_steps
        self.net = SGC(num_features, num_classes, num_steps)


class APPNPModule(SupervisedModule):
    """APPNP: an MLP trained through propagation (Gasteiger et al. 2019, arXiv:1810.05997).

    Args:
        hidden_dim: Size of the MLP's hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        alpha: Teleport weight α in [0, 1]; 1 ignores the graph.
        num_steps: Number of propagation steps K.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        **options: All others are those of `NodeClassificationModule`.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.5,
        alpha: float = 0.1,
        num_steps: int = 10,
        weight_decay: WeightDecay = 0.005,
        **options: Any,
    ) -> None:
        super().__init__(num_features, num_classes, weight_decay=weight_decay, **options)
        self.net = APPNP(num_features, hidden_dim, num_classes, dropout, alpha, num_steps)

    def decayed_parameters(self) -> list[nn.Parameter]:
        """W₁ of the MLP."""
        return [self.net.mlp.input.weight]

    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """Softmax of the propagated output, and the MLP's own output."""
        alone = batch.outputs(self.net.mlp)
        propagated = self.net.propagate(alone, batch.adj_norm)
        return Prediction(torch.softmax(propagated, dim=-1), alone)
