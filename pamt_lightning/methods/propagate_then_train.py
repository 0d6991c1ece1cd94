"""Propagate labels, then train: PTS, PTD and PTA, on which PAMT builds."""

from __future__ import annotations

from typing import Any

from pamt_lightning.functional import adaptive_gamma
from pamt_lightning.methods.soft_labels import SoftLabelModule, StoppingLoss


class PTSModule(SoftLabelModule):
    """PTS: an MLP on labels that are propagated over Â once (Dong et al. 2021, arXiv:2010.12408).

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the MLP's hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        alpha: Teleport weight α in [0, 1] of every propagation; 1 ignores the graph.
        num_steps: Number of propagation steps K.
        loss_weight: λ, the weight of the soft-label cross entropy beside the L2 term.
        reset_labelled: Whether labelled nodes are reset to their one-hot rows after every step of
            the propagation.
        stopping_loss: ``nll`` (negative log likelihood of the propagated prediction) or ``soft``
            (the authors': the MLP against labels propagated from the validation nodes).
        log_every_n_epochs: How often metrics go to the loggers.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 64,
        dropout: float = 0.0,
        lr: float = 0.1,
        weight_decay: float = 0.005,
        alpha: float = 0.1,
        num_steps: int = 10,
        loss_weight: float = 0.05,
        reset_labelled: bool = True,
        stopping_loss: StoppingLoss = "nll",
        log_every_n_epochs: int = 10,
    ) -> None:
        super().__init__(
            num_features=num_features,
            num_classes=num_classes,
            hidden_dim=hidden_dim,
            dropout=dropout,
            lr=lr,
            weight_decay=weight_decay,
            alpha=alpha,
            num_steps=num_steps,
            loss_weight=loss_weight,
            reset_labelled=reset_labelled,
            stopping_loss=stopping_loss,
            log_every_n_epochs=log_every_n_epochs,
        )
        self.save_hyperparameters()


class PTDModule(PTSModule):
    """PTD: PTS with each label weighted by the MLP's own probability of it (γ = 1).

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        loss_weight: λ, the weight of the soft-label cross entropy beside the L2 term.
        **options: All others are those of `PTSModule`.
    """

    def __init__(
        self, num_features: int, num_classes: int, *, loss_weight: float = 10.0, **options: Any
    ) -> None:
        super().__init__(num_features, num_classes, loss_weight=loss_weight, **options)

    def gamma(self) -> float:
        """1: the weights are the MLP's probabilities."""
        return 1.0


class PTAModule(PTSModule):
    """PTA: PTS with weights softmax(f)^γ, where γ = ln(1 + t / 100) grows with the epoch t."""

    def gamma(self) -> float:
        """0 in the first epoch, as in PTS."""
        return adaptive_gamma(self.current_epoch)
