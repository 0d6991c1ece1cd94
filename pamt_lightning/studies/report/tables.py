"""The tables of a study, as text in fields; `markdown` and `html_report` set them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pamt_lightning.studies.analysis import Analysis, further, splits_of
from pamt_lightning.studies.outcome import Cell
from pamt_lightning.studies.paper import paper_figure
from pamt_lightning.studies.report.fields import (
    Entry,
    auc_field,
    comparison_field,
    comparison_fields,
    cost_field,
    figure_field,
)
from pamt_lightning.studies.report.wording import (
    bold_note,
    comparison_notes,
    design,
    difference_label,
    interval_note,
    metric_label,
    name_of,
    noise_notes,
    point,
    reference_name,
    row_name,
)
from pamt_lightning.studies.study import Sweep

EDGE_METRICS = {
    "mask_auc_planted": "mask, planted edges",
    "mask_auc_original": "mask, original edges",
    "feature_auc_planted": "attributes, planted edges",
    "feature_auc_original": "attributes, original edges",
}

MISSING = "What is missing"
_CHOICES = (
    "mask, trusted, structure, network: the masked MLP, its prediction propagated over the mask, "
    "over the edges that the attributes speak for, over the whole graph, or not at all. unmasked: "
    "an MLP that trusts all edges (PTA). graphless: one that trusts none."
)


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: What it shows.
        header: Heading of each column; the first column names the row.
        rows: Name and fields of each row.
        notes: What a reader must know.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading, its tables, and what holds for all of them."""

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()


def sections(analysis: Analysis) -> list[Section]:
    """All tables of a study, in the order in which they are read."""
    study = analysis.study
    found: list[Section] = []
    if not study.sweeps:
        found += [
            Section("Results", (table := results_table(analysis),), _reading(analysis, [table])),
            Section(
                f"Compared with {study.reference}",
                comparison_tables(analysis),
                comparison_notes(analysis, None),
            ),
        ]
        found += [
            Section(
                f"Compared with {other.study.reference}",
                comparison_tables(other),
                comparison_notes(other, None),
            )
            for other in further(analysis)
        ]
    for sweep in study.sweeps:
        name = name_of(sweep)
        tables = sweep_tables(analysis, sweep)
        notes = (*_reading(analysis, tables), *noise_notes(analysis, sweep))
        found.append(Section(f"Results by {name}", tables, notes))
        found += [
            Section(
                f"Compared with {reference_name(each.study, sweep)}, by {name}",
                sweep_comparison_tables(each, sweep),
                comparison_notes(each, sweep.option),
            )
            for each in (analysis, *further(analysis))
        ]
    found += [
        Section("Which edges join two classes", edges := edge_tables(analysis), _edge_notes(edges)),
        Section("What was chosen", choice_tables(analysis)),
        Section("Time", (cost_table(analysis),)),
        Section(MISSING, (gaps_table(analysis),)),
    ]
    return [section for section in found if section.tables]


def _reading(analysis: Analysis, tables: Iterable[Table]) -> tuple[str, ...]:
    """What bold means, where something is bold, and whether intervals can be relied on."""
    entries = (entry for table in tables for _, fields in table.rows for entry in fields)
    bold = (bold_note(analysis),) if any(entry.strong for entry in entries) else ()
    return (*bold, *interval_note(analysis))


def _edge_notes(tables: Sequence[Table]) -> tuple[str, ...]:
    planted = any("planted" in name for table in tables for name in table.header)
    what = " Planted: moved there as structure noise." if planted else ""
    if any(name.startswith("PAMT_plus") for table in tables for name, _ in table.rows):
        what += " The mask of PAMT_plus is made of the attributes, too: it weighs edges by both."
    return (f"0.5 is guessing, 1 tells them all.{what}",)


def results_table(analysis: Analysis) -> Table:
    """Methods × data sets: mean, spread, interval, the paper's mean, and what is missing."""
    study = analysis.study
    pairs = [(dataset, method) for dataset in study.datasets for method in study.methods]
    papers = analysis.beside_paper and any(paper_figure(*pair) for pair in pairs)
    paper = "; in round brackets the paper's mean, on random splits of its own" if papers else ""
    return Table(
        f"{metric_label(analysis)}, mean ± standard deviation over {design(analysis)}; "
        f"in square brackets the 95 % bootstrap interval of the mean{paper}.",
        ("method", *study.datasets),
        tuple(
            (
                method,
                tuple(
                    figure_field(analysis, analysis.result(dataset, method), papers)
                    for dataset in study.datasets
                ),
            )
            for method in study.methods
        ),
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
                (method, comparison_fields(result.comparison, result.gap))
                for method in study.methods
                if (result := analysis.result(dataset, method)).comparison is not None
            ),
        )
        for dataset in study.datasets
    )
    return tuple(table for table in tables if table.rows)


def sweep_tables(analysis: Analysis, sweep: Sweep) -> tuple[Table, ...]:
    """One table for each data set: methods × values of the swept option."""
    label = metric_label(analysis)
    return tuple(
        Table(
            f"{dataset}: {label[:1].lower()}{label[1:]} by {name_of(sweep)}, mean ± standard "
            f"deviation over {design(analysis)}; in square brackets the 95 % bootstrap interval "
            "of the mean.",
            ("method", *(point(sweep, value) for value in sweep.values)),
            tuple(
                (
                    method,
                    tuple(
                        figure_field(
                            analysis, analysis.result(dataset, method, sweep.option, value)
                        )
                        for value in sweep.values
                    ),
                )
                for method in analysis.study.methods
            ),
        )
        for dataset in analysis.study.datasets
    )


def sweep_comparison_tables(analysis: Analysis, sweep: Sweep) -> tuple[Table, ...]:
    """One table for each data set: every method minus the reference at each value.

    In a study of one method: the method at each value minus itself at the reference's.
    """
    study = analysis.study
    tables = []
    for dataset in study.datasets:
        rows = []
        for method in study.methods:
            cells = [Cell(dataset, method, sweep.option, value) for value in sweep.values]
            if any(analysis.results[cell].comparison is not None for cell in cells):
                rows.append((method, tuple(_compared(analysis, cell) for cell in cells)))
        caption = (
            f"{dataset}: {difference_label(analysis, sweep, dataset)}, by {name_of(sweep)}; with "
            "95 % interval, adjusted p, effect (r) and verdict."
        )
        header = ("method", *(point(sweep, value) for value in sweep.values))
        tables.append(Table(caption, header, tuple(rows)))
    return tuple(table for table in tables if table.rows)


def _compared(analysis: Analysis, cell: Cell) -> Entry:
    if analysis.study.reference_of(cell) == cell:
        return Entry(("reference",))
    return comparison_field(analysis.results[cell])


def edge_tables(analysis: Analysis) -> tuple[Table, ...]:
    """How well mask and attributes tell edges between classes from those within, by data set."""
    names = [
        name
        for name in EDGE_METRICS
        if any(math.isfinite(run.metrics.get(name, math.nan)) for run in analysis.outcomes)
    ]
    rows: dict[str, list[tuple[str, tuple[Entry, ...]]]] = {}
    for cell, result in analysis.results.items():
        runs = [run for run in analysis.outcomes if run.cell == cell]
        figures = [splits_of(runs, cell, name).values() for name in names]
        if any(figures):
            fields = (
                figure_field(analysis, result),
                *(auc_field(values, result) for values in figures),
            )
            rows.setdefault(cell.dataset, []).append((row_name(analysis, cell), fields))
    label = metric_label(analysis)
    label = label[:1].lower() + label[1:]
    return tuple(
        Table(
            f"{dataset}: {label}, and the area under the ROC curve with which the final mask, or "
            "the plain cosine of the attributes, tells edges between two classes from edges within "
            "one; mean ± standard deviation over the splits.",
            ("method", label, *(EDGE_METRICS[name] for name in names)),
            tuple(found),
        )
        for dataset, found in rows.items()
    )


def choice_tables(analysis: Analysis) -> tuple[Table, ...]:
    """What methods that choose their prediction by themselves have chosen, and how often."""
    rows = []
    for cell in analysis.results:
        runs = [run for run in analysis.outcomes if run.cell == cell and run.error is None]
        chosen = Counter(run.chosen for run in runs if run.chosen)
        if chosen:
            counts = ", ".join(f"{name} {count}" for name, count in chosen.most_common())
            rows.append((row_name(analysis, cell), (Entry((cell.dataset,)), Entry((counts,)))))
    if not rows:
        return ()
    caption = "What was chosen on the stopping nodes, and in how many runs."
    return (Table(caption, ("method", "data set", "runs"), tuple(rows), (_CHOICES,)),)


def cost_table(analysis: Analysis) -> Table:
    """Methods × data sets: medians of seconds and epochs over all finished runs."""
    study = analysis.study
    swept = ", over all values of the swept options" if study.sweeps else ""
    return Table(
        f"Median seconds of training and median number of epochs of a run{swept}.",
        ("method", *study.datasets),
        tuple(
            (method, tuple(cost_field(analysis, dataset, method) for dataset in study.datasets))
            for method in study.methods
        ),
    )


def gaps_table(analysis: Analysis) -> Table:
    """What is not as the study asks, and why; without rows if nothing is missing."""
    rows = []
    for cell, result in analysis.results.items():
        if result.gap:
            whys = [f"{count} × {' '.join(error.split())}" for error, count in result.errors]
            fields = (Entry((cell.dataset,)), Entry(note=result.gap), Entry(("; ".join(whys),)))
            rows.append((row_name(analysis, cell), fields))
    caption = "Cells with other runs than the study asks for."
    if not rows:
        caption = "Nothing: all runs that the study asks for are there."
    note = f"Runs that count for no cell of the study, in runs.csv only: {analysis.foreign}."
    notes = [note] if analysis.foreign else []
    if others := sum(result.other_code for result in analysis.results.values()):
        notes.append(f"Runs that another version of the code computed: {others}.")
    return Table(caption, ("method", "data set", "missing", "why"), tuple(rows), tuple(notes))
