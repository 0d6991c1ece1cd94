"""TensorBoard content beyond the metrics."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor
from torchmetrics.functional.classification import multiclass_confusion_matrix

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.methods.base import CALIBRATION_BINS, NodeClassificationModule
from pamt_lightning.methods.pamt import PAMTModule
from pamt_lightning.plots import confusion_image, plots_available, reliability_image

_MAX_WEIGHTS = 20_000  # of a larger graph, every k-th edge is shown
_BINS = 50


class TensorBoardMonitor(Callback):
    """Speed, mask weights, change of the soft labels; confusion and reliability of the test.

    Does nothing with other loggers. The two images need the extra `plots`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._since = (0.0, 0)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._since = (time.monotonic(), trainer.current_epoch)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: GraphBatch, batch_idx: int
    ) -> None:
        """Show the newest refresh once; this hook comes right after it."""
        board = _board(trainer)
        if board is None or not isinstance(pl_module, PAMTModule):
            return
        report, pl_module.refresh_report = pl_module.refresh_report, None
        if report is None:
            return
        board.add_scalar("soft_label_change", report.change, report.epoch)
        if pl_module.mask:
            weights = mask_weights(report.adj_mask, batch.adj_norm)
            add_histogram(board, "mask_weights", weights, report.epoch)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show the epochs per second since the last time."""
        board = _board(trainer)
        if board is None or not isinstance(pl_module, NodeClassificationModule):
            return
        epoch = trainer.current_epoch + 1
        if epoch % pl_module.log_every_n_epochs == 0:
            (then, since), now = self._since, time.monotonic()
            board.add_scalar("epochs_per_second", (epoch - since) / (now - then), epoch)
            self._since = (now, epoch)

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: GraphBatch,
        *_: Any,
    ) -> None:
        """Draw the confusion matrix and the reliability of the test prediction."""
        board = _board(trainer)
        if board is None or not isinstance(pl_module, NodeClassificationModule):
            return
        if pl_module.test_output is None or not plots_available():
            return
        probs, target = pl_module.test_output
        names = batch.graph.class_names
        matrix = multiclass_confusion_matrix(probs, target, probs.shape[1]).cpu().numpy()
        confidence, predicted = probs.max(1)
        reliability = reliability_image(
            confidence.cpu().numpy(), (predicted == target).cpu().numpy(), CALIBRATION_BINS
        )
        epoch = trainer.current_epoch
        board.add_image("test/confusion", confusion_image(matrix, names), epoch, dataformats="HWC")
        board.add_image("test/reliability", reliability, epoch, dataformats="HWC")
        board.flush()


def mask_weights(
    adj_mask: SparseOperator, adj_norm: SparseOperator, most: int = _MAX_WEIGHTS
) -> Tensor:
    """The share of its weight that each edge keeps under the mask, once per edge.

    Of a graph with more than ``most`` edges, every k-th entry counts.
    """
    entries = len(adj_norm.values)
    step = max(1, entries // (2 * most))  # an edge is stored twice
    places = torch.arange(0, entries, step, device=adj_norm.device)
    rows = torch.searchsorted(adj_norm.crow.long(), places, right=True) - 1
    once = rows + adj_norm.rows.first < adj_norm.col[::step]
    return (adj_mask.values[::step] / adj_norm.values[::step])[once]


def add_histogram(board: Any, tag: str, values: Tensor, step: int) -> None:
    """Add a histogram of values; none if there are no values.

    TensorBoard's own function multiplies with NumPy, whose threads then wait actively: on two cores
    the next two epochs of Pubmed took twice as long.
    """
    if not len(values):
        return
    values = values.detach().double().cpu()
    low, high = float(values.min()), float(values.max())
    equal = high - low < 1e-6 * max(1.0, abs(high))  # too close for separate bins
    limits = (low - 0.5, high + 0.5) if equal else (low, high)
    counts, edges = np.histogram(values.numpy(), _BINS, limits)
    board.add_histogram_raw(
        tag,
        min=low,
        max=high,
        num=len(values),
        sum=float(values.sum()),
        sum_squares=float(values.square().sum()),
        bucket_limits=edges.tolist(),
        bucket_counts=[0, *counts.tolist()],  # none below the lowest
        global_step=step,
    )


def _board(trainer: pl.Trainer) -> Any:
    """TensorBoard's writer, or None."""
    if isinstance(trainer.logger, TensorBoardLogger) and trainer.is_global_zero:
        return trainer.logger.experiment
    return None
