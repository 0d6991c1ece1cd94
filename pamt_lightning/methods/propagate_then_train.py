"""Propagate labels, then train: PTS, PTD and PTA, on which PAMT builds."""

from __future__ import annotations

from typing import Any

from pamt_lightning.functional import adaptive_gamma
from pamt_lightning.methods.soft_labels import SoftLabelModule


class PTSModule(SoftLabelModule):
    """PTS: an MLP on labels that are propagated over Â once (Dong et al. 2021, arXiv:2010.12408).

    The arguments are those of `SoftLabelModule`, with its defaults.
    """


class PTDModule(PTSModule):
    """PTD: PTS with each label weighted by the MLP's own probability of it (γ = 1).

    Args:
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
