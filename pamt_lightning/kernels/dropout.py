"""Dropout with cheap random numbers that do not depend on how the work is divided."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

_LEVELS = 1 << 16  # of a random number of 16 bits

# Every draw reads a stretch of this stream of 2^128 numbers: to set up a generator takes as long as
# to draw from it. The stride is no power of two, because such stretches are correlated.
_STREAM = np.random.PCG64(0)
_START = _STREAM.state
_STRIDE = 0x9E3779B97F4A7C15F39CC0605CEDC835
_ONE_AT_A_TIME = Lock()


def dropout(x: Tensor, rate: float, training: bool, first: int = 0) -> Tensor:
    """Set a share ``rate`` of the entries to zero and scale the others up, in training only.

    One random number of 64 bits serves four entries, so the rate is rounded to a multiple of 2^-16,
    and the scale is that of the rounded rate. On a CPU torch's own generator takes seven times as
    long as NumPy's PCG64, which can also skip the entries of other processes: those that hold a
    part of a larger whole, whose first entry has the number ``first``, drop together what one
    process would drop if torch's generator, from which one number is drawn, is in the same state.
    """
    if not training or rate == 0.0:
        return x
    kept, scale = draw_kept(x, rate, first)
    kept.mul_(scale)
    return x * kept if x.requires_grad else kept.mul_(x)


def relu_dropout(x: Tensor, rate: float, training: bool, first: int = 0) -> tuple[Tensor, float]:
    """``dropout(relu(x))`` in two passes over the entries instead of six; ``x`` is overwritten.

    The second result is the factor by which the caller must scale the first up; the weights of the
    next linear map can absorb it.
    """
    if not training or rate == 0.0:
        return x.relu_(), 1.0
    kept, scale = draw_kept(x, rate, first)
    kept_and_positive: Tensor = _ReluMask.apply(x, kept)  # type: ignore[no-untyped-call]
    return kept_and_positive, scale


class _ReluMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        x.relu_().mul_(mask)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grads[0], result, 0), None


def draw_kept(
    x: Tensor, rate: float, first: int, dtype: torch.dtype | None = None
) -> tuple[Tensor, float]:
    """Ones where `dropout` keeps an entry and zeros elsewhere, and the factor that scales it."""
    dropped = min(round(rate * _LEVELS), _LEVELS - 1)
    bits = _random_bits(x.numel(), first, x.device).view(x.shape)
    kept = torch.empty_like(x, dtype=dtype or x.dtype, requires_grad=False)
    torch.ge(bits, dropped - _LEVELS // 2, out=kept)
    return kept, _LEVELS / (_LEVELS - dropped)


def _random_bits(count: int, first: int, device: torch.device) -> Tensor:
    """16 random bits for each of ``count`` entries, the first of which has the number ``first``."""
    skipped, inside = divmod(first, 4)
    size = max(1, (inside + count + 3) // 4)
    seed = int(torch.randint(torch.iinfo(torch.int64).max, ()))
    if device.type == "cpu":
        with _ONE_AT_A_TIME:
            _STREAM.state = _START
            _STREAM.advance(seed * _STRIDE + skipped)
            bits = torch.from_numpy(_STREAM.random_raw(size).view(np.int64))
    else:
        generator = torch.Generator(device).manual_seed(seed + skipped)
        bits = torch.empty(size, dtype=torch.int64, device=device)
        bits.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    return bits.view(torch.int16)[inside : inside + count]
