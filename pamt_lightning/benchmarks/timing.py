"""Times of two functions, measured alternately in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from tqdm import tqdm

COPIED = 1 << 26  # numbers in the copied tensor, 256 MB: larger than any cache


@dataclass(frozen=True)
class Row:
    """One comparison."""

    what: str
    seconds: Mapping[str, float]  # median time of each side, by its name
    ratio: float  # median over the rounds: time of the second side / time of the first
    spread: tuple[float, float]  # smallest and largest ratio of a round
    note: str = ""


def seconds_of(work: Callable[[], object], times: int = 1) -> float:
    """The mean time of a call."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def compare(
    what: str, sides: Mapping[str, Callable[[], float]], rounds: int, note: str = ""
) -> Row:
    """Measure two sides alternately; each is a function that returns the seconds it took."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in tqdm(range(rounds), what, leave=False, disable=None):
        for name, side in sides.items():
            taken[name].append(side())
    first, second = taken.values()
    ratios = [b / a for a, b in zip(first, second, strict=True)]
    medians = {name: statistics.median(times) for name, times in taken.items()}
    return Row(what, medians, statistics.median(ratios), (min(ratios), max(ratios)), note)


def sides_with_copy(work: Callable[[], object], num_bytes: float) -> dict[str, Callable[[], float]]:
    """The time that a copy in memory needs for as many bytes, and the time of the work itself."""
    source, target = torch.rand(COPIED), torch.empty(COPIED)
    share = num_bytes / (2 * source.element_size() * COPIED)  # a copy reads and writes
    work()  # the first call is slower
    target.copy_(source)
    return {
        "its bytes": lambda: share * seconds_of(lambda: target.copy_(source)),
        "measured": lambda: seconds_of(work),
    }
