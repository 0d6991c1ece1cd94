"""Small studies whose results can be checked by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pamt_lightning.studies.analysis import Analysis, analyse
from pamt_lightning.studies.study import Cell, Outcome, Study, Sweep

SPLITS = tuple(f"test{number}" for number in range(8))
STUDY = Study("small", "A small study", ("cora_ml", "citeseer"), ("GCN", "PTS", "PAMT"), SPLITS)
NOISE = Sweep("data.structure_noise", (0.3, 0.5), "noise")
SWEEP = replace(STUDY, name="noise", title="Noise", datasets=("cora_ml",), sweeps=(NOISE,))


def accuracy(cell: Cell, number: int) -> float:
    """PAMT: 0.80, 0.81, …, 0.87. GCN is better by 0.01 on each split, PTS on every other one."""
    steps = {"GCN": 1, "PTS": 1 if number % 2 else -1, "PAMT": 0}
    return (80 + number + steps.get(cell.method, -2)) / 100


def outcomes(study: Study, figure: Callable[[Cell, int], float] = accuracy) -> list[Outcome]:
    """All runs of a study."""
    return [
        Outcome(
            run_id=f"{cell.dataset}-{cell.method}-{cell.value}-{split}-{init}",
            cell=cell,
            split_seed=split,
            init_seed=init,
            metrics={
                "test_acc": figure(cell, number),
                "seconds": 2.0**number,
                "epochs": 100.0 * (number + 1),
            },
        )
        for cell in study.cells()
        for number, split in enumerate(study.splits)
        for init in study.inits
    ]


def without(runs: list[Outcome], dataset: str, method: str) -> list[Outcome]:
    """The runs of all other cells."""
    return [run for run in runs if run.cell[:2] != (dataset, method)]


def failed(run: Outcome, error: str) -> Outcome:
    """The same run as a failed one."""
    return replace(run, metrics={}, error=error)


def with_metrics(run: Outcome, **metrics: float) -> Outcome:
    """The same run with further metrics."""
    return replace(run, metrics={**run.metrics, **metrics})


def analysed(study: Study = STUDY, runs: list[Outcome] | None = None, **changes: Any) -> Analysis:
    """The analysis of a study, with other values; unless given, of all its runs."""
    study = replace(study, **changes)
    return analyse(study, outcomes(study) if runs is None else runs)
