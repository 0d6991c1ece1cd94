"""Dropout whose random numbers are cheap, and the same however the work is divided."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_LEVELS = 1 << 16  # of a random number of 16 bits


def dropout(x: Tensor, rate: float, training: bool, first: int = 0) -> Tensor:
    """Set a share ``rate`` of the entries to zero and scale the others up, in training only.

    One random number of 64 bits serves four entries, so the rate is a multiple of 2^-16, and the
    scale is the exact one of that rate. On a CPU torch's own generator would take seven times as
    long for them as NumPy's PCG64, which can also skip what belongs to others.

    Args:
        x: Entries; a part of a larger whole if ``first`` is not 0.
        rate: Share of entries that are set to zero, in [0, 1).
        training: Whether anything is done at all.
        first: Position of the first entry of ``x`` in the whole. Every process that has a part
            must call this with the same state of torch's generator, of which one number is taken;
            on CPUs they then drop together what one process would.
    """
    if not training or rate == 0.0:
        return x
    dropped = min(round(rate * _LEVELS), _LEVELS - 1)
    draws = _random_bits(x.numel(), first, x.device).view(x.shape)
    kept = draws >= dropped - _LEVELS // 2
    return x * kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))


def _random_bits(count: int, first: int, device: torch.device) -> Tensor:
    """16 random bits for each of ``count`` entries, the first of which has the number ``first``."""
    skipped, inside = divmod(first, 4)
    size = max(1, (inside + count + 3) // 4)
    seed = int(torch.randint(torch.iinfo(torch.int64).max, ()))
    if device.type == "cpu":
        stream = np.random.PCG64(seed)
        stream.advance(skipped)
        bits = torch.from_numpy(stream.random_raw(size).view(np.int64))
    else:
        generator = torch.Generator(device).manual_seed(seed + skipped)
        bits = torch.empty(size, dtype=torch.int64, device=device)
        bits.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    return bits.view(torch.int16)[inside : inside + count]
