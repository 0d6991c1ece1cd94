"""All that a study leaves for people: Markdown, CSV, figures and one HTML page."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pamt_lightning.plots import plots_available
from pamt_lightning.studies.expand import Run, outcomes
from pamt_lightning.studies.other_code import known_rows
from pamt_lightning.studies.report.csv_files import runs_csv, table_csv
from pamt_lightning.studies.report.html_report import write_html
from pamt_lightning.studies.report.markdown import markdown_report
from pamt_lightning.studies.report.wording import counted
from pamt_lightning.studies.store import RUNS, Store
from pamt_lightning.studies.study import Study
from pamt_lightning.training.folders import write_whole

TABLES, PAGE, RUNS_CSV, TABLE_CSV = "results.md", "report.html", "runs.csv", "table.csv"
# The names that `figures` gives, so that no file of somebody else is ever taken for an old one.
_FIGURE = re.compile(r"(results|differences|(sweep|differences)-.*)\.(svg|png)")


class Finished(NamedTuple):
    """A study whose reports are written.

    Attributes:
        study: The study.
        runs: All its runs, done or not.
        text: Its tables as Markdown.
    """

    study: Study
    runs: Sequence[Run]
    text: str


def write_reports(
    study: Study, runs: Sequence[Run], store: Store, folder: Path, *, any_code: bool = False
) -> str:
    """Write everything into a folder; returns the Markdown.

    Args:
        study: The study.
        runs: All its runs, done or not.
        store: Where those that are done lie.
        folder: Where to write.
        any_code: Whether runs of another version of the code count; see `known_rows`.
    """
    rows = known_rows(runs, store, any_code=any_code)
    found = outcomes(runs, rows)
    drawn: dict[str, str] = {}
    images: dict[str, str] = {}
    if plots_available():
        from pamt_lightning.studies.report.figures import write_figures

        for name, caption, svg in write_figures(folder, study, found):
            drawn[caption], images[caption] = svg, f"{name}.svg"
        _remove_old_figures(folder, set(images.values()))
    text = markdown_report(study, found, images=images)
    for name, content in (
        (TABLES, text),
        (RUNS_CSV, runs_csv(found)),
        (TABLE_CSV, table_csv(study, found)),
    ):
        write_whole(folder / name, lambda file, content=content: file.write(content))  # type: ignore[misc]
    write_html(
        folder / PAGE,
        study,
        found,
        configurations=_configurations(runs),
        environment=_environment(runs, rows, store.context()),
        figures=drawn,
    )
    return text


def write_summary(
    path: Path,
    finished: Sequence[Finished],
    store: Store,
    command: str,
    *,
    any_code: bool = False,
) -> None:
    """One Markdown file with the tables of several studies; pictures stay where they are.

    Args:
        path: The file.
        finished: The studies, whose reports lie in folders of their names beside the runs.
        store: Where the runs lie.
        command: What was typed.
        any_code: As in `write_reports`.
    """
    wanted = [run for _, runs, _ in finished for run in runs]
    rows = known_rows(wanted, store, any_code=any_code)
    place = os.path.relpath(store.folder, path.parent).replace(os.sep, "/")
    parts = [f"# Results\n\n{_about(finished, rows, store.context(), command, place)}\n"]
    for study, _, text in finished:
        home = f"{place}/{study.name}"
        body = re.sub(r"(!\[[^\]]*\]\(<)([^>]+>\))", rf"\g<1>{home}/\g<2>", text)
        body = re.sub(r"^(#+) ", r"#\1 ", body, flags=re.MULTILINE)
        files = ", ".join(f"[{file}](<{home}/{file}>)" for file in (TABLE_CSV, RUNS_CSV, PAGE))
        parts.append(f"{body}\nFiles: {files}.\n")
    content = "\n".join(parts)
    write_whole(path, lambda file: print(content, end="", file=file))


def finished_ids(runs: Iterable[Run], rows: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The runs that are done and did not fail."""
    ids = {run.run_id for run in runs} & rows.keys()
    return {run_id for run_id in ids if rows[run_id].get("error") is None}


def _about(
    finished: Sequence[Finished],
    rows: Mapping[str, Mapping[str, Any]],
    context: Mapping[str, Any],
    command: str,
    place: str,
) -> str:
    """What the summary is, how much of it there is yet, and what it was computed with."""
    counts = {
        study.name: (len(finished_ids(runs, rows)), len({run.run_id for run in runs}))
        for study, runs, _ in finished
    }
    said = ", ".join(f"{name} {done:,} of {total:,}" for name, (done, total) in counts.items())
    whole = all(done == total for done, total in counts.values())
    state = f"{'All runs are done' if whole else '**Not all runs are done**'}: {said}."
    if not whole:
        state += " The tables of a study with runs missing are incomplete and will change."
    wanted = [run for _, runs, _ in finished for run in runs]
    ids = {run.run_id for run in wanted} & rows.keys()
    if others := sum(bool(rows[run_id].get("other_code")) for run_id in ids):
        state += f" **Computed by another version of the code: {counted(others, 'run')}.**"
    versions = _environment(wanted, rows, context)
    made_with = ", ".join(f"{name} {value}" for name, value in versions.items())
    return (
        f"Tables and figures of studies, written by `{command}` from the runs in "
        f"[{RUNS}](<{place}/{RUNS}>); the next such command replaces this file. {state}"
        + (f" Computed with: {made_with}." if made_with else "")
    )


def _remove_old_figures(folder: Path, kept: set[str]) -> None:
    """Remove figures of an earlier state of the study, and nothing else."""
    for file in list(folder.glob("*.*")):
        if _FIGURE.fullmatch(file.name) and file.with_suffix(".svg").name not in kept:
            file.unlink()


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
