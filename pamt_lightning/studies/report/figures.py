"""The figures of a study as files: needs the extra `plots` (matplotlib)."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pamt_lightning.errors import InputError
from pamt_lightning.plots import plots_available
from pamt_lightning.studies.analysis import METRIC, Analysis, Result, analyse
from pamt_lightning.studies.outcome import Outcome
from pamt_lightning.studies.report.panels import dots, forest
from pamt_lightning.studies.report.sweep_panels import lines
from pamt_lightning.studies.report.wording import difference_label, metric_label, name_of
from pamt_lightning.studies.study import Study, Sweep

_STYLE: Any = {  # newer versions of matplotlib have a type of their own for the keys
    "font.family": "sans-serif",
    # The widest first: what replaces it on other machines is narrower, so nothing overlaps.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial", "sans-serif"],
    "font.size": 7.5,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#4d4d4d",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "text.parse_math": False,  # else what is between two dollar signs is a formula
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and copied
    "svg.hashsalt": "pamt",  # the same figure gives the same bytes
}


class Drawing(NamedTuple):
    """A figure with its file name (without ending) and its caption."""

    name: str
    caption: str
    figure: Any


class Written(NamedTuple):
    """A figure that was written: its file name (without ending), its caption, its SVG text."""

    name: str
    caption: str
    svg: str


def write_figures(
    folder: Path, study: Study, outcomes: Sequence[Outcome], metric: str = METRIC
) -> list[Written]:
    """Write each figure as PNG and SVG.

    Args:
        folder: Where to; made if need be.
        study: The study.
        outcomes: Its runs.
        metric: The metric that is shown.

    Returns:
        What was written, in the order in which it is shown.
    """
    written = []
    for name, caption, figure in draw(study, outcomes, metric):
        svg = svg_text(figure)
        _write_bytes(folder / f"{name}.svg", svg.encode())
        _write_bytes(folder / f"{name}.png", png_bytes(figure))
        written.append(Written(name, caption, svg))
    return written


def draw(study: Study, outcomes: Sequence[Outcome], metric: str = METRIC) -> list[Drawing]:
    """All figures of a study.

    Without sweeps: the means, and the differences from the reference. With sweeps, the same two for
    each swept option, against its values. A figure with nothing to show is left out.

    Raises:
        InputError: matplotlib is not installed.
    """
    if not plots_available():
        raise InputError("figures need matplotlib: pip install 'pamt-lightning[plots]'.")
    analysis = analyse(study, outcomes, metric)
    with _style():
        if not study.sweeps:
            return _without_sweeps(analysis)
        return [drawing for sweep in study.sweeps for drawing in _of_sweep(analysis, sweep)]


def svg_text(figure: Any) -> str:
    """A figure as SVG, text as text, without a date."""
    file = io.StringIO()
    with _style():
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=nothing)
    return re.sub(r"[ \t]+$", "", file.getvalue(), flags=re.MULTILINE)


def png_bytes(figure: Any, dpi: int = 300) -> bytes:
    """A figure as PNG, without the version of matplotlib."""
    file = io.BytesIO()
    with _style():
        figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    return file.getvalue()


def _without_sweeps(analysis: Analysis) -> list[Drawing]:
    results = list(analysis.results.values())
    cut = "An arrow at the edge: so far off that the axis leaves it out, with its figure beside it."
    found, uneven = [], _uneven(results)
    if _any_mean(results):
        caption = f"{metric_label(analysis)}: means with 95 % bootstrap intervals. {cut}{uneven}"
        found.append(Drawing("results", caption, dots(analysis)))
    if _any_difference(results):
        caption = f"{_difference(analysis)}: means with 95 % bootstrap intervals. {cut}{uneven}"
        found.append(Drawing("differences", caption, forest(analysis)))
    return found


def _uneven(results: Sequence[Result]) -> str:
    """That means of different splits stand side by side, where they do."""
    counts = {result.summary.count for result in results} - {0}
    if len(counts) < 2:
        return ""
    return f" Not all splits are run everywhere: means are of {min(counts)} to {max(counts)}."


def _of_sweep(analysis: Analysis, sweep: Sweep) -> list[Drawing]:
    results = [result for cell, result in analysis.results.items() if cell.option == sweep.option]
    name = re.sub(r"\W+", "-", sweep.option)
    found, uneven = [], _uneven(results)
    if _any_mean(results):
        caption = (
            f"{metric_label(analysis)} by {name_of(sweep)}: means with 95 % bootstrap intervals."
            f"{uneven}"
        )
        found.append(Drawing(f"sweep-{name}", caption, lines(analysis, sweep)))
    # The reference itself may be compared with its configured value; that is no line here.
    others = [r for r in results if r.cell.method != analysis.study.reference]
    if _any_difference(others):
        caption = (
            f"{_difference(analysis)}, by {name_of(sweep)}: means with 95 % bootstrap intervals. "
            f"Filled markers: a difference was shown; hollow ones: none was.{uneven}"
        )
        figure = lines(analysis, sweep, differences=True)
        found.append(Drawing(f"differences-{name}", caption, figure))
    return found


def _any_mean(results: Sequence[Result]) -> bool:
    return any(result.summary.count for result in results)


def _any_difference(results: Sequence[Result]) -> bool:
    return any(result.comparison and result.comparison.count > 1 for result in results)


def _difference(analysis: Analysis) -> str:
    label = difference_label(analysis)
    return label[:1].upper() + label[1:]


def _style() -> contextlib.AbstractContextManager[Any]:
    import matplotlib as mpl

    stack = contextlib.ExitStack()
    stack.enter_context(mpl.rc_context())
    mpl.rcdefaults()  # what a user's own matplotlibrc says must not change committed files
    mpl.rcParams.update(_STYLE)
    return stack


def _write_bytes(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as part:
            (Path(part) / path.name).write_bytes(content)
            os.replace(Path(part) / path.name, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from None
