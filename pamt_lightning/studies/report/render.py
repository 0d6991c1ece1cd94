"""The reports of a study: Markdown, CSV, SVG figures and one self-contained HTML page."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pamt_lightning.files import write_whole
from pamt_lightning.plots import plots_available
from pamt_lightning.studies.analysis import METRIC, Analysis, Result, analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.paper import paper_figure
from pamt_lightning.studies.report.figures import Drawing, draw
from pamt_lightning.studies.report.tables import (
    Entry,
    Section,
    counted,
    overview,
    sections,
    value_text,
)
from pamt_lightning.studies.study import Study

RESULTS, PAGE, RUNS_CSV, TABLE_CSV = "results.md", "report.html", "runs.csv", "table.csv"

# The names of our figures (PNG files are of earlier versions): no other file is ever removed.
_FIGURE = re.compile(r"(results|differences|(sweep|differences)-.*)\.(svg|png)")
# What Markdown reads as markup. Not so `PAMT_0`, `[84.50, 85.69]` and `< 0.001`.
_MARKUP = re.compile(r"[\\|*`~]|<(?!\s)|&(?=#?\w+;)|\](?=[(\[])|(?<!\w)_|_(?!\w)")

_TABLE_COLUMNS = (
    *("dataset", "method", "option", "value", "metric", "missing"),
    *("splits_asked", "runs_asked", "runs_finished", "runs_failed"),
    *("splits", "mean", "std", "low", "high", "paper_mean", "paper_std"),
    *("reference", "common_splits", "difference", "difference_low", "difference_high"),
    *("p_value", "p_adjusted", "effect", "verdict"),
)


class Finished(NamedTuple):
    """A study whose reports are written.

    Attributes:
        study: The study.
        outcomes: Its runs, finished or failed.
        asked: Number of different runs that it asks for.
        text: Its tables as Markdown.
    """

    study: Study
    outcomes: Sequence[Outcome]
    asked: int
    text: str


def write_reports(
    study: Study,
    outcomes: Sequence[Outcome],
    folder: Path,
    *,
    configurations: Mapping[str, Any],
    environment: Mapping[str, Any],
) -> str:
    """Write all reports of a study into a folder; returns the Markdown.

    Args:
        study: The study.
        outcomes: Its runs, finished or failed.
        folder: Where to write.
        configurations: What was run, by name.
        environment: Versions and facts about the machine.
    """
    analysis = analyse(study, outcomes)
    figures = draw(analysis) if plots_available() else []
    if plots_available():
        _remove_old_figures(folder, {f"{figure.name}.svg" for figure in figures})
    found = sections(analysis)
    text = markdown_text(study, found, figures)
    contents = {
        **{f"{figure.name}.svg": figure.svg for figure in figures},
        RESULTS: text,
        RUNS_CSV: runs_csv(outcomes),
        TABLE_CSV: table_csv(analysis),
        PAGE: html_text(analysis, found, figures, configurations, environment),
    }
    for name, content in contents.items():
        _write(folder / name, content)
    return text


def write_summary(
    path: Path,
    finished: Sequence[Finished],
    command: str,
    *,
    runs: Path,
    environment: Mapping[str, Any],
) -> None:
    """Write one Markdown file with the tables of several studies, linked to their figures.

    Args:
        path: The file.
        finished: The studies; their reports are in folders of their names beside ``runs``.
        command: The command that was typed.
        runs: The file with all runs.
        environment: Versions and facts about the machine, of all runs.
    """
    place = os.path.relpath(runs.parent, path.parent).replace(os.sep, "/")
    counts, studies, others = {}, [], set()
    for study, outcomes, asked, text in finished:
        done = {outcome.run_id for outcome in outcomes if outcome.error is None}
        others |= {outcome.run_id for outcome in outcomes if outcome.other_version}
        counts[study.name] = (len(done), asked)
        body = re.sub(r"(!\[[^\]]*\]\(<)([^>]+>\))", rf"\g<1>{place}/{study.name}/\g<2>", text)
        studies.append((study.name, re.sub(r"^(#+) ", r"#\1 ", body, flags=re.MULTILINE)))
    content = (
        _templates()
        .get_template("summary.md.jinja")
        .render(
            command=command,
            runs=runs.name,
            place=place,
            is_complete=all(done == asked for done, asked in counts.values()),
            counts=", ".join(
                f"{name} {done:,} of {asked:,}" for name, (done, asked) in counts.items()
            ),
            other_version=counted(len(others), "run") if others else "",
            environment=", ".join(f"{name} {value}" for name, value in environment.items()),
            studies=studies,
            files=(TABLE_CSV, RUNS_CSV, PAGE),
        )
    )
    _write(path, content.rstrip("\n") + "\n")


def _write(path: Path, content: str) -> None:
    write_whole(path, lambda file: file.write(content))


def _remove_old_figures(folder: Path, kept: set[str]) -> None:
    for file in list(folder.glob("*.*")):
        if _FIGURE.fullmatch(file.name) and file.name not in kept:
            file.unlink()


# Markdown and HTML


def markdown_text(study: Study, found: Sequence[Section], figures: Sequence[Drawing] = ()) -> str:
    """All tables of a study as Markdown, with its title, description and figures."""
    template = _templates().get_template("results.md.jinja")
    return template.render(study=study, figures=figures, sections=found).rstrip("\n") + "\n"


def html_text(
    analysis: Analysis,
    found: Sequence[Section],
    figures: Sequence[Drawing],
    configurations: Mapping[str, Any],
    environment: Mapping[str, Any],
) -> str:
    """All of a study as one HTML page."""
    template = _templates().get_template("report.html.jinja")
    return template.render(
        study=analysis.study,
        paragraphs=[p for p in re.split(r"\n\s*\n", analysis.study.description) if p.strip()],
        overview=overview(analysis),
        num_gaps=sum(bool(result.gap) for result in analysis.results.values()),
        num_cells=len(analysis.results),
        figures=figures,
        sections=found,
        configurations=configurations,
        environment=environment,
    )


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
    environment.filters |= {
        "md": _markdown,
        "md_entry": _markdown_entry,
        "yaml": _yaml,
        "inline_svg": _inline_svg,
    }
    return environment


def _markdown(text: str) -> str:
    """Text on one line, with everything escaped that Markdown reads as markup."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def _markdown_entry(entry: Entry) -> str:
    """One field of a Markdown table."""
    lines = [_markdown(line) for line in entry.lines]
    if entry.strong and lines:
        lines[0] = f"**{lines[0]}**"
    return "; ".join(text for text in (" ".join(lines), _markdown(entry.note)) if text)


def _yaml(content: Any) -> str:
    plain = json.loads(json.dumps(content, default=str))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def _inline_svg(svg: str, caption: str, number: int) -> Markup:
    """The SVG text of a figure for use inside HTML, with ids that no other figure has."""
    opening, start = re.search(r"<svg\b[^>]*>", svg), svg.index("<svg")
    assert opening is not None
    attributes = re.sub(
        r'\s(width|height|role|aria-label|xmlns(:\w+)?|version)="[^"]*"', "", opening[0][4:]
    )

    def renamed(tag: re.Match[str]) -> str:
        return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{number}-", tag[0])

    content = re.sub(r"<[^>]*>", renamed, svg[start + len(opening[0]) :].strip())
    return Markup(f'<svg role="img" aria-label="{escape(caption)}"{attributes}{content}')


# CSV


def runs_csv(outcomes: Sequence[Outcome]) -> str:
    """One line for each run, with all its metrics as they are: shares in [0, 1]."""
    metrics = sorted({name for outcome in outcomes for name in outcome.metrics})
    columns = (
        *("id", "dataset", "method", "option", "value", "split_seed", "init_seed"),
        *("status", "error", "version"),
    )
    rows = (
        (
            outcome.run_id,
            *_names(outcome.cell),
            outcome.split_seed,
            outcome.init_seed,
            "finished" if outcome.error is None else "failed",
            outcome.error or "",
            "other" if outcome.other_version else "this",
            *(outcome.metrics.get(name, "") for name in metrics),
        )
        for outcome in outcomes
    )
    return _csv((*columns, *metrics), rows)


def table_csv(analysis: Analysis) -> str:
    """One line for each cell and reference, with all statistics and the paper's accuracy.

    Means, deviations, intervals and differences are in %, as the paper's; six digits are enough to
    compare and few enough to be the same on all machines.
    """
    rows = (
        (
            *_names(result.cell),
            *(METRIC, result.gap),
            *(result.splits_asked, result.runs_asked, result.finished, result.failed),
            *_summary(result),
            *_paper(analysis, result.cell),
            *_comparison(each.study, result),
        )
        for each in (analysis, *analysis.further)
        for result in each.results.values()
    )
    return _csv(_TABLE_COLUMNS, rows)


def _csv(columns: Sequence[str], rows: Any) -> str:
    # As objects: else a column of whole numbers with a blank becomes one of fractions.
    frame = pd.DataFrame(list(rows), columns=list(columns), dtype=object)
    return str(frame.to_csv(index=False, lineterminator="\n", na_rep="nan"))


def _names(cell: Cell) -> tuple[str, ...]:
    swept = ("", "") if cell.option is None else (cell.option, value_text(cell.value))
    return cell.dataset, cell.method, *swept


def _summary(result: Result) -> tuple[object, ...]:
    count, *shares = astuple(result.summary)
    return count, *(_number(100 * share) for share in shares)


def _paper(analysis: Analysis, cell: Cell) -> tuple[object, ...]:
    # The paper's table is not about swept options.
    comparable = analysis.on_test_nodes and cell.option is None
    return (paper_figure(cell.dataset, cell.method) if comparable else None) or ("", "")


def _comparison(study: Study, result: Result) -> tuple[object, ...]:
    if result.comparison is None:
        return ("",) * 9
    cell = study.reference_of(result.cell)
    reference = cell.method if cell.method != result.cell.method else value_text(cell.value)
    count, *differences, p_value, p_adjusted, effect, verdict = astuple(result.comparison)
    shares = (100 * share for share in differences)
    return reference, count, *map(_number, (*shares, p_value, p_adjusted, effect)), verdict


def _number(value: float) -> float | str:
    return float(f"{value:.6g}") if math.isfinite(value) else ""
