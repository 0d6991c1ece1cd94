"""The reports of a study: Markdown, CSV, SVG figures and one self-contained HTML page."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pamt_lightning.files import write_whole
from pamt_lightning.plots import plots_available
from pamt_lightning.studies.analysis import LEVEL, METRIC, Analysis, analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.paper import SOURCE
from pamt_lightning.studies.report import tables
from pamt_lightning.studies.report.figures import Drawing, draw
from pamt_lightning.studies.report.tables import value_text
from pamt_lightning.studies.study import Study

RESULTS, PAGE, RUNS_CSV, TABLE_CSV = "results.md", "report.html", "runs.csv", "table.csv"

# The names of our figures (PNG files are of earlier versions): no other file is ever removed.
_FIGURE = re.compile(r"(results|differences|(sweep|differences)-.*)\.(svg|png)")
# What Markdown reads as markup. Not so `PAMT_0`, `[84.50, 85.69]` and `< 0.001`.
_MARKUP = re.compile(r"[\\|*`~]|<(?!\s)|&(?=#?\w+;)|\](?=[(\[])|(?<!\w)_|_(?!\w)")

# Columns of the CSV files.
_CELL = ("dataset", "method", "option", "value")
_RUN = ("split_seed", "init_seed", "status", "error", "version")
_RESULT = (
    *("metric", "missing", "splits_asked", "runs_asked", "runs_finished", "runs_failed"),
    *("splits", "mean", "std", "low", "high", "paper_mean", "paper_std"),
)
_COMPARED = (
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
    drawings = draw(analysis) if plots_available() else []
    if plots_available():
        kept = {f"{drawing.name}.svg" for drawing in drawings}
        for file in list(folder.glob("*.*")):
            if _FIGURE.fullmatch(file.name) and file.name not in kept:
                file.unlink()
    text = markdown_text(analysis, drawings)
    contents = {
        **{f"{drawing.name}.svg": drawing.svg for drawing in drawings},
        RESULTS: text,
        RUNS_CSV: runs_csv(outcomes),
        TABLE_CSV: table_csv(analysis),
        PAGE: html_text(analysis, drawings, configurations, environment),
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
    counts, texts, others = {}, [], set()
    for study, outcomes, asked, text in finished:
        done = {outcome.run_id for outcome in outcomes if outcome.error is None}
        others |= {outcome.run_id for outcome in outcomes if outcome.other_version}
        counts[study.name] = (len(done), asked)
        body = re.sub(r"(!\[[^\]]*\]\(<)([^>]+>\))", rf"\g<1>{place}/{study.name}/\g<2>", text)
        texts.append((study.name, re.sub(r"^(#+) ", r"#\1 ", body, flags=re.MULTILINE)))
    template = _templates().get_template("summary.md.jinja")
    content = template.render(
        command=command,
        runs=runs.name,
        place=place,
        counts=counts,
        is_complete=all(done == asked for done, asked in counts.values()),
        other_version=len(others),
        environment=environment,
        texts=texts,
        files=(TABLE_CSV, RUNS_CSV, PAGE),
    )
    _write(path, content.rstrip("\n") + "\n")


def _write(path: Path, content: str) -> None:
    write_whole(path, lambda file: file.write(content))


# Markdown and HTML


def markdown_text(analysis: Analysis, drawings: Sequence[Drawing] = ()) -> str:
    """All tables of a study as Markdown, with its title, description and figures."""
    text = _templates().get_template("results.md.jinja").render(_context(analysis, drawings))
    return text.rstrip("\n") + "\n"


def html_text(
    analysis: Analysis,
    drawings: Sequence[Drawing],
    configurations: Mapping[str, Any],
    environment: Mapping[str, Any],
) -> str:
    """All of a study as one HTML page."""
    description = analysis.study.description
    return (
        _templates()
        .get_template("report.html.jinja")
        .render(
            _context(analysis, drawings),
            paragraphs=[text for text in re.split(r"\n\s*\n", description) if text.strip()],
            source=SOURCE,
            configurations=configurations,
            environment=environment,
        )
    )


def _context(analysis: Analysis, drawings: Sequence[Drawing]) -> dict[str, Any]:
    return {"analysis": analysis, "study": analysis.study, "drawings": drawings}


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
    environment.globals |= {"tables": tables, "level": LEVEL}
    environment.filters |= {
        "counted": tables.counted,
        "value": tables.value_text,
        "md": _markdown,
        "md_entry": _markdown_entry,
        "text": lambda text: escape(" ".join(str(text).split())),
        "slug": lambda title: re.sub(r"\W+", "-", title.lower()).strip("-"),
        "headings": lambda html: re.findall(r'<h2 id="([^"]+)">(.*)</h2>', html),
        "yaml": _yaml,
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


def _yaml(content: Any) -> str:
    plain = json.loads(json.dumps(content, default=str))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


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
    ]
    return _csv(("id", *_CELL, *_RUN, *metrics), rows)


def table_csv(analysis: Analysis) -> str:
    """One line for each cell and reference, with all statistics and the paper's accuracy.

    Means, deviations, intervals and differences are in %, as the paper's; six digits are enough to
    compare and few enough to be the same on all machines.
    """
    rows = []
    for each in (analysis, *analysis.further):
        for result in each.results.values():
            summary, comparison = result.summary, result.comparison
            shares = (summary.mean, summary.std, summary.low, summary.high)
            compared: tuple[object, ...] = ("",) * len(_COMPARED)
            if comparison is not None:
                other = each.study.reference_of(result.cell)
                same_method = other.method == result.cell.method
                compared = (
                    value_text(other.value) if same_method else other.method,
                    comparison.count,
                    *map(_percent, (comparison.difference, comparison.low, comparison.high)),
                    *map(_number, (comparison.p_value, comparison.p_adjusted, comparison.effect)),
                    comparison.verdict,
                )
            rows.append(
                (
                    *_names(result.cell),
                    *(METRIC, result.gap),
                    *(result.splits_asked, result.runs_asked, result.finished, result.failed),
                    *(summary.count, *map(_percent, shares)),
                    *(result.paper or ("", "")),
                    *compared,
                )
            )
    return _csv((*_CELL, *_RESULT, *_COMPARED), rows)


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    # As objects: else a column of whole numbers with a blank becomes one of fractions.
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    return str(frame.to_csv(index=False, lineterminator="\n", na_rep="nan"))


def _names(cell: Cell) -> tuple[str, ...]:
    swept = ("", "") if cell.option is None else (cell.option, value_text(cell.value))
    return cell.dataset, cell.method, *swept


def _percent(share: float) -> float | str:
    return _number(100 * share)


def _number(value: float) -> float | str:
    return float(f"{value:.6g}") if math.isfinite(value) else ""
