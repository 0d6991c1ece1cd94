"""Times measured side by side: what is compared takes turns in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from tqdm import tqdm

_COPIED = 1 << 26  # numbers, 256 MB: far beyond any cache


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        what: What was measured.
        seconds: The median of each thing that was measured, by its name.
        ratio: How many times as long the second takes as the first, as the median over the rounds;
            or how many times as long as it must.
        spread: The smallest and the largest ratio of a round.
        note: What else there is to say.
        counts: Sizes that the figures depend on.
    """

    what: str
    seconds: Mapping[str, float]
    ratio: float
    spread: tuple[float, float]
    note: str = ""
    counts: Mapping[str, float] | None = None


def seconds_of(work: Callable[[], object]) -> float:
    """How long it takes, once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(
    what: str,
    works: Mapping[str, Callable[[], float]],
    rounds: int,
    note: str = "",
    counts: Mapping[str, float] | None = None,
) -> Row:
    """Let two things take turns; each says itself how many seconds it took.

    Args:
        what: Name of the comparison.
        works: Two of them. The ratio is the second's time by the first's.
        rounds: How often each is measured.
        note: For the reader.
        counts: For the record.
    """
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in tqdm(range(rounds), what, leave=False, disable=None):
        for name, work in works.items():
            taken[name].append(work())
    first, second = taken.values()
    ratios = [b / a for a, b in zip(first, second, strict=True)]
    medians = {name: statistics.median(times) for name, times in taken.items()}
    spread = (min(ratios), max(ratios))
    return Row(what, medians, statistics.median(ratios), spread, note, counts)


def against_bound(
    what: str,
    work: Callable[[], object],
    num_bytes: float,
    rounds: int,
    note: str = "",
    counts: Mapping[str, float] | None = None,
) -> Row:
    """Compare work with the time its bytes take at the rate of a copy, measured in turns with it.

    Args:
        what: Name of the comparison.
        work: What is measured.
        num_bytes: Bytes that must be read or written.
        rounds: How often each is measured.
        note: For the reader.
        counts: For the record.
    """
    source, target = torch.rand(_COPIED), torch.empty(_COPIED)
    work()
    target.copy_(source)

    def bound() -> float:
        moved = 2 * source.element_size() * _COPIED
        return seconds_of(lambda: target.copy_(source)) * num_bytes / moved

    works = {"its bytes": bound, "measured": lambda: seconds_of(work)}
    sizes = {**(counts or {}), "bytes": num_bytes}
    return compare(what, works, rounds, note, sizes)
