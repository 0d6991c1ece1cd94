"""What stands in one field of a table."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from pamt_lightning.studies.analysis import Analysis, Result
from pamt_lightning.studies.paper import paper_figure
from pamt_lightning.studies.report.wording import NONE, VERDICTS, p_text, percent, points, signed
from pamt_lightning.studies.statistics import Comparison, summarize


@dataclass(frozen=True)
class Entry:
    """One field of a table.

    Attributes:
        lines: What it says; set on one line or on several, as there is room.
        note: What is missing.
        strong: Whether its first line is set in bold.
    """

    lines: tuple[str, ...] = ()
    note: str = ""
    strong: bool = False


def figure_field(analysis: Analysis, result: Result, paper: bool = False) -> Entry:
    """Mean, spread and interval of a cell, the paper's mean if asked for, what is missing."""
    summary, lines = result.summary, []
    if summary.count:
        spread = "" if math.isnan(summary.std) else f" ± {percent(summary.std)}"
        lines.append(f"{percent(summary.mean)}{spread}")
        if not math.isnan(summary.low):
            lines.append(f"[{percent(summary.low)}, {percent(summary.high)}]")
    published = paper_figure(result.cell.dataset, result.cell.method) if paper else None
    if published:
        lines.append(f"(paper {published[0]:.2f})")
    return Entry(tuple(lines), result.gap, analysis.shows_best(result))


def comparison_fields(comparison: Comparison, gap: str) -> tuple[Entry, ...]:
    """The columns of a comparison: splits, difference, interval, p, effect, verdict."""
    texts = (
        points(comparison.difference),
        f"[{points(comparison.low)}, {points(comparison.high)}]",
        p_text(comparison.p_adjusted),
        signed(comparison.effect),
    )
    known = comparison.verdict != "unknown"
    return (
        Entry((str(comparison.count),), gap),
        *(Entry((text if known else NONE,)) for text in texts),
        Entry((VERDICTS[comparison.verdict],), strong=comparison.verdict == "better"),
    )


def comparison_field(result: Result) -> Entry:
    """A comparison in one field."""
    comparison = result.comparison
    if comparison is None or comparison.verdict == "unknown":
        return Entry(note=result.gap or VERDICTS["unknown"])
    lines = (
        f"{points(comparison.difference)} [{points(comparison.low)}, {points(comparison.high)}]",
        f"p {p_text(comparison.p_adjusted)}, r {signed(comparison.effect)}:",
        VERDICTS[comparison.verdict],
    )
    short = comparison.count != result.splits_asked  # the reference may lack splits, too
    note = result.gap or (f"n = {comparison.count} of {result.splits_asked}" if short else "")
    return Entry(lines, note, strong=comparison.verdict == "better")


def auc_field(values: Collection[float], result: Result) -> Entry:
    """Mean and spread of an area under the ROC curve."""
    if not values:
        return Entry(note=NONE)
    summary = summarize(values)
    spread = "" if math.isnan(summary.std) else f" ± {summary.std:.3f}"
    short = summary.count != result.splits_asked
    note = f"n = {summary.count} of {result.splits_asked}" if short else ""
    return Entry((f"{summary.mean:.3f}{spread}",), note)


def cost_field(analysis: Analysis, dataset: str, method: str) -> Entry:
    """Median seconds and epochs of a method on a data set."""
    runs = [
        run.metrics
        for run in analysis.outcomes
        if run.error is None and (run.cell.dataset, run.cell.method) == (dataset, method)
    ]
    lines = []
    for name, unit in (("seconds", "s,"), ("epochs", "epochs")):
        if values := [metrics[name] for metrics in runs if name in metrics]:
            middle = float(np.median(values))
            digits = 1 if name == "seconds" and middle < 100 else 0
            number = f"{middle:,.{digits}f}"
            lines.append(f"{number} {unit.removesuffix('s') if number == '1' else unit}")
    return Entry((*lines[:-1], lines[-1].rstrip(","))) if lines else Entry(note=NONE)
