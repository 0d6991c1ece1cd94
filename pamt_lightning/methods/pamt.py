"""PAMT: propagation with an adaptive mask, then training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import InputError, require_in, require_one_of
from pamt_lightning.functional import (
    adaptive_gamma,
    blend_soft_labels,
    mask_adjacency,
    mask_representation,
    renormalize_mask,
)
from pamt_lightning.functional.mask import MaskNormalization, Representation
from pamt_lightning.kernels.columns import row_softmax
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.methods.base import Prediction, WeightDecay
from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood
from pamt_lightning.methods.soft_labels import SoftLabelModule

# The values of `inference`; `auto` chooses among these, and the first of equals wins.
INFERENCES = ("structure", "mask", "network")
Inference = Literal["structure", "mask", "network", "auto"]


@dataclass(frozen=True)
class RefreshReport:
    """The newest refresh of the soft labels, for monitoring."""

    epoch: int  # 0 for the first soft labels
    adj_mask: SparseOperator  # A_p, over which the labels were propagated
    change: float  # mean absolute change of a node's row


class PAMTModule(SoftLabelModule):
    """Propagation with Adaptive Mask then Training (Chen, Li, He and He).

    An MLP is trained on soft labels that are propagated over the graph, each edge weighted by the
    similarity of the MLP's outputs at its two ends; every ``refresh_interval`` epochs the mask and
    the soft labels are computed again from the current MLP. Equation numbers are the paper's.

    Args:
        hidden_dim: Size of the MLP's hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam, in pretraining and training.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only; of
            two values it rises from one to the other, see `NodeClassificationModule`.
        momentum: β in [0, 1): share of the old soft labels that a refresh keeps (Eq. 11).
        refresh_interval: t_u: soft labels are refreshed in epochs t with t mod t_u = 0; 0 = never.
        pretrain_epochs: Epochs on the labelled nodes alone before the first mask; 0 leaves the MLP
            untrained (the paper's PAMT_r). Without a mask there is no pretraining.
        pretrain_weight_decay: The L2 term during pretraining.
        mask: Whether edges are weighted at all; off, labels are propagated over Â, and without
            refresh this is PTS, to the bit if the other values are those of PTS.
        mask_from: First epoch with a mask; until then f_θ learns from labels propagated over Â,
            which replaces the pretraining. 0 is the paper's procedure: pretrain, then mask.
        representation: What H in Eq. 5 is: the MLP's probabilities, these with rows of length one,
            or its raw output.
        mask_temperature: Divides the MLP's output before the mask's softmax; above 1 softens it.
        mask_floor: No edge falls below this share of its weight; 0 is the paper's Eq. 7.
        mask_normalization: Whether A_p is renormalised: ``none`` (as written), ``row`` or ``sym``.
        adaptive_weighting: PTA's loss weights softmax(f)^γ with γ = ln(1 + t / 100).
        inference: What the prediction is propagated over: ``structure`` (Â, Eq. 4), ``mask`` (A_p
            of the trained MLP), ``network`` (nothing: the MLP alone), or ``auto``: whichever of
            these is best on the validation nodes at each validation, from the first mask on; the
            choice is saved with the state.
        **options: All others are those of `SoftLabelModule`.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 128,
        dropout: float = 0.2,
        lr: float = 0.05,
        weight_decay: WeightDecay = (2e-4, 1e-2),
        momentum: float = 0.5,
        refresh_interval: int = 30,
        pretrain_epochs: int = 100,
        pretrain_weight_decay: float = 0.005,
        mask: bool = True,
        mask_from: int = 0,
        representation: Representation = "softmax",
        mask_temperature: float = 1.0,
        mask_floor: float = 0.0,
        mask_normalization: MaskNormalization = "none",
        adaptive_weighting: bool = False,
        inference: Inference = "structure",
        **options: Any,
    ) -> None:
        super().__init__(
            num_features, num_classes, hidden_dim, dropout, lr, weight_decay, **options
        )
        require_in("[0, 1)", momentum=momentum)
        require_in("[0, 1]", mask_floor=mask_floor)
        require_in("(0, inf)", mask_temperature=mask_temperature)
        require_in("[0, inf)", refresh_interval=refresh_interval, mask_from=mask_from)
        require_in(
            "[0, inf)", pretrain_epochs=pretrain_epochs, pretrain_weight_decay=pretrain_weight_decay
        )
        require_one_of(get_args(Representation), representation=representation)
        require_one_of(get_args(MaskNormalization), mask_normalization=mask_normalization)
        require_one_of(get_args(Inference), inference=inference)
        if mask_from and not refresh_interval:
            raise InputError(
                f"`mask_from`={mask_from} needs a `refresh_interval` of 1 or more, got 0: without "
                "it there would never be a mask."
            )
        if representation == "logits" and (
            mask_normalization != "none" or inference in ("mask", "auto")
        ):
            raise InputError(
                "`representation`='logits' gives negative weights, which need "
                "`mask_normalization`='none' and `inference`='structure' or 'network', "
                f"got {mask_normalization!r} and {inference!r}."
            )
        self.momentum = momentum
        self.refresh_interval = refresh_interval
        self.pretrain_epochs = pretrain_epochs
        self.pretrain_weight_decay = pretrain_weight_decay
        self.mask = mask
        self.mask_from = mask_from
        self.representation: Representation = representation
        self.mask_temperature = mask_temperature
        self.mask_floor = mask_floor
        self.mask_normalization: MaskNormalization = mask_normalization
        self.adaptive_weighting = adaptive_weighting
        self.inference: Inference = inference
        # A buffer, so that the best state includes its choice; saved for `auto` only.
        self.inference_choice: Tensor
        self.register_buffer("inference_choice", torch.tensor(0), persistent=inference == "auto")
        self.refresh_report: RefreshReport | None = None

    # Life cycle --------------------------------------------------------------------------------

    def make_soft_labels(self, batch: GraphBatch) -> None:
        """Pretrain f_θ on the labelled nodes and make the first soft labels (steps 1 to 3)."""
        if self.mask and not self.mask_from:  # only the first mask needs the pretraining
            self.pretrain(batch)
            batch.rows.broadcast(self.parameters())
        self.refresh(batch, epoch=0)

    def on_train_epoch_start(self) -> None:
        """Refresh mask and soft labels in every epoch t = 1, 2, ... with t mod t_u = 0 (step 4)."""
        super().on_train_epoch_start()
        epoch = self.current_epoch + 1
        since = epoch - self.mask_from
        if self.refresh_interval and since >= 0 and since % self.refresh_interval == 0:
            self.refresh(self.fit_batch, epoch)

    def pretrain(self, batch: GraphBatch) -> None:
        """Train f_θ with cross entropy on the labelled nodes alone, with an Adam of its own."""
        if self.pretrain_epochs == 0:
            return
        x, target = batch.train_x, batch.train_y
        optimizer = self.make_optimizer(self.pretrain_weight_decay)
        self.net.train()
        epochs = range(self.pretrain_epochs)
        for _ in tqdm(epochs, "pretraining", leave=False, disable=None, delay=1.0):
            optimizer.zero_grad()
            cross_entropy(self.net(x), target).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        self.zero_grad()

    @torch.no_grad()
    def refresh(self, batch: GraphBatch, epoch: int) -> None:
        """Compute mask and soft labels from the current f_θ (Eq. 5 to 8), and blend (Eq. 11)."""
        masked = epoch >= self.mask_from
        adj_mask = self.masked_adjacency(batch) if masked else batch.adj_norm
        new = self.propagated_labels(adj_mask, batch)
        old = self.soft_labels
        self.soft_labels = new if old is None else blend_soft_labels(old, new, self.momentum)
        change = self.soft_labels if old is None else self.soft_labels - old
        mean_change = float(change.abs().sum(1).mean())
        if not math.isfinite(mean_change):
            raise InputError(
                f"Training diverged: the soft labels of epoch {epoch} are not finite. "
                f"Lower `lr` (now {self.lr})."
            )
        self.refresh_report = RefreshReport(epoch, adj_mask, mean_change)

    @torch.no_grad()
    def masked_adjacency(self, batch: GraphBatch, logits: Tensor | None = None) -> SparseOperator:
        """A_p of the current f_θ (Eq. 5 to 7), or Â if the mask is off; see `representation_of`."""
        if not self.mask:
            return batch.adj_norm
        h = self.representation_of(batch, logits)
        adj_mask = mask_adjacency(batch.adj_norm, h, floor=self.mask_floor)
        return renormalize_mask(adj_mask, self.mask_normalization)

    @torch.no_grad()
    def mask_similarity(self, batch: GraphBatch) -> Tensor:
        """A_s of the current f_θ at the stored entries of the adjacency (Eq. 5 and 6)."""
        h = self.representation_of(batch)
        return SparseOperator.from_csr(batch.graph.adjacency).sample(h)

    def representation_of(self, batch: GraphBatch, logits: Tensor | None = None) -> Tensor:
        """H (Eq. 5) of the current f_θ without dropout, from its logits if they are known."""
        if logits is None:
            was_training = self.net.training
            self.net.eval()
            logits = batch.outputs(self.net)
            self.net.train(was_training)
        return mask_representation(logits, self.representation, self.mask_temperature)

    # The method --------------------------------------------------------------------------------

    def gamma(self) -> float:
        """PTA's exponent if ``adaptive_weighting`` is on."""
        return adaptive_gamma(self.current_epoch) if self.adaptive_weighting else 0.0

    @property
    def chosen(self) -> str:
        """The form of the prediction; with ``inference`` auto, the one of the last validation."""
        auto = self.inference == "auto"
        return INFERENCES[int(self.inference_choice)] if auto else self.inference

    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """Class probabilities; see ``inference``."""
        logits = batch.outputs(self.net)
        return Prediction(self.predict_by(self.chosen, logits, batch), logits)

    def predict_by(self, inference: str, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Class probabilities from f_θ(X) with one of the values of ``inference``."""
        if inference == "network":
            return row_softmax(logits)
        structure = inference == "structure"
        adj = batch.adj_norm if structure else self.masked_adjacency(batch, logits)
        return self.propagated_prediction(logits, adj)

    def predict_for_validation(self, batch: GraphBatch) -> Prediction:
        """With ``inference`` auto, choose by the accuracy on the validation nodes, then by loss."""
        if self.inference != "auto":
            return super().predict_for_validation(batch)
        logits = batch.outputs(self.net)
        # Before the first mask there is nothing to choose.
        count = len(INFERENCES) if self.current_epoch + 1 >= self.mask_from else 1
        candidates = (
            (number, Prediction(self.predict_by(INFERENCES[number], logits, batch), logits))
            for number in range(count)
        )
        return self.choose(batch, candidates)

    def report(self) -> dict[str, Any]:
        """What the prediction is propagated over, if the method chose it."""
        return {"inference": self.chosen} if self.inference == "auto" else {}

    def choose(self, batch: GraphBatch, candidates: Iterable[tuple[int, Prediction]]) -> Prediction:
        """The best of several predictions on the validation nodes; the first of equals.

        Each comes with the number that `inference_choice` gets if it wins.
        """
        y, index = batch.graph.y, batch.graph.val_index
        best: tuple[float, float] | None = None
        for number, prediction in candidates:
            loss = float(negative_log_likelihood(prediction.probs, y, index))
            score = (float(accuracy(prediction.probs, y, index)), -loss)
            if best is None or score > best:
                best, chosen = score, prediction
                self.inference_choice.fill_(number)
        return chosen
