"""Matrices with a row for each node and few columns, computed a column at a time.

A vector unit works on eight numbers or more at once. Where a row is shorter, torch's kernels for
rows leave most of it idle; with the numbers of a column next to each other they take a half to a
third of the time. The results are ordinary matrices ``[N, C]``: just their strides differ.
"""

from __future__ import annotations

import torch
from torch import Tensor

_FEW = 16  # columns from which on rows are as fast, measured for 2 to 40 columns


def few_columns(count: int, device: torch.device) -> bool:
    """Whether matrices of so many columns are better computed by column."""
    return count < _FEW and device.type == "cpu"


def by_column(x: Tensor) -> Tensor:
    """The same matrix ``[N, C]``, kept by column if they are few."""
    return x.t().contiguous().t() if few_columns(x.shape[1], x.device) else x.contiguous()


def row_softmax(x: Tensor) -> Tensor:
    """Softmax of each row of ``x``, shape ``[N, C]``."""
    if few_columns(x.shape[1], x.device):
        return torch.softmax(x.t(), dim=0).t()
    return torch.softmax(x, dim=1)


def row_log_softmax(x: Tensor) -> Tensor:
    """Logarithm of the softmax of each row of ``x``, shape ``[N, C]``."""
    if few_columns(x.shape[1], x.device):
        return torch.log_softmax(x.t(), dim=0).t()
    return torch.log_softmax(x, dim=1)


def linear_by_column(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What `torch.nn.functional.linear` gives, kept by column if there are few.

    Args:
        x: Shape ``[N, D]``.
        weight: Shape ``[C, D]``.
        bias: Shape ``[C]``.

    Returns:
        Shape ``[N, C]``.
    """
    if not few_columns(len(weight), x.device):
        return torch.nn.functional.linear(x, weight, bias)
    if bias is None:
        return (weight @ x.t()).t()
    return torch.addmm(bias.unsqueeze(1), weight, x.t()).t()
