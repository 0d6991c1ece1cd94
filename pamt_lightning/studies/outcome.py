"""The result of one run of a study, as tables, figures and statistics see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

TEST_NODES = "test nodes"
Value = str | int | float | bool | None


class Cell(NamedTuple):
    """What is averaged over: one method on one data set, at one value of a swept option.

    Attributes:
        dataset: Name of the data set.
        method: Name of the method.
        option: The swept option, such as ``data.structure_noise``; none outside a sweep.
        value: Its value.
    """

    dataset: str
    method: str
    option: str | None = None
    value: Value = None


@dataclass(frozen=True)
class Outcome:
    """The result of one run.

    Attributes:
        run_id: Hash of its configuration, data and results version.
        cell: The cell it counts for.
        split_seed: The split, by number or by the name of a published seed.
        init_seed: The initialisation.
        metrics: Its metrics by name, accuracies as shares in [0, 1]; empty if it failed.
        error: Why it failed; none if it finished.
        tested_on: The nodes of its test accuracy; other than test nodes with validation seeds.
        chosen: The inference that the method chose by itself; none for other methods.
        other_version: Whether it was computed under another results version.
    """

    run_id: str
    cell: Cell
    split_seed: str
    init_seed: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    tested_on: str = TEST_NODES
    chosen: str | None = None
    other_version: bool = False


def by_split(outcomes: Iterable[Outcome], cell: Cell, metric: str) -> dict[str, float]:
    """A metric of one cell for each split, averaged over its initialisations.

    The split is the unit that is drawn at random; initialisations of one split are not independent
    of each other, so they count as one.
    """
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        if outcome.cell == cell and outcome.error is None and metric in outcome.metrics:
            found.setdefault(outcome.split_seed, []).append(outcome.metrics[metric])
    return {split: sum(values) / len(values) for split, values in found.items()}
