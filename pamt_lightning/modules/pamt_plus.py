"""PAMT_plus: PAMT with what the validation splits proved worth it, and one setting for all data."""

from __future__ import annotations

from typing import Any

from pamt_lightning.functional.similarity import Representation
from pamt_lightning.modules.pamt import Inference, PAMTModule


class PAMTPlusModule(PAMTModule):
    """PAMT_plus: not the paper's method, but one that grew out of it.

    The MLP first learns from labels propagated over the unmasked graph, as in PTA, and only then
    are edges masked by what it knows; its loss trusts its own answers more as training goes on
    (PTA's weights); and over what the prediction is propagated is chosen on the stopping set.

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the MLP's hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        momentum: β in [0, 1): share of the old soft labels that a refresh keeps (Eq. 11).
        refresh_interval: t_u: how often mask and soft labels are made anew.
        mask_from: First epoch with a mask.
        representation: What H in Eq. 5 is.
        adaptive_weighting: PTA's loss weights softmax(f)^γ with γ = ln(1 + t / 100).
        inference: What the prediction is propagated over; ``auto`` chooses on the stopping set.
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

    @property
    def method(self) -> str:
        """``PAMT_plus``: never to be mistaken for the paper's method."""
        return "PAMT_plus"
