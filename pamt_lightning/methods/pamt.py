"""PAMT: propagation with an adaptive mask, then training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from pamt_lightning.errors import InputError
from pamt_lightning.functional import (
    adaptive_gamma,
    blend_soft_labels,
    edge_similarity,
    mask_adjacency,
    mask_representation,
    renormalize_mask,
    row_softmax,
)
from pamt_lightning.functional.mask import MaskNormalization, Representation
from pamt_lightning.graph import Graph
from pamt_lightning.methods.base import require_count, require_range
from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood
from pamt_lightning.methods.prepared import Prediction, Prepared
from pamt_lightning.methods.soft_labels import SoftLabelModule, StoppingLoss

# What `inference` may be; `auto` chooses among these, and the first of equals wins.
INFERENCES = ("structure", "mask", "network")
Inference = Literal["structure", "mask", "network", "auto"]


@dataclass(frozen=True)
class RefreshReport:
    """What the newest refresh of the soft labels did, for those who watch the training.

    Attributes:
        epoch: The epoch t it happened in; 0 for the first soft labels.
        adj_mask: The matrix A_p the labels were propagated over.
        change: Mean absolute change of a node's soft-label row.
    """

    epoch: int
    adj_mask: Tensor
    change: float


class PAMTModule(SoftLabelModule):
    """Propagation with Adaptive Mask then Training (Chen, Li, He and He).

    An MLP is trained on soft labels that are propagated over the graph, each edge weighted by how
    alike its two ends look to the MLP itself; every ``refresh_interval`` epochs the mask and the
    soft labels are made anew from the MLP as it is then. Equation numbers are the paper's.

    Args:
        num_features: Number of attributes; the command line fills it in from the data.
        num_classes: Number of classes; the command line fills it in from the data.
        hidden_dim: Size of the MLP's hidden layer.
        dropout: Dropout rate, on the attributes and on the hidden layer.
        lr: Learning rate of Adam, in pretraining and training.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖², on the first layer's weights only.
        alpha: Teleport weight α in [0, 1] of every propagation; 1 ignores the graph.
        num_steps: Number of propagation steps K.
        momentum: β in [0, 1): share of the old soft labels that a refresh keeps (Eq. 11).
        refresh_interval: t_u: soft labels are refreshed in epochs t with t mod t_u = 0; 0 = never.
        loss_weight: λ, the weight of the soft-label cross entropy (Eq. 10) beside the L2 term.
        pretrain_epochs: Epochs on the labelled nodes alone before the first mask; 0 leaves the MLP
            at random (the paper's PAMT_r). Without a mask there is no pretraining.
        pretrain_weight_decay: The L2 term during pretraining.
        mask: Whether edges are weighted at all; off, labels are propagated over Â, and without
            refresh this is PTS, to the bit if the other values are those of PTS.
        mask_from: First epoch with a mask; until then f_θ learns from labels propagated over Â,
            which takes the place of pretraining. 0 is the paper's way: pretrain, then mask.
        representation: What H in Eq. 5 is: the MLP's probabilities, these with rows of length one,
            or its raw output.
        mask_temperature: Divides the MLP's output before the mask's softmax; above 1 softens it.
        mask_floor: No edge falls below this share of its weight; 0 is the paper's Eq. 7.
        mask_normalization: Whether A_p is renormalised: ``none`` (as written), ``row`` or ``sym``.
        reset_labelled: Whether labelled nodes go back to their one-hot rows after every step of the
            propagation, as in the PT method.
        adaptive_weighting: PTA's loss weights softmax(f)^γ with γ = ln(1 + t / 100).
        inference: What the prediction is propagated over: ``structure`` (Â, Eq. 4), ``mask`` (A_p
            of the trained MLP), ``network`` (nothing: the MLP alone), or ``auto``: whichever of
            these is best on the stopping set at each validation, from the first mask on; the choice
            is kept with the state.
        stopping_loss: ``nll`` (negative log likelihood of the propagated prediction) or ``soft``
            (PT's: the MLP against labels propagated from the stopping set).
        log_every_n_epochs: How often training figures go to the logger.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_dim: int = 128,
        dropout: float = 0.2,
        lr: float = 0.05,
        weight_decay: float = 0.025,
        alpha: float = 0.1,
        num_steps: int = 10,
        momentum: float = 0.5,
        refresh_interval: int = 30,
        loss_weight: float = 0.05,
        pretrain_epochs: int = 100,
        pretrain_weight_decay: float = 0.005,
        mask: bool = True,
        mask_from: int = 0,
        representation: Representation = "cosine",
        mask_temperature: float = 1.0,
        mask_floor: float = 0.0,
        mask_normalization: MaskNormalization = "none",
        reset_labelled: bool = True,
        adaptive_weighting: bool = False,
        inference: Inference = "structure",
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
        require_range("momentum", momentum, 0.0, 1.0, open_high=True)
        require_range("mask_floor", mask_floor, 0.0, 1.0)
        require_range("pretrain_weight_decay", pretrain_weight_decay, 0.0, float("inf"))
        require_count(
            refresh_interval=refresh_interval, pretrain_epochs=pretrain_epochs, mask_from=mask_from
        )
        if mask_from and not refresh_interval:
            raise InputError(
                f"`mask_from`={mask_from} needs a `refresh_interval` of 1 or more, got 0: else no "
                "mask would ever be made."
            )
        if not mask_temperature > 0:
            raise InputError(f"`mask_temperature` must be greater than 0, got {mask_temperature}.")
        if representation == "logits" and mask_normalization != "none":
            raise InputError(
                "`representation`='logits' gives negative weights, which only "
                f"`mask_normalization`='none' accepts, got {mask_normalization!r}."
            )
        for name, value, choices in (
            ("representation", representation, ("softmax", "cosine", "logits")),
            ("mask_normalization", mask_normalization, ("none", "row", "sym")),
            ("inference", inference, (*INFERENCES, "auto")),
        ):
            if value not in choices:
                raise InputError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}.")
        if representation == "logits" and inference in ("mask", "auto"):
            raise InputError(
                "`representation`='logits' gives negative weights, which no prediction can be "
                "propagated over: use `inference`='structure'."
            )
        self.save_hyperparameters()
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
        # A buffer, so that the best state remembers its choice; else none, and none is saved.
        self.inference_choice: Tensor
        self.register_buffer("inference_choice", torch.tensor(0), persistent=inference == "auto")
        self.refresh_report: RefreshReport | None = None

    @property
    def method(self) -> str:
        """``PAMT``, or the name the paper gives to it with one part taken away."""
        without = {
            "PAMT_r": self.pretrain_epochs == 0,
            "PAMT_0": self.refresh_interval == 0,
            "PAMT_1": self.momentum == 0.0 and self.refresh_interval > 0,
        }
        names = [name for name, is_so in without.items() if is_so]
        return names[0] if self.mask and len(names) == 1 else "PAMT"

    @property
    def propagations_per_epoch(self) -> int:
        """How often a validation propagates."""
        return {"network": 0, "auto": 2}.get(self.inference, 1)

    @property
    def refreshes_per_epoch(self) -> float:
        """One in t_u epochs."""
        return 1.0 / self.refresh_interval if self.refresh_interval else 0.0

    # Life cycle --------------------------------------------------------------------------------

    def make_soft_labels(self, data: Prepared) -> None:
        """Pretrain f_θ on the labelled nodes and make the first soft labels (steps 1 to 3)."""
        if self.mask and not self.mask_from:  # pretraining is for the first mask
            self.pretrain(data)
            data.share.spread(list(self.parameters()))
        self.refresh(data, epoch=0)

    def on_train_epoch_start(self) -> None:
        """Refresh mask and soft labels in every epoch t = 1, 2, ... with t mod t_u = 0 (step 4)."""
        epoch = self.current_epoch + 1
        since = epoch - self.mask_from
        is_due = self.refresh_interval and since >= 0 and since % self.refresh_interval == 0
        if is_due and self._prepared:
            self.refresh(self._prepared, epoch)

    def pretrain(self, data: Prepared) -> None:
        """Train f_θ with cross entropy on the labelled nodes alone, with an Adam of its own."""
        if self.pretrain_epochs == 0:
            return
        x, target = data.train_x, data.train_y
        optimizer = self.make_optimizer(self.pretrain_weight_decay)
        self.net.train()
        epochs = tqdm(
            range(self.pretrain_epochs), "pretraining", leave=False, disable=None, delay=1.0
        )
        for _ in epochs:
            optimizer.zero_grad()
            cross_entropy(self.net(x), target).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        self.zero_grad()

    @torch.no_grad()
    def refresh(self, data: Prepared, epoch: int) -> None:
        """Make mask and soft labels anew from f_θ as it is now (Eq. 5 to 8), and blend (Eq. 11)."""
        adj_mask = data.adj_norm if epoch < self.mask_from else self.masked_adjacency(data)
        new = self.propagated_labels(adj_mask, data)
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
    def masked_adjacency(self, data: Prepared) -> Tensor:
        """A_p of f_θ as it is now, or Â if the mask is off (Eq. 5 to 7)."""
        if not self.mask:
            return data.adj_norm
        return self._mask_of(self._eval_logits(data), data)

    @torch.no_grad()
    def mask_similarity(self, graph: Graph) -> Tensor:
        """A_s of f_θ as it is now at the stored entries of the adjacency (Eq. 5 and 6)."""
        h = self._representation(self._eval_logits(self.prepare(graph)))
        return edge_similarity(graph.adjacency, h)

    def _eval_logits(self, data: Prepared) -> Tensor:
        was_training = self.net.training
        self.net.eval()
        logits = data.outputs(self.net)
        self.net.train(was_training)
        return logits

    def _representation(self, logits: Tensor) -> Tensor:
        return mask_representation(logits, self.representation, self.mask_temperature)

    def _mask_of(self, logits: Tensor, data: Prepared) -> Tensor:
        if not self.mask:
            return data.adj_norm
        h = self._representation(logits)
        share = data.share
        adj_mask = mask_adjacency(data.adj_norm, h, floor=self.mask_floor, first=share.first)
        return renormalize_mask(adj_mask, self.mask_normalization, share)

    # The method --------------------------------------------------------------------------------

    def gamma(self) -> float:
        """PTA's exponent if ``adaptive_weighting`` is on."""
        return adaptive_gamma(self.current_epoch) if self.adaptive_weighting else 0.0

    def predict_from(self, logits: Tensor, data: Prepared) -> Tensor:
        """Class probabilities out of f_θ(X); see ``inference``."""
        if self.inference == "auto":
            return self._predict_by(INFERENCES[int(self.inference_choice)], logits, data)
        return self._predict_by(self.inference, logits, data)

    def predict_for_stopping(self, data: Prepared) -> Prediction:
        """With ``inference`` auto, choose by the accuracy on the stopping set, then by its loss."""
        if self.inference != "auto":
            return super().predict_for_stopping(data)
        logits, y, index = data.outputs(self.net), data.graph.y, data.graph.val_index
        # Before the first mask there is nothing to choose.
        ways = INFERENCES if self.current_epoch + 1 >= self.mask_from else INFERENCES[:1]
        best: tuple[float, float] | None = None
        for number, way in enumerate(ways):
            probs = self._predict_by(way, logits, data)
            loss = float(negative_log_likelihood(probs, y, index))
            score = (float(accuracy(probs, y, index)), -loss)
            if best is None or score > best:
                best, chosen = score, Prediction(probs, logits)
                self.inference_choice.fill_(number)
        return chosen

    def _predict_by(self, way: str, logits: Tensor, data: Prepared) -> Tensor:
        if way == "network":
            return row_softmax(logits)
        adj = data.adj_norm if way == "structure" else self._mask_of(logits, data)
        return self.propagated_prediction(logits, adj, data)
