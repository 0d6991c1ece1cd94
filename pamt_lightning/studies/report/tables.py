"""The tables of a study, and how numbers and values are written; other text is in templates/."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pamt_lightning.studies.analysis import METRIC, Analysis, Result, by_split
from pamt_lightning.studies.statistics import Comparison, summarize
from pamt_lightning.studies.study import Cell, Outcome, Study, Sweep, Value

NONE = "–"
VERDICTS = {
    **{name: name for name in ("better", "worse", "tie")},
    **{"too few": "too few splits", "unknown": "no common splits"},
}
EDGE_METRICS = {
    "mask_auc_planted": "mask, planted edges",
    "mask_auc_original": "mask, original edges",
    "feature_auc_planted": "attributes, planted edges",
    "feature_auc_original": "attributes, original edges",
}


@dataclass(frozen=True)
class Entry:
    """One field of a table: its lines, the first of which may be bold, and what is missing."""

    lines: tuple[str, ...] = ()
    note: str = ""
    strong: bool = False


class Table(NamedTuple):
    """Heading of each column, the first of which names the row; name and fields of each row."""

    header: tuple[str, ...]
    rows: list[tuple[str, list[Entry]]]

    @property
    def has_bold(self) -> bool:
        """Whether any field is bold."""
        return any(entry.strong for _, entries in self.rows for entry in entries)


def result_tables(analysis: Analysis, sweep: Sweep | None) -> dict[str, Table]:
    """Methods × data sets, or for each data set methods × values of the swept option.

    Each field has mean, deviation, interval, the paper's mean, and what is missing.
    """
    methods = analysis.study.methods
    return {
        name: _by_method(methods, columns, lambda cell: _mean(analysis, analysis.results[cell]))
        for name, columns in _columns(analysis.study, sweep).items()
    }


def comparison_tables(analysis: Analysis, sweep: Sweep | None) -> dict[str, Table]:
    """For each data set, every method minus the reference on the same splits.

    In a sweep at each value; in a sweep of one method, the method at each value minus itself at the
    reference value.
    """

    def entry(cell: Cell) -> Entry:
        if analysis.study.reference_of(cell) == cell:
            return Entry(("reference",))
        return _comparison(analysis.results[cell])

    found = {}
    header = ("method", "splits", "difference", "95 % interval", "adjusted p", "effect", "verdict")
    for dataset in analysis.study.datasets:
        ours = {
            result.cell.method: result
            for result in analysis.of(sweep)
            if result.comparison and result.cell.dataset == dataset
        }
        if ours and sweep is not None:
            found[dataset] = _by_method(ours, _columns(analysis.study, sweep)[dataset], entry)
        elif ours:
            rows = [(method, _comparison_columns(result)) for method, result in ours.items()]
            found[dataset] = Table(header, rows)
    return found


def edge_tables(analysis: Analysis) -> dict[str, Table]:
    """For each data set, the AUC with which mask and attributes detect edges between classes."""
    found = {
        cell: {name: by_split(result.runs, name) for name in EDGE_METRICS}
        for cell, result in analysis.results.items()
    }
    names = [name for name in EDGE_METRICS if any(values[name] for values in found.values())]
    header = ("method", f"{analysis.metric} in %", *(EDGE_METRICS[name] for name in names))
    tables: dict[str, Table] = {}
    for cell, values in found.items():
        if any(values.values()):
            result = analysis.results[cell]
            aucs = [_auc(values[name].values(), result.splits_asked) for name in names]
            row = (_row_name(analysis.study, cell), [_mean(analysis, result, paper=False), *aucs])
            tables.setdefault(cell.dataset, Table(header, [])).rows.append(row)
    return tables


def choice_table(analysis: Analysis) -> Table:
    """The inference chosen by methods that choose it themselves, and how often."""
    table = Table(("method", "data set", "runs"), [])
    for cell, result in analysis.results.items():
        chosen = Counter(run.chosen for run in result.runs if run.error is None and run.chosen)
        if counts := ", ".join(f"{name} {count}" for name, count in chosen.most_common()):
            entries = [Entry((cell.dataset,)), Entry((counts,))]
            table.rows.append((_row_name(analysis.study, cell), entries))
    return table


def pool_table(analysis: Analysis) -> Table:
    """Methods that pool views: accuracy, that with equal weights, and share of each view."""
    runs = {
        cell: [run for run in result.runs if run.error is None and run.views]
        for cell, result in analysis.results.items()
    }
    views = list(
        dict.fromkeys(view for found in runs.values() for run in found for view in run.views)
    )
    table = Table(("method", "data set", "pooled", "equal weights", *views), [])
    for cell, found in runs.items():
        if found:
            accuracies = (by_split(found, name) for name in (METRIC, f"{METRIC}_equal_weights"))
            means = [summarize(each.values()).mean for each in accuracies]
            fields = [cell.dataset, *(_fixed(100 * mean, 2) for mean in means)]
            fields += [_fixed(100 * _mean_share(found, view), 0) for view in views]
            entries = [Entry((text,)) for text in fields]
            table.rows.append((_row_name(analysis.study, cell), entries))
    return table


def _mean_share(runs: Sequence[Outcome], view: str) -> float:
    """The mean share of a view in the sum of the weights, over the runs that have it."""
    shares = [
        run.views[view] / (sum(run.views.values()) or 1.0) for run in runs if view in run.views
    ]
    return sum(shares) / len(shares) if shares else math.nan


def cost_table(analysis: Analysis) -> Table:
    """Methods × data sets: medians of seconds and epochs over all finished runs."""

    def entry(cell: Cell) -> Entry:
        results = [r for r in analysis.results.values() if r.cell[:2] == cell[:2]]
        runs = [run.metrics for r in results for run in r.runs if run.error is None]
        seconds, epochs = ([run[k] for run in runs if k in run] for k in ("seconds", "epochs"))
        if not seconds or not epochs:
            return Entry(note=NONE)
        median = float(np.median(seconds))
        time = f"{median:,.{1 if median < 100 else 0}f} s,"
        return Entry((time, counted(round(float(np.median(epochs))), "epoch")))

    return _by_method(analysis.study.methods, _columns(analysis.study, None)[""], entry)


def missing_table(analysis: Analysis) -> Table:
    """The cells with other runs than the study asks for, and why."""
    table = Table(("method", "data set", "missing", "why"), [])
    for cell, result in analysis.results.items():
        if result.gap:
            errors = result.errors.most_common()
            why = "; ".join(f"{count} × {' '.join(error.split())}" for error, count in errors)
            entries = [Entry((cell.dataset,)), Entry(note=result.gap), Entry((why,))]
            table.rows.append((_row_name(analysis.study, cell), entries))
    return table


def families(analysis: Analysis, sweep: Sweep | None) -> dict[str, list[int]]:
    """The number of common splits of each comparison, by the family that Holm's method corrects."""
    found: dict[str, list[int]] = {}
    for result in analysis.of(sweep):
        if result.comparison and result.comparison.count > 1:
            family = "the study" if sweep is None else result.cell.dataset
            found.setdefault(family, []).append(result.comparison.count)
    return found


def noise_misses(analysis: Analysis, sweep: Sweep | None) -> list[float]:
    """By how much structure noise missed the requested share; empty in other sweeps."""
    if sweep is None or sweep.option != "data.structure_noise":
        return []
    return [
        abs(run.metrics["structure_noise"] - float(result.cell.value))
        for result in analysis.of(sweep)
        if result.cell.value is not None
        for run in result.runs
        if "structure_noise" in run.metrics
    ]


def _by_method(
    methods: Iterable[str], columns: Sequence[tuple[str, Cell]], entry: Callable[[Cell], Entry]
) -> Table:
    rows = [(name, [entry(cell._replace(method=name)) for _, cell in columns]) for name in methods]
    return Table(("method", *(heading for heading, _ in columns)), rows)


def _columns(study: Study, sweep: Sweep | None) -> dict[str, list[tuple[str, Cell]]]:
    """Heading and cell (without a method) of each column, by table."""
    if sweep is None:
        return {"": [(dataset, Cell(dataset, "")) for dataset in study.datasets]}
    return {
        dataset: [(_point(sweep, v), Cell(dataset, "", sweep.option, v)) for v in sweep.values]
        for dataset in study.datasets
    }


# Fields


def _mean(analysis: Analysis, result: Result, paper: bool = True) -> Entry:
    summary, lines = result.summary, []
    if summary.count:
        deviation = "" if math.isnan(summary.std) else f" ± {100 * summary.std:.2f}"
        lines.append(f"{100 * summary.mean:.2f}{deviation}")
        if deviation:
            lines.append(f"[{100 * summary.low:.2f}, {100 * summary.high:.2f}]")
    if paper and result.paper:
        lines.append(f"(paper {result.paper[0]:.2f})")
    return Entry(tuple(lines), result.gap, analysis.shows_best(result))


def _comparison_columns(result: Result) -> list[Entry]:
    found = result.comparison
    assert found is not None
    return [
        Entry((str(found.count),), result.gap),
        *(Entry((text,)) for text in _comparison_texts(found)),
        Entry((VERDICTS[found.verdict],), strong=found.verdict == "better"),
    ]


def _comparison(result: Result) -> Entry:
    """A comparison in one field."""
    found = result.comparison
    if found is None or found.verdict == "unknown":
        return Entry(note=result.gap or VERDICTS["unknown"])
    difference, interval, p_value, effect = _comparison_texts(found)
    lines: tuple[str, ...] = (VERDICTS[found.verdict],)
    if found.count > 1:
        lines = (f"{difference} {interval}", f"p {p_value}, r {effect}:", *lines)
    # The reference may lack splits, too.
    note = result.gap or _count_note(found.count, result.splits_asked)
    return Entry(lines, note, strong=found.verdict == "better")


def _comparison_texts(found: Comparison) -> tuple[str, ...]:
    """Difference, interval, p-value and effect."""
    if found.count < 2:
        return (NONE,) * 4
    interval = f"[{points(found.low)}, {points(found.high)}]"
    p_value = "< 0.001" if found.p_adjusted < 0.001 else f"{found.p_adjusted:.3f}"
    return points(found.difference), interval, p_value, signed(found.effect)


def _auc(values: Iterable[float], splits_asked: int) -> Entry:
    summary = summarize(values)
    if not summary.count:
        return Entry(note=NONE)
    deviation = "" if math.isnan(summary.std) else f" ± {summary.std:.3f}"
    return Entry((f"{summary.mean:.3f}{deviation}",), _count_note(summary.count, splits_asked))


def _count_note(count: int, asked: int) -> str:
    return "" if count == asked else f"n = {count} of {asked}"


# Names


def reference_name(study: Study, sweep: Sweep | None = None, dataset: str = "") -> str:
    """What others are compared with: a method, or in a study of one method a value."""
    if sweep is None or len(study.methods) > 1 or sweep.reference is None:
        return study.reference
    value = sweep.reference_for(dataset) if dataset else None
    if value is None:
        return "the configured value"
    return f"{study.methods[0]}, {_point(sweep, value)}"


def sweep_name(sweep: Sweep) -> str:
    """A swept option, with its symbol if it has one."""
    return f"{sweep.symbol} ({sweep.option})" if sweep.symbol else sweep.option


def _point(sweep: Sweep, value: Value) -> str:
    """A value of a swept option, such as ``K = 10``."""
    return f"{sweep.symbol or sweep.option.rsplit('.', 1)[-1]} = {value_text(value)}"


def _row_name(study: Study, cell: Cell) -> str:
    """The method, and the value of the swept option if there is one."""
    for sweep in study.sweeps:
        if sweep.option == cell.option:
            return f"{cell.method}, {_point(sweep, cell.value)}"
    return cell.method


# Numbers


def value_text(value: Value) -> str:
    """A value as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign: -0.0123 -> '−1.23'."""
    return signed(100 * share)


def signed(number: float, digits: int = 2) -> str:
    """A number with its sign, the minus a true one; zero has none, nan is a dash."""
    if math.isnan(number):
        return NONE
    text = f"{number:+.{digits}f}".replace("-", "−")
    return text if any(digit in text for digit in "123456789") else text[1:]


def _fixed(number: float, digits: int) -> str:
    """A number with so many digits after the point; nan is a dash."""
    return NONE if math.isnan(number) else f"{number:.{digits}f}"


def counted(number: int, what: str) -> str:
    """A number of things: '1 split', '2 splits'."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
