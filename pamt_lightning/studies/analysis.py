"""The results of a study, cell by cell: computed once, shown by all tables and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pamt_lightning.studies.outcome import TEST_NODES, Cell, Outcome, by_split
from pamt_lightning.studies.paper import paper_figure
from pamt_lightning.studies.statistics import Comparison, Summary, compare_all, summarize
from pamt_lightning.studies.study import Study, Sweep

LEVEL = 0.05
METRIC = "test_acc"


@dataclass(frozen=True)
class Result:
    """The result of one cell.

    Attributes:
        cell: The cell.
        runs: Its runs, finished or failed.
        summary: The accuracy over the splits.
        comparison: The accuracy minus that of the reference on the same splits; none for the
            reference itself, and if the study does not run it.
        splits_asked: Number of splits in the study.
        runs_asked: Number of runs in the study.
        finished: Number of runs with an accuracy.
        failed: Number of runs that ended with an error.
        blank: Number of runs that finished without a finite accuracy.
        errors: The errors, and how often each occurred.
        other_version: Number of runs computed under another results version.
        paper: The paper's mean and standard deviation in %, if it has them.
    """

    cell: Cell
    runs: tuple[Outcome, ...]
    summary: Summary
    comparison: Comparison | None
    splits_asked: int
    runs_asked: int
    finished: int
    failed: int
    blank: int
    errors: tuple[tuple[str, int], ...]
    other_version: int
    paper: tuple[float, float] | None

    @property
    def gap(self) -> str:
        """How the runs differ from those of the study, in a few words; empty if complete."""
        if not self.finished:
            parts = [f"failed ({self.failed})"] if self.failed else []
            parts += [f"not finite ({self.blank})"] if self.blank else []
            return ", ".join(parts) or "not run"
        parts = []
        if self.summary.count != self.splits_asked:
            parts.append(f"n = {self.summary.count} of {self.splits_asked}")
        if self.finished != self.runs_asked and self.runs_asked != self.splits_asked:
            parts.append(f"{self.finished} of {self.runs_asked} runs")
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.blank} not finite"] if self.blank else []
        parts += [f"{self.other_version} of another version"] if self.other_version else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Analysis:
    """A study with the results of all its cells.

    Attributes:
        study: The study.
        results: The result of each cell, in the order of the study.
        on_test_nodes: Whether the runs were scored on test nodes, as in the paper, and not on
            held-out nodes that serve to choose.
        further: The same results compared with each of the study's further references.
    """

    study: Study
    results: dict[Cell, Result]
    on_test_nodes: bool = True
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
            return result.comparison is not None and result.comparison.verdict == "better"
        others = [
            self.results[result.cell._replace(method=method)].comparison
            for method in self.study.methods
            if method != self.study.reference
        ]
        return bool(others) and all(other and other.verdict == "worse" for other in others)


def analyse(study: Study, outcomes: Sequence[Outcome]) -> Analysis:
    """Summarise each cell of a study and compare it with the references.

    Holm's correction counts all comparisons of one table: all data sets together without sweeps,
    one data set and one swept option with them.

    Args:
        study: The study.
        outcomes: Its runs, finished or failed.
    """
    runs: dict[Cell, list[Outcome]] = {cell: [] for cell in study.cells()}
    for outcome in outcomes:
        runs[outcome.cell].append(outcome)
    on_test_nodes = all(outcome.tested_on == TEST_NODES for outcome in outcomes)
    figures = {cell: finite_by_split(found, cell, METRIC) for cell, found in runs.items()}
    results = {
        cell: _result(study, cell, found, summarize(figures[cell].values()), on_test_nodes)
        for cell, found in runs.items()
    }
    analysis = Analysis(study, results, on_test_nodes)
    further = tuple(
        _compared(analysis, replace(study, reference=method, further_references=()), figures)
        for method in study.further_references
        if method in study.methods
    )
    return replace(_compared(analysis, study, figures), further=further)


def finite_by_split(runs: Sequence[Outcome], cell: Cell, metric: str) -> dict[str, float]:
    """A metric of one cell for each split, without the runs in which it is not finite."""
    return by_split([run for run in runs if _has(run, metric)], cell, metric)


def _has(run: Outcome, metric: str = METRIC) -> bool:
    return run.error is None and math.isfinite(run.metrics.get(metric, math.nan))


def _result(
    study: Study, cell: Cell, runs: Sequence[Outcome], summary: Summary, on_test_nodes: bool
) -> Result:
    """The result of a cell, not yet compared."""
    # A run that failed and was then repeated is not missing.
    done = {(run.split_seed, run.init_seed) for run in runs if _has(run)}
    left = [run for run in runs if (run.split_seed, run.init_seed) not in done]
    failed = {(run.split_seed, run.init_seed): run.error for run in left if run.error is not None}
    blank = {(run.split_seed, run.init_seed) for run in left} - set(failed)
    return Result(
        cell=cell,
        runs=tuple(runs),
        summary=summary,
        comparison=None,
        splits_asked=len(study.splits),
        runs_asked=len(study.splits) * len(study.inits),
        finished=len(done),
        failed=len(failed),
        blank=len(blank),
        errors=tuple(Counter(error for error in failed.values() if error).most_common()),
        other_version=sum(run.other_version for run in runs if _has(run)),
        # The paper's table is not about swept options.
        paper=paper_figure(*cell[:2]) if on_test_nodes and cell.option is None else None,
    )


def _compared(
    analysis: Analysis, study: Study, figures: Mapping[Cell, Mapping[str, float]]
) -> Analysis:
    """The analysis with each cell compared with the reference of ``study``."""
    families: dict[tuple[str, str] | None, dict[Cell, Mapping[str, float]]] = {}
    references: dict[Cell, Mapping[str, float]] = {}
    for cell, found in figures.items():
        reference = study.reference_of(cell)
        if cell != reference and reference in figures:
            table = None if cell.option is None else (cell.dataset, cell.option)
            families.setdefault(table, {})[cell] = found
            references[cell] = figures[reference]
    comparisons: dict[Cell, Comparison] = {}
    for family in families.values():
        comparisons |= compare_all(family, references, level=LEVEL)
    results = {
        cell: replace(result, comparison=comparisons.get(cell))
        for cell, result in analysis.results.items()
    }
    return replace(analysis, study=study, results=results)
