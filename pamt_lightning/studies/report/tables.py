"""The tables of a study as text, and how numbers, labels and notes are written everywhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pamt_lightning.studies.analysis import LEVEL, Analysis, Result, finite_by_split
from pamt_lightning.studies.outcome import Cell, Value
from pamt_lightning.studies.paper import SOURCE, paper_figure
from pamt_lightning.studies.statistics import Comparison, summarize
from pamt_lightning.studies.study import Study, Sweep

T = TypeVar("T")

NONE = "–"
VERDICTS = {
    "better": "better",
    "worse": "worse",
    "tie": "tie",
    "too few": "too few splits",
    "unknown": "no common splits",
}
EDGE_METRICS = {
    "mask_auc_planted": "mask, planted edges",
    "mask_auc_original": "mask, original edges",
    "feature_auc_planted": "attributes, planted edges",
    "feature_auc_original": "attributes, original edges",
}
_INTERVAL = "in square brackets the 95 % bootstrap interval of the mean"
_CHOICES = (
    "mask, trusted, structure, network: the prediction of the masked MLP, propagated over the "
    "mask, over the edges that the attributes support, over the whole graph, or not at all. "
    "unmasked: an MLP that trusts all edges (PTA). graphless: an MLP that uses no edges."
)
_ENOUGH_FOR_INTERVALS = 10  # then 95 % intervals hold the true mean in about 89 % of cases


@dataclass(frozen=True)
class Entry:
    """One field of a table.

    Attributes:
        lines: Its text, on one line or on several.
        note: What is missing.
        strong: Whether its first line is bold.
    """

    lines: tuple[str, ...] = ()
    note: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: What it shows.
        header: Heading of each column; the first column names the row.
        rows: Name and fields of each row.
        notes: Notes below it.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading, its tables, and notes on all of them."""

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()


def sections(analysis: Analysis) -> list[Section]:
    """All tables of a study, in reading order."""
    study, references = analysis.study, (analysis, *analysis.further)
    found: list[Section] = []
    if not study.sweeps:
        table = results_table(analysis)
        found.append(Section("Results", (table,), _reading_notes(analysis, [table])))
        found += [
            Section(
                f"Compared with {each.study.reference}",
                comparison_tables(each),
                comparison_notes(each, None),
            )
            for each in references
        ]
    for sweep in study.sweeps:
        tables = sweep_tables(analysis, sweep)
        notes = (*_reading_notes(analysis, tables), *noise_notes(analysis, sweep))
        found.append(Section(f"Results by {sweep_name(sweep)}", tables, notes))
        found += [
            Section(
                f"Compared with {_reference_name(each.study, sweep)}, by {sweep_name(sweep)}",
                sweep_comparison_tables(each, sweep),
                comparison_notes(each, sweep.option),
            )
            for each in references
        ]
    edges = edge_tables(analysis)
    found += [
        Section("Edges between classes", edges, _edge_notes(edges)),
        Section("Chosen inference", choice_tables(analysis)),
        Section("Time", (cost_table(analysis),)),
        Section("Missing runs", (missing_table(analysis),)),
    ]
    return [section for section in found if section.tables]


def overview(analysis: Analysis) -> list[tuple[str, str]]:
    """What the study consists of: pairs of a name and a text."""
    study, results = analysis.study, analysis.results.values()
    asked, finished = sum(r.runs_asked for r in results), sum(r.finished for r in results)
    seeds = "seed" if len(study.inits) == 1 else "seeds"
    facts = [
        ("study", study.name),
        ("part of the study", study.narrowed),
        ("data sets", ", ".join(study.datasets)),
        ("methods", ", ".join(study.methods)),
        ("reference", study.reference),
        *(
            ("varied", f"{sweep_name(sweep)}: {', '.join(map(value_text, sweep.values))}")
            for sweep in study.sweeps
        ),
        ("splits", f"{len(study.splits)}: {', '.join(study.splits)}"),
        ("initialisations", f"{len(study.inits)}: {seeds} {', '.join(map(str, study.inits))}"),
        ("options", ", ".join(f"{k} = {value_text(v)}" for k, v in study.options.items())),
        ("numbered by split", ", ".join(study.split_options)),
        ("runs", f"{finished:,} finished, {sum(r.failed for r in results):,} failed, of {asked:,}"),
        ("paper's results", SOURCE if analysis.on_test_nodes and not study.sweeps else ""),
    ]
    return [(name, text) for name, text in facts if text]


# Tables


def results_table(analysis: Analysis) -> Table:
    """Methods × data sets: mean, deviation, interval, the paper's mean, and what is missing."""
    study = analysis.study
    pairs = [(dataset, method) for dataset in study.datasets for method in study.methods]
    papers = analysis.on_test_nodes and any(paper_figure(*pair) for pair in pairs)
    paper = "; in round brackets the paper's mean, on its own random splits" if papers else ""
    return _by_method(
        f"{metric_label(analysis)}, mean ± standard deviation over {_design(study)}; "
        f"{_INTERVAL}{paper}.",
        study.methods,
        [(dataset, dataset) for dataset in study.datasets],
        lambda method, dataset: _mean(analysis, analysis.result(dataset, method), papers),
    )


def comparison_tables(analysis: Analysis) -> tuple[Table, ...]:
    """One table for each data set: every method minus the reference on the same splits."""
    study = analysis.study
    header = ("method", "splits", "difference", "95 % interval", "adjusted p", "effect", "verdict")
    tables = (
        Table(
            f"{dataset}: {difference_label(analysis)}.",
            header,
            tuple(
                (method, _comparison_columns(result.comparison, result.gap))
                for method in study.methods
                if (result := analysis.result(dataset, method)).comparison is not None
            ),
        )
        for dataset in study.datasets
    )
    return tuple(table for table in tables if table.rows)


def sweep_tables(analysis: Analysis, sweep: Sweep) -> tuple[Table, ...]:
    """One table for each data set: methods × values of the swept option."""
    study, label = analysis.study, _lower_first(metric_label(analysis))

    def mean(method: str, cell: Cell) -> Entry:
        return _mean(analysis, analysis.results[cell._replace(method=method)])

    return tuple(
        _by_method(
            f"{dataset}: {label} by {sweep_name(sweep)}, mean ± standard deviation over "
            f"{_design(study)}; {_INTERVAL}.",
            study.methods,
            _points(sweep, dataset),
            mean,
        )
        for dataset in study.datasets
    )


def sweep_comparison_tables(analysis: Analysis, sweep: Sweep) -> tuple[Table, ...]:
    """One table for each data set: every method minus the reference at each value.

    In a study of one method: the method at each value minus itself at the reference value.
    """
    study = analysis.study

    def compared(method: str, cell: Cell) -> Entry:
        cell = cell._replace(method=method)
        if study.reference_of(cell) == cell:
            return Entry(("reference",))
        return _comparison(analysis.results[cell])

    tables = []
    for dataset in study.datasets:
        points = _points(sweep, dataset)
        methods = [
            method
            for method in study.methods
            if any(analysis.results[c._replace(method=method)].comparison for _, c in points)
        ]
        caption = (
            f"{dataset}: {difference_label(analysis, sweep, dataset)}, by {sweep_name(sweep)}; "
            "with 95 % interval, adjusted p, effect (r) and verdict."
        )
        tables.append(_by_method(caption, methods, points, compared))
    return tuple(table for table in tables if table.rows)


def edge_tables(analysis: Analysis) -> tuple[Table, ...]:
    """AUC with which mask and attributes detect edges between classes, by data set."""
    found = {
        cell: {name: finite_by_split(result.runs, cell, name) for name in EDGE_METRICS}
        for cell, result in analysis.results.items()
    }
    names = [name for name in EDGE_METRICS if any(values[name] for values in found.values())]
    label = _lower_first(metric_label(analysis))
    tables = []
    for dataset in dict.fromkeys(cell.dataset for cell in found):
        rows = []
        for cell, values in found.items():
            if cell.dataset == dataset and any(values.values()):
                result = analysis.results[cell]
                aucs = (_auc(values[name].values(), result.splits_asked) for name in names)
                rows.append((_row_name(analysis, cell), (_mean(analysis, result), *aucs)))
        caption = (
            f"{dataset}: {label}, and the area under the ROC curve with which the final mask, or "
            "the plain cosine of the attributes, tells edges between two classes from edges within "
            "one; mean ± standard deviation over the splits."
        )
        header = ("method", label, *(EDGE_METRICS[name] for name in names))
        tables.append(Table(caption, header, tuple(rows)))
    return tuple(table for table in tables if table.rows)


def choice_tables(analysis: Analysis) -> tuple[Table, ...]:
    """The inference chosen by methods that choose it themselves, and how often."""
    rows = []
    for cell, result in analysis.results.items():
        chosen = Counter(run.chosen for run in result.runs if run.error is None and run.chosen)
        if chosen:
            counts = ", ".join(f"{name} {count}" for name, count in chosen.most_common())
            rows.append((_row_name(analysis, cell), (Entry((cell.dataset,)), Entry((counts,)))))
    if not rows:
        return ()
    caption = "The inference chosen on the validation nodes, and in how many runs."
    return (Table(caption, ("method", "data set", "runs"), tuple(rows), (_CHOICES,)),)


def cost_table(analysis: Analysis) -> Table:
    """Methods × data sets: medians of seconds and epochs over all finished runs."""
    study = analysis.study
    swept = ", over all values of the swept options" if study.sweeps else ""
    return _by_method(
        f"Median seconds of training and median number of epochs of a run{swept}.",
        study.methods,
        [(dataset, dataset) for dataset in study.datasets],
        lambda method, dataset: _cost(analysis, dataset, method),
    )


def missing_table(analysis: Analysis) -> Table:
    """The cells with other runs than the study asks for, and why; no rows if all is complete."""
    rows = []
    for cell, result in analysis.results.items():
        if result.gap:
            whys = [f"{count} × {' '.join(error.split())}" for error, count in result.errors]
            fields = (Entry((cell.dataset,)), Entry(note=result.gap), Entry(("; ".join(whys),)))
            rows.append((_row_name(analysis, cell), fields))
    notes: tuple[str, ...] = ()
    if others := sum(result.other_version for result in analysis.results.values()):
        notes = (f"Runs computed under another results version: {others}.",)
    caption = "Cells with other runs than the study asks for."
    return Table(
        caption if rows else "None: all runs of the study are complete.",
        ("method", "data set", "missing", "why"),
        tuple(rows),
        notes,
    )


def _by_method(
    caption: str,
    methods: Iterable[str],
    columns: Sequence[tuple[str, T]],
    entry: Callable[[str, T], Entry],
) -> Table:
    """A table with a row for each method, of columns with a heading and what they stand for."""
    rows = tuple((method, tuple(entry(method, key) for _, key in columns)) for method in methods)
    return Table(caption, ("method", *(heading for heading, _ in columns)), rows)


def _points(sweep: Sweep, dataset: str) -> list[tuple[str, Cell]]:
    """Heading of each value of a sweep and its cell, without the method."""
    return [
        (_point(sweep, value), Cell(dataset, "", sweep.option, value)) for value in sweep.values
    ]


# Fields


def _mean(analysis: Analysis, result: Result, paper: bool = False) -> Entry:
    """Mean, deviation and interval of a cell, the paper's mean if asked for, what is missing."""
    summary, lines = result.summary, []
    if summary.count:
        deviation = "" if math.isnan(summary.std) else f" ± {percent(summary.std)}"
        lines.append(f"{percent(summary.mean)}{deviation}")
        if not math.isnan(summary.low):
            lines.append(f"[{percent(summary.low)}, {percent(summary.high)}]")
    published = paper_figure(result.cell.dataset, result.cell.method) if paper else None
    if published:
        lines.append(f"(paper {published[0]:.2f})")
    return Entry(tuple(lines), result.gap, analysis.shows_best(result))


def _comparison_columns(comparison: Comparison, gap: str) -> tuple[Entry, ...]:
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


def _comparison(result: Result) -> Entry:
    """A comparison in one field."""
    comparison = result.comparison
    if comparison is None or comparison.verdict == "unknown":
        return Entry(note=result.gap or VERDICTS["unknown"])
    lines = (
        f"{points(comparison.difference)} [{points(comparison.low)}, {points(comparison.high)}]",
        f"p {p_text(comparison.p_adjusted)}, r {signed(comparison.effect)}:",
        VERDICTS[comparison.verdict],
    )
    # The reference may lack splits, too.
    note = result.gap or _count_note(comparison.count, result.splits_asked)
    return Entry(lines, note, strong=comparison.verdict == "better")


def _auc(values: Collection[float], splits_asked: int) -> Entry:
    """Mean and deviation of an area under the ROC curve."""
    if not values:
        return Entry(note=NONE)
    summary = summarize(values)
    deviation = "" if math.isnan(summary.std) else f" ± {summary.std:.3f}"
    return Entry((f"{summary.mean:.3f}{deviation}",), _count_note(summary.count, splits_asked))


def _count_note(count: int, asked: int) -> str:
    return "" if count == asked else f"n = {count} of {asked}"


def _cost(analysis: Analysis, dataset: str, method: str) -> Entry:
    """Median seconds and epochs of a method on a data set."""
    runs = [
        run.metrics
        for cell, result in analysis.results.items()
        if (cell.dataset, cell.method) == (dataset, method)
        for run in result.runs
        if run.error is None
    ]
    parts = []
    if seconds := [metrics["seconds"] for metrics in runs if "seconds" in metrics]:
        median = float(np.median(seconds))
        parts.append(f"{median:,.{1 if median < 100 else 0}f} s")
    if epochs := [metrics["epochs"] for metrics in runs if "epochs" in metrics]:
        number = f"{np.median(epochs):,.0f}"
        parts.append(f"{number} epoch{'' if number == '1' else 's'}")
    if not parts:
        return Entry(note=NONE)
    return Entry((*(f"{part}," for part in parts[:-1]), parts[-1]))


# Notes


def _reading_notes(analysis: Analysis, tables: Iterable[Table]) -> tuple[str, ...]:
    """What bold means, where something is bold, and that intervals of few splits are narrow."""
    reference, notes = analysis.study.reference, []
    if any(entry.strong for table in tables for _, fields in table.rows for entry in fields):
        notes.append(
            f"Bold: shown to be better than {reference} by the paired comparison, and {reference} "
            "itself only where it was shown to be better than all others. A larger mean alone is "
            "never bold."
        )
    counts = [result.summary.count for result in analysis.results.values()]
    if any(1 < count < _ENOUGH_FOR_INTERVALS for count in counts):
        notes.append(
            f"Intervals of fewer than {_ENOUGH_FOR_INTERVALS} splits are too narrow: they never "
            "reach beyond the smallest and the largest value of a split."
        )
    return tuple(notes)


def comparison_notes(analysis: Analysis, option: str | None) -> tuple[str, ...]:
    """What the columns of a comparison mean, and whether it could have shown anything.

    Args:
        analysis: The study.
        option: The swept option of the comparisons; none outside a sweep.
    """
    families: dict[str, list[int]] = {}
    for cell, result in analysis.results.items():
        found = result.comparison
        if found is not None and cell.option == option and not math.isnan(found.p_value):
            table = "the study" if option is None else cell.dataset
            families.setdefault(table, []).append(found.count)
    sizes = ", ".join(f"{len(counts)} of {table}" for table, counts in families.items())
    notes = [
        "Adjusted p: two-sided Wilcoxon signed-rank test, after Holm's correction for all "
        f"comparisons{' of a table' if option else ''} ({sizes or 'none'}); the intervals are not "
        "corrected. Effect: rank-biserial correlation, 1 if the method wins on all splits, −1 if "
        f"on none. Verdict: better or worse if the adjusted p is below {LEVEL}; tie: no difference "
        "was shown, which does not mean that there is none."
    ]
    for table, counts in families.items():
        if len(counts) * 2 * 0.5 ** max(counts) >= LEVEL:
            sizes = f"{counted(len(counts), 'comparison')} and {counted(max(counts), 'split')}"
            notes.append(
                f"With {sizes} no adjusted p of {table} can be below {LEVEL}, however large the "
                "difference: too few splits."
            )
    return tuple(notes)


def noise_notes(analysis: Analysis, sweep: Sweep) -> tuple[str, ...]:
    """How near structure noise came to the requested share; nothing in other sweeps."""
    misses = [
        abs(run.metrics["structure_noise"] - float(cell.value))
        for cell, result in analysis.results.items()
        if cell.option == sweep.option == "data.structure_noise" and cell.value is not None
        for run in result.runs
        if "structure_noise" in run.metrics
    ]
    if not misses:
        return ()
    return (
        f"The share that was reached differs from the requested one by at most {max(misses):.6f}, "
        f"over {counted(len(misses), 'run')}.",
    )


def _edge_notes(tables: Sequence[Table]) -> tuple[str, ...]:
    planted = any("planted" in name for table in tables for name in table.header)
    what = " Planted: moved there as structure noise." if planted else ""
    if any(name.startswith("PAMT_plus") for table in tables for name, _ in table.rows):
        what += " The mask of PAMT_plus includes the attributes: it weighs edges by both."
    return (f"0.5 is chance, 1 is perfect.{what}",)


# Labels


def metric_label(analysis: Analysis) -> str:
    """The metric as it is written above a table and on an axis."""
    return "Test accuracy in %" if analysis.on_test_nodes else "Accuracy on held-out nodes in %"


def difference_label(
    analysis: Analysis, sweep: Sweep | None = None, dataset: str | None = None
) -> str:
    """What a comparison with the reference shows."""
    label = _lower_first(metric_label(analysis).removesuffix(" in %"))
    reference = _reference_name(analysis.study, sweep, dataset)
    return f"{label} minus that of {reference} on the same splits, in points"


def _reference_name(study: Study, sweep: Sweep | None = None, dataset: str | None = None) -> str:
    """What others are compared with: a method, or in a study of one method a value."""
    if sweep is None or len(study.methods) > 1 or sweep.reference is None:
        return study.reference
    value = None if dataset is None else sweep.reference_for(dataset)
    if value is None:
        return "the configured value"
    return f"{study.methods[0]}, {_point(sweep, value)}"


def sweep_name(sweep: Sweep) -> str:
    """A swept option, with its symbol if it has one."""
    return f"{sweep.symbol} ({sweep.option})" if sweep.symbol else sweep.option


def _point(sweep: Sweep, value: Value) -> str:
    """A value of a swept option, such as ``K = 10``."""
    return f"{sweep.symbol or sweep.option.rsplit('.', 1)[-1]} = {value_text(value)}"


def _row_name(analysis: Analysis, cell: Cell) -> str:
    """The method, and the value of the swept option if there is one."""
    for sweep in analysis.study.sweeps:
        if sweep.option == cell.option:
            return f"{cell.method}, {_point(sweep, cell.value)}"
    return cell.method


def _design(study: Study) -> str:
    """The number of splits and initialisations, in words."""
    text, inits = counted(len(study.splits), "split"), len(study.inits)
    return text if inits == 1 else f"{text}, each averaged over {inits} initialisations"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


# Numbers


def value_text(value: Value) -> str:
    """A value as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def percent(share: float) -> str:
    """A share in percent: 0.8505 -> '85.05'."""
    return NONE if math.isnan(share) else f"{100 * share:.2f}"


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign: -0.0123 -> '−1.23'."""
    return signed(100 * share)


def signed(number: float, digits: int = 2) -> str:
    """A number with its sign, the minus a true one; zero has none."""
    if math.isnan(number):
        return NONE
    text = f"{number:+.{digits}f}".replace("-", "−")
    return text if any(digit in text for digit in "123456789") else text[1:]


def p_text(p_value: float) -> str:
    """A p-value: '0.012', or '< 0.001'."""
    if math.isnan(p_value):
        return NONE
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def counted(number: int, what: str) -> str:
    """A number of things: '1 split', '2 splits'."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
