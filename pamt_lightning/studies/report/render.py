"""The reports of a study: Markdown, CSV, SVG figures and one self-contained HTML page."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pamt_lightning.files import write_whole
from pamt_lightning.plots import plots_available
from pamt_lightning.studies.analysis import METRIC, Analysis, analyse
from pamt_lightning.studies.paper import SOURCE
from pamt_lightning.studies.report import tables
from pamt_lightning.studies.report.figures import Drawing, draw
from pamt_lightning.studies.report.tables import value_text
from pamt_lightning.studies.statistics import LEVEL
from pamt_lightning.studies.study import Cell, Outcome, Study

RESULTS, PAGE, RUNS_CSV, TABLE_CSV = "results.md", "report.html", "runs.csv", "table.csv"

# The names of our figures (PNG files are of earlier versions): no other file is ever removed.
_FIGURE = re.compile(r"(results|differences|(sweep|differences)-.*)\.(svg|png)")
# What Markdown reads as markup. Not so `PAMT_0`, `[84.50, 85.69]` and `< 0.001`.
_MARKUP = re.compile(r"[\\|*`~]|<(?!\s)|&(?=#?\w+;)|\](?=[(\[])|(?<!\w)_|_(?!\w)")

# Columns of the CSV files.
_CELL = ("dataset", "method", "option", "value")
_RUN = ("id", *_CELL, "split_seed", "init_seed", "status", "error", "version")
_RESULT = (
    *(*_CELL, "metric", "missing", "splits_asked", "runs_asked", "runs_finished", "runs_failed"),
    *("splits", "mean", "std", "low", "high", "paper_mean", "paper_std"),
)
_COMPARED = (
    *("reference", "common_splits", "difference", "difference_low", "difference_high"),
    *("p_value", "p_adjusted", "effect", "verdict"),
)


class StudyReport(NamedTuple):
    """A study whose reports are written: its runs, how many it asks for, and its Markdown."""

    study: Study
    outcomes: Sequence[Outcome]
    asked: int
    text: str


def write_reports(study: Study, outcomes: Sequence[Outcome], folder: Path, **facts: Any) -> str:
    """Write all reports of a study, whose runs finished or failed; returns the Markdown.

    The HTML page shows ``facts``: configurations by name, and the environment.
    """
    analysis = analyse(study, outcomes)
    drawings = draw(analysis) if plots_available() else []
    contents = {f"{drawing.name}.svg": drawing.svg for drawing in drawings}
    if plots_available():
        for file in list(folder.glob("*.*")):
            if _FIGURE.fullmatch(file.name) and file.name not in contents:
                file.unlink()
    contents |= {
        RESULTS: study_text(RESULTS, analysis, drawings),
        RUNS_CSV: runs_csv(outcomes),
        TABLE_CSV: table_csv(analysis),
        PAGE: study_text(PAGE, analysis, drawings, **facts),
    }
    for name, content in contents.items():
        _write(folder / name, content)
    return contents[RESULTS]


def write_summary(path: Path, reports: Sequence[StudyReport], *, runs: Path, **facts: Any) -> None:
    """Write one Markdown file with the tables of several studies, linked to their figures.

    The reports of each study are in a folder of its name beside ``runs``, the file with all runs.
    """
    place = os.path.relpath(runs.parent, path.parent).replace(os.sep, "/")
    counts, texts, others = {}, [], set()
    for study, outcomes, asked, text in reports:
        done = {outcome.run_id for outcome in outcomes if outcome.error is None}
        others |= {outcome.run_id for outcome in outcomes if outcome.other_version}
        counts[study.name] = (len(done), asked)
        body = re.sub(r"(!\[[^\]]*\]\(<)([^>]+>\))", rf"\g<1>{place}/{study.name}/\g<2>", text)
        texts.append((study.name, re.sub(r"^(#+) ", r"#\1 ", body, flags=re.MULTILINE)))
    facts |= {"runs": runs.name, "place": place, "files": (TABLE_CSV, RUNS_CSV, PAGE)}
    facts |= {"counts": counts, "texts": texts, "other_version": len(others)}
    facts["is_complete"] = all(done == asked for done, asked in counts.values())
    _write(path, _rendered("summary.md", **facts))


def _write(path: Path, content: str) -> None:
    write_whole(path, lambda file: file.write(content))


# Markdown and HTML


def study_text(
    file: str, analysis: Analysis, drawings: Sequence[Drawing] = (), **facts: Any
) -> str:
    """All figures and tables of a study as `RESULTS` (Markdown) or as `PAGE` (HTML)."""
    study = analysis.study
    title = study.title + (f" (part: {study.narrowed})" if study.narrowed else "")
    return _rendered(file, title=title, study=study, analysis=analysis, drawings=drawings, **facts)


def _rendered(file: str, **content: Any) -> str:
    text = _templates().get_template(f"{file}.jinja").render(content)
    return text.rstrip("\n") + "\n"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=lambda name: name is not None and name.endswith(".html.jinja"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"tables": tables, "level": LEVEL, "source": SOURCE}
    environment.filters |= {
        "counted": tables.counted,
        "value": value_text,
        "md": _markdown,
        "md_entry": _markdown_entry,
        "text": lambda text: escape(" ".join(str(text).split())),
        "slug": lambda title: re.sub(r"\W+", "-", title.lower()).strip("-"),
        "headings": lambda html: re.findall(r'<h2 id="([^"]+)">(.*)</h2>', html),
        "yaml": lambda content: yaml.safe_dump(content, sort_keys=False, allow_unicode=True),
        "inline_svg": _inline_svg,
    }
    return environment


def _markdown(text: str) -> str:
    """Text on one line, with everything escaped that Markdown reads as markup."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def _markdown_entry(entry: tables.Entry) -> str:
    """One field of a Markdown table."""
    lines = [_markdown(line) for line in entry.lines]
    if entry.strong and lines:
        lines[0] = f"**{lines[0]}**"
    return "; ".join(text for text in (" ".join(lines), _markdown(entry.note)) if text)


def _inline_svg(drawing: Drawing, caption: str) -> Markup:
    """The SVG of a figure for use inside HTML, with ids that no other figure has."""
    _, attributes, content = re.split(r"<svg\b([^>]*)>", drawing.svg)
    unwanted = r'\s(width|height|role|aria-label|xmlns(:\w+)?|version)="[^"]*"'
    attributes = re.sub(unwanted, "", attributes)

    def renamed(tag: re.Match[str]) -> str:
        return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{drawing.name}-", tag[0])

    content = re.sub(r"<[^>]*>", renamed, content.strip())
    return Markup(f'<svg role="img" aria-label="{escape(caption)}"{attributes}>{content}')


# CSV


def runs_csv(outcomes: Sequence[Outcome]) -> str:
    """One line for each run, with all its metrics as they are: shares in [0, 1]."""
    metrics = sorted({name for outcome in outcomes for name in outcome.metrics})
    rows = [
        (
            *(run.run_id, *_names(run.cell), run.split_seed, run.init_seed),
            *("finished" if run.error is None else "failed", run.error),
            "other" if run.other_version else "this",
            *(run.metrics.get(name) for name in metrics),
        )
        for run in outcomes
    ]
    return _csv((*_RUN, *metrics), rows)


def table_csv(analysis: Analysis) -> str:
    """One line for each cell and reference, with all statistics and the paper's accuracy.

    Means, deviations, intervals and differences are in %, as the paper's; six digits are enough to
    compare and few enough to be the same on all machines.
    """
    rows = []
    for each in (analysis, *analysis.further):
        for result in each.results.values():
            summary, found = result.summary, result.comparison
            shares = (summary.mean, summary.std, summary.low, summary.high)
            compared: tuple[object, ...] = (None,) * len(_COMPARED)
            if found is not None:
                other = each.study.reference_of(result.cell)
                same_method = other.method == result.cell.method
                compared = (
                    *(value_text(other.value) if same_method else other.method, found.count),
                    *map(_percent, (found.difference, found.low, found.high)),
                    *map(_number, (found.p_value, found.p_adjusted, found.effect)),
                    found.verdict,
                )
            counts = (result.splits_asked, result.runs_asked, result.finished, result.failed)
            row = (*_names(result.cell), METRIC, result.gap, *counts, summary.count)
            rows.append((*row, *map(_percent, shares), *(result.paper or (None, None)), *compared))
    return _csv((*_RESULT, *_COMPARED), rows)


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()


def _names(cell: Cell) -> tuple[str | None, ...]:
    return *cell[:3], None if cell.option is None else value_text(cell.value)


def _percent(share: float) -> float | None:
    return _number(100 * share)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")
