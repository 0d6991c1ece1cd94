"""A study as CSV: one line for each run, and one for each cell."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple

from pamt_lightning.studies.analysis import METRIC, Analysis, Result, analyse, further
from pamt_lightning.studies.outcome import Outcome, Value
from pamt_lightning.studies.paper import paper_figure
from pamt_lightning.studies.report.wording import value_text
from pamt_lightning.studies.study import Study

_RUN = (
    *("id", "dataset", "method", "option", "value", "split_seed", "init_seed"),
    *("status", "error", "code"),
)
_CELL = ("dataset", "method", "option", "value", "metric", "missing")
_COUNTS = ("splits_asked", "runs_asked", "runs_finished", "runs_failed")
_SUMMARY = ("splits", "mean", "std", "low", "high")
_PAPER = ("paper_mean", "paper_std")
_COMPARISON = (
    *("reference", "common_splits", "difference", "difference_low", "difference_high"),
    *("p_value", "p_adjusted", "effect", "verdict"),
)


def runs_csv(outcomes: Sequence[Outcome]) -> str:
    """One line for each run, with all its metrics as they are: shares in [0, 1]."""
    metrics = sorted({name for outcome in outcomes for name in outcome.metrics})
    return _text(
        (*_RUN, *metrics),
        (
            (
                outcome.run_id,
                *_names(outcome.cell),
                outcome.split_seed,
                outcome.init_seed,
                "finished" if outcome.error is None else "failed",
                outcome.error,
                "other" if outcome.other_code else "this",
                *(outcome.metrics.get(name) for name in metrics),
            )
            for outcome in outcomes
        ),
    )


def table_csv(study: Study, outcomes: Sequence[Outcome], metric: str = METRIC) -> str:
    """One line for each cell of the study, with all statistics and the paper's figure.

    With further references there is one for each cell and reference.
    Mean, spread, intervals and differences are in %, as the paper's; six digits are enough to
    compare and few enough to be the same on all machines.
    """
    analysis = analyse(study, outcomes, metric)
    return _text(
        (*_CELL, *_COUNTS, *_SUMMARY, *_PAPER, *_COMPARISON),
        (
            (
                *_names(result.cell),
                metric,
                result.gap,
                *(result.splits_asked, result.runs_asked, result.finished, result.failed),
                *_summary(result),
                *_paper(each, result),
                *_comparison(each, result),
            )
            for each in (analysis, *further(analysis))
            for result in each.results.values()
        ),
    )


def _names(cell: Iterable[Value]) -> tuple[str | None, ...]:
    dataset, method, option, value = cell
    named = value_text(value) if option is not None else None
    return str(dataset), str(method), None if option is None else str(option), named


def _summary(result: Result) -> tuple[object, ...]:
    count, *shares = astuple(result.summary)
    return count, *map(_percent, shares)


def _paper(analysis: Analysis, result: Result) -> tuple[float | None, ...]:
    # A swept option, or another metric, is not what the paper's table is about.
    comparable = analysis.beside_paper and result.cell.option is None
    return (comparable and paper_figure(result.cell.dataset, result.cell.method)) or (None, None)


def _comparison(analysis: Analysis, result: Result) -> tuple[object, ...]:
    if result.comparison is None:
        return (None,) * len(_COMPARISON)
    cell = analysis.study.reference_of(result.cell)
    reference = cell.method if cell.method != result.cell.method else value_text(cell.value)
    count, difference, low, high, p_value, p_adjusted, effect, verdict = astuple(result.comparison)
    shares = map(_percent, (difference, low, high))
    return reference, count, *shares, *map(_number, (p_value, p_adjusted, effect)), verdict


def _percent(share: float) -> float | None:
    return _number(100 * share)


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue()
