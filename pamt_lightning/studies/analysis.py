"""What the runs of a study come to, cell by cell: the one source of tables, figures and reports."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pamt_lightning.studies.outcome import TEST_NODES, Cell, Outcome, Value, by_split
from pamt_lightning.studies.statistics import Comparison, Summary, compare_all, summarize
from pamt_lightning.studies.study import Study

LEVEL = 0.05
METRIC = "test_acc"


@dataclass(frozen=True)
class Result:
    """What is known of one cell.

    Attributes:
        cell: The cell.
        summary: The metric over the splits.
        comparison: The metric minus that of the reference on the same splits; none for the
            reference itself, and if the study does not run it.
        splits_asked: Number of splits that the study asks for.
        runs_asked: Number of runs that the study asks for.
        finished: Number of runs that have the metric.
        failed: Number of runs that ended in an error.
        blank: Number of runs that were finished, but without a finite value of the metric.
        errors: What went wrong, and how often.
        other_code: Number of runs that another version of the code computed.
    """

    cell: Cell
    summary: Summary
    comparison: Comparison | None
    splits_asked: int
    runs_asked: int
    finished: int
    failed: int
    blank: int
    errors: tuple[tuple[str, int], ...]
    other_code: int = 0

    @property
    def gap(self) -> str:
        """What is not as the study asks, in a few words; empty if all is."""
        if not self.finished:
            parts = [f"failed ({self.failed})"] if self.failed else []
            parts += [f"without a figure ({self.blank})"] if self.blank else []
            return ", ".join(parts) or "not run"
        parts = []
        if self.summary.count != self.splits_asked:
            parts.append(f"n = {self.summary.count} of {self.splits_asked}")
        if self.finished != self.runs_asked and self.runs_asked != self.splits_asked:
            parts.append(f"{self.finished} of {self.runs_asked} runs")
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.blank} without a figure"] if self.blank else []
        parts += [f"{self.other_code} by other code"] if self.other_code else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Analysis:
    """A study with the results of all its cells.

    Attributes:
        study: The study.
        outcomes: The runs that count for it.
        metric: The metric that is compared.
        results: One result for each cell of the study, in its order.
        foreign: Number of runs that count for no cell of the study.
    """

    study: Study
    outcomes: tuple[Outcome, ...]
    metric: str
    results: dict[Cell, Result]
    foreign: int

    @property
    def on_test_nodes(self) -> bool:
        """Whether the runs were scored on test nodes, and not on known ones to choose on."""
        return all(run.tested_on == TEST_NODES for run in self.outcomes)

    @property
    def beside_paper(self) -> bool:
        """Whether the paper's figures are of the same kind."""
        return self.metric == METRIC and self.on_test_nodes

    def result(
        self, dataset: str, method: str, option: str | None = None, value: Value = None
    ) -> Result:
        """The result of one cell."""
        return self.results[Cell(dataset, method, option, value)]

    def shows_best(self, result: Result) -> bool:
        """Whether a result may be set in bold.

        A method may if it was shown to be better than the reference, and the reference may if it
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


def analyse(study: Study, outcomes: Sequence[Outcome], metric: str = METRIC) -> Analysis:
    """Summarise each cell of a study and compare it with the reference.

    Holm's correction counts all comparisons of one table: all data sets together without sweeps,
    one data set and one swept option with them.

    Args:
        study: The study.
        outcomes: Its runs; those of other cells are counted, no more.
        metric: Name of the metric, a share in [0, 1]; the larger, the better.
    """
    by_cell: dict[Cell, list[Outcome]] = {cell: [] for cell in study.cells()}
    for outcome in outcomes:
        if outcome.cell in by_cell:
            by_cell[outcome.cell].append(outcome)
    figures = {cell: splits_of(runs, cell, metric) for cell, runs in by_cell.items()}

    families: dict[tuple[str, str] | None, dict[Cell, dict[str, float]]] = {}
    references: dict[Cell, dict[str, float]] = {}
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
        cell: _result(study, cell, runs, metric, figures[cell], comparisons.get(cell))
        for cell, runs in by_cell.items()
    }
    counted = tuple(outcome for outcome in outcomes if outcome.cell in by_cell)
    return Analysis(study, counted, metric, results, len(outcomes) - len(counted))


def further(analysis: Analysis) -> list[Analysis]:
    """The same study compared with each of its further references."""
    study = analysis.study
    return [
        analyse(
            replace(study, reference=method, further_references=()),
            analysis.outcomes,
            analysis.metric,
        )
        for method in study.further_references
        if method in study.methods
    ]


def splits_of(runs: Sequence[Outcome], cell: Cell, metric: str) -> dict[str, float]:
    """A metric of one cell for each split, without the runs in which it is not a finite number."""
    return by_split([run for run in runs if _has(run, metric)], cell, metric)


def _has(run: Outcome, metric: str) -> bool:
    return run.error is None and math.isfinite(run.metrics.get(metric, math.nan))


def _result(
    study: Study,
    cell: Cell,
    runs: Sequence[Outcome],
    metric: str,
    figures: dict[str, float],
    comparison: Comparison | None,
) -> Result:
    # A run that failed and was then done again is not missing.
    done = {(run.split_seed, run.init_seed) for run in runs if _has(run, metric)}
    left = [run for run in runs if (run.split_seed, run.init_seed) not in done]
    failed = {(run.split_seed, run.init_seed): run.error for run in left if run.error is not None}
    blank = {(run.split_seed, run.init_seed) for run in left} - set(failed)
    return Result(
        cell=cell,
        summary=summarize(figures.values()),
        comparison=comparison,
        splits_asked=len(study.splits),
        runs_asked=len(study.splits) * len(study.inits),
        finished=len(done),
        failed=len(failed),
        blank=len(blank),
        errors=tuple(Counter(error for error in failed.values() if error).most_common()),
        other_code=sum(run.other_code for run in runs if _has(run, metric)),
    )
