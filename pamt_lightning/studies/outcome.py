"""The result of one run of a study, as tables, figures and statistics see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

TEST_NODES = "test nodes"
Value = str | int | float | bool | None


class Cell(NamedTuple):
    """What is averaged over: a method on a data set, in a sweep at one value of an option."""

    dataset: str
    method: str
    option: str | None = None
    value: Value = None


@dataclass(frozen=True)
class Outcome:
    """The result of one run.

    Attributes:
        run_id: Hash of its configuration, data and results version.
        split_seed: The split, by number or by the name of a published seed.
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
