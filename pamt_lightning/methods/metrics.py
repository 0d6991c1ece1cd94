"""Metrics of every epoch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import nll_loss


def accuracy(scores: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
    """Share of right answers (micro accuracy), over ``index`` if given."""
    if index is not None:
        scores, target = scores.index_select(0, index), target.index_select(0, index)
    # Not torchmetrics, whose checks cost more than the rest of the step; a test compares the two.
    return (scores.argmax(-1) == target).to(torch.float32).mean()


def negative_log_likelihood(probs: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
    """Mean negative log probability of the true class, over ``index`` if given."""
    if index is not None:
        probs, target = probs.index_select(0, index), target.index_select(0, index)
    return nll_loss(probs.clamp(min=torch.finfo(probs.dtype).tiny).log(), target)
