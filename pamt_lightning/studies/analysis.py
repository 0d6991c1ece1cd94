"""The results of a study, cell by cell: computed once, shown by all tables and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pamt_lightning.studies.paper import paper_accuracy
from pamt_lightning.studies.statistics import (
    BySplit,
    Comparison,
    Summary,
    Verdict,
    compare_all,
    summarize,
)
from pamt_lightning.studies.study import TEST_NODES, Cell, Outcome, Study, Sweep

METRIC = "test_acc"


@dataclass(frozen=True)
class Result:
    """The result of one cell: the accuracy of each split, and what became of its runs.

    Attributes:
        finished: Number of runs with an accuracy.
        other_version: Number of runs computed under another results version.
        paper: The paper's mean and standard deviation in %.
        comparison: With the reference on the same splits; none for the reference itself, and if
            the study does not run it.
    """

    cell: Cell
    runs: tuple[Outcome, ...]
    accuracies: BySplit
    summary: Summary
    splits_asked: int
    runs_asked: int
    finished: int
    errors: Counter[str]
    other_version: int
    paper: tuple[float, float] | None
    comparison: Comparison | None = None

    @property
    def failed(self) -> int:
        """Number of runs that ended with an error."""
        return self.errors.total()

    @property
    def verdict(self) -> Verdict:
        """The verdict of the comparison."""
        return self.comparison.verdict if self.comparison else "unknown"

    @property
    def gap(self) -> str:
        """How the runs differ from those of the study, in a few words; empty if complete."""
        if not self.runs:
            return "not run"
        count, asked, runs_asked = self.summary.count, self.splits_asked, self.runs_asked
        failed, blank = self.failed, len(self.runs) - self.finished - self.failed
        if not self.finished:
            parts = {f"failed ({failed})": failed, f"not finite ({blank})": blank}
        else:
            parts = {
                f"n = {count} of {asked}": count != asked,
                f"{self.finished} of {runs_asked} runs": asked != runs_asked > self.finished,
                f"{failed} failed": failed,
                f"{blank} not finite": blank,
                f"{self.other_version} of another version": self.other_version,
            }
        return ", ".join(part for part, applies in parts.items() if applies)


@dataclass(frozen=True)
class Analysis:
    """A study with the results of all its cells, in the order of the study.

    Attributes:
        on_test_nodes: Whether the runs were scored on test nodes, as in the paper, and not on
            held-out nodes that serve to choose.
        further: The same results compared with each of the study's further references.
    """

    study: Study
    results: dict[Cell, Result]
    on_test_nodes: bool
    further: tuple[Analysis, ...] = ()

    @property
    def metric(self) -> str:
        """What was measured, in words."""
        return "test accuracy" if self.on_test_nodes else "accuracy on held-out nodes"

    def of(self, sweep: Sweep | None) -> list[Result]:
        """The results of one sweep; of all cells in a study without sweeps."""
        option = None if sweep is None else sweep.option
        return [result for cell, result in self.results.items() if cell.option == option]

    def shows_best(self, result: Result) -> bool:
        """Whether a result is set in bold.

        A method is if it was shown to be better than the reference, and the reference is if it
        was shown to be better than all others of its column. A larger mean alone is no reason.
        """
        if result.cell.method != self.study.reference:
            return result.verdict == "better"
        column = [self.results[result.cell._replace(method=name)] for name in self.study.methods]
        return {other.verdict for other in column if other is not result} == {"worse"}


def analyse(study: Study, outcomes: Iterable[Outcome]) -> Analysis:
    """Summarise each cell of a study and compare it with the references.

    Holm's correction counts all comparisons of one table: all data sets together without sweeps,
    one data set and one swept option with them.
    """
    runs: dict[Cell, list[Outcome]] = {cell: [] for cell in study.cells()}
    for outcome in outcomes:
        runs[outcome.cell].append(outcome)
    on_test_nodes = all(run.tested_on == TEST_NODES for found in runs.values() for run in found)
    results = {cell: _result(study, cell, found, on_test_nodes) for cell, found in runs.items()}
    further = []
    for method in study.further_references:
        other = replace(study, reference=method, further_references=())
        further.append(Analysis(other, _compared(other, results), on_test_nodes))
    return Analysis(study, _compared(study, results), on_test_nodes, tuple(further))


def by_split(runs: Iterable[Outcome], metric: str) -> dict[str, float]:
    """A metric of the runs of one cell for each split, without runs in which it is not finite.

    Initialisations of a split are not independent of each other, so they count as one: their mean.
    """
    found: dict[str, list[float]] = {}
    for run in runs:
        if _has(run, metric):
            found.setdefault(run.split_seed, []).append(run.metrics[metric])
    return {split: sum(values) / len(values) for split, values in found.items()}


def _has(run: Outcome, metric: str) -> bool:
    return run.error is None and math.isfinite(run.metrics.get(metric, math.nan))


def _result(study: Study, cell: Cell, runs: Sequence[Outcome], on_test_nodes: bool) -> Result:
    """The result of a cell, not yet compared."""
    finished = [run for run in runs if _has(run, METRIC)]
    accuracies = by_split(finished, METRIC)
    return Result(
        cell=cell,
        runs=tuple(runs),
        accuracies=accuracies,
        summary=summarize(accuracies.values()),
        splits_asked=len(study.splits),
        runs_asked=len(study.splits) * len(study.inits),
        finished=len(finished),
        errors=Counter(run.error for run in runs if run.error is not None),
        other_version=sum(run.other_version for run in finished),
        # The paper's table is not about swept options.
        paper=paper_accuracy(*cell[:2]) if on_test_nodes and cell.option is None else None,
    )


def _compared(study: Study, results: Mapping[Cell, Result]) -> dict[Cell, Result]:
    """The results, each compared with its reference in ``study``."""
    tables: dict[object, dict[Cell, tuple[BySplit, BySplit]]] = {}
    for cell, result in results.items():
        reference = results.get(study.reference_of(cell), result)
        if reference is not result:
            table = None if cell.option is None else (cell.dataset, cell.option)
            tables.setdefault(table, {})[cell] = (result.accuracies, reference.accuracies)
    found = dict(results)
    for pairs in tables.values():
        for cell, comparison in compare_all(pairs).items():
            found[cell] = replace(results[cell], comparison=comparison)
    return found
