"""All that a study leaves for people: Markdown, CSV, figures and one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pamt_lightning.experiments.csv_files import runs_csv, table_csv
from pamt_lightning.experiments.expand import Run, outcomes
from pamt_lightning.experiments.html_report import write_html
from pamt_lightning.experiments.markdown import markdown_report
from pamt_lightning.experiments.store import Store
from pamt_lightning.experiments.study import Study
from pamt_lightning.plots import plots_available
from pamt_lightning.runs import write_whole

TABLES, PAGE, RUNS_CSV, TABLE_CSV = "results.md", "report.html", "runs.csv", "table.csv"


def write_reports(study: Study, runs: Sequence[Run], store: Store, folder: Path) -> str:
    """Write everything into a folder; returns the Markdown.

    Args:
        study: The study.
        runs: All its runs, done or not.
        store: Where those that are done lie.
        folder: Where to write.
    """
    rows = store.rows()
    found = outcomes(runs, rows)
    drawn: dict[str, str] = {}
    images: dict[str, str] = {}
    if plots_available():
        from pamt_lightning.experiments.figures import write_figures

        before = {file.name for file in folder.glob("*.svg")}
        written = write_figures(folder, study, found)
        drawn = dict(written)
        images = _images(folder, drawn)
        for name in before - {Path(address).name for address in images.values()}:
            (folder / name).unlink()  # of an earlier state of the study
            (folder / name).with_suffix(".png").unlink(missing_ok=True)
    text = markdown_report(study, found, images=images)
    for name, content in (
        (TABLES, text),
        (RUNS_CSV, runs_csv(found)),
        (TABLE_CSV, table_csv(study, found)),
    ):
        write_whole(folder / name, lambda file, content=content: file.write(content))  # type: ignore[misc]
    context = store.context()
    write_html(
        folder / PAGE,
        study,
        found,
        configurations=_configurations(runs),
        environment=_environment(runs, rows, context),
        figures=drawn,
    )
    return text


def _images(folder: Path, drawn: Mapping[str, str]) -> dict[str, str]:
    """File of each figure by its caption."""
    by_text = {file.read_text(encoding="utf-8"): file.name for file in folder.glob("*.svg")}
    return {caption: by_text[svg] for caption, svg in drawn.items()}


def _configurations(runs: Sequence[Run]) -> dict[str, Any]:
    """The configuration of each method on each data set, as it is outside of sweeps."""
    found: dict[str, Any] = {}
    for run in runs:
        name = f"{run.cell.method} on {run.cell.dataset}"
        swept = "" if run.cell.option is None else f" ({run.cell.option} varied)"
        found.setdefault(name + swept, dict(run.config))
    return found


def _environment(
    runs: Sequence[Run], rows: Mapping[str, Mapping[str, Any]], context: Mapping[str, Any]
) -> dict[str, Any]:
    """Versions and machine of the runs; if they differ, all values of what does."""
    keys = {rows[run.run_id].get("environment") for run in runs if run.run_id in rows}
    merged: dict[str, list[str]] = {}
    for key in sorted(str(key) for key in keys if key):
        for name, value in context.get(key, {}).items():
            values = merged.setdefault(name, [])
            if str(value) not in values:
                values.append(str(value))
    return {name: ", ".join(values) for name, values in merged.items()}
