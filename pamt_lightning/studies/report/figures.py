"""The figures of a study: methods as rows, and lines of a sweep.

Needs the extra `plots` (matplotlib).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pamt_lightning.plots import short_name, svg_text
from pamt_lightning.studies.analysis import Analysis, Result
from pamt_lightning.studies.report.tables import VERDICTS, signed, value_text
from pamt_lightning.studies.study import Cell, Study, Sweep

# Colours of Okabe and Ito, which can be told apart with colour blindness.
EMPHASIS, BLUE, GREEN, GREY = "#d55e00", "#0072b2", "#009e73", "#707070"

_STYLE: Any = {  # newer versions of matplotlib have a type of their own for the keys
    # The widest first: what replaces it on other machines is narrower, so nothing overlaps.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial", "sans-serif"],
    "font.size": 7.5,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "lines.markeredgewidth": 0.8,
    "legend.frameon": False,
    "text.parse_math": False,  # else text between two dollar signs is a formula
}
_WIDTH = 7.2  # inches: both columns of a page
_LABEL_GAP = 0.125  # inches between the names of two lines
_SMALL = 6.5  # font size inside a panel
_IN_ROW: Any = {"va": "center_baseline", "fontsize": _SMALL}
_BESIDE: Any = {  # of a legend
    **{"loc": "center left", "bbox_to_anchor": (1, 0.5), "borderaxespad": 0.2},
    **{"fontsize": _SMALL, "labelspacing": 0.25, "handlelength": 1.8, "handletextpad": 0.5},
}

# What a line or mark looks like, as options of matplotlib.
Look = Mapping[str, Any]


def _filled(colour: str, marker: str, size: float = 4.2) -> Look:
    return {"color": colour, "marker": marker, "mfc": colour, "ms": size, "lw": 1.2}


def _hollow(look: Look) -> Look:
    return {**look, "mfc": "white"}


_PAPER = {**_hollow(_filled(GREY, "D")), "lw": 0}  # without an interval
_VERDICTS = {
    "better": _filled(GREEN, "^"),
    "worse": _filled(BLUE, "v"),
    "tie": _hollow(_filled(GREY, "o")),
    "too few": _hollow(_filled(GREY, "s")),
}
# Okabe and Ito without yellow, which is too light on white, and without that of the reference.
_COLOURS = (BLUE, GREEN, "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.3)), (0, (1.2, 1.2)))
_MARKERS = "s^Dv<>Phdp*X8H"


class Drawing(NamedTuple):
    """A figure, of means or of differences, and the name of its file without ending."""

    name: str
    figure: Any
    svg: str
    sweep: Sweep | None
    differences: bool


class Span(NamedTuple):
    """A mean with its interval, in % or in points; nan if there is none."""

    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan


def draw(analysis: Analysis) -> list[Drawing]:
    """All figures of a study.

    Without sweeps: the means, and the differences from the reference. With sweeps, the same two for
    each swept option, against its values. A figure with nothing to show is left out.
    """
    from matplotlib.style import context

    study = analysis.study
    found: list[Drawing] = []
    # After a reset: a user's own matplotlibrc must not change committed files.
    with context(_STYLE, after_reset=True):
        for sweep, differences in product(study.sweeps or (None,), (False, True)):
            methods = _methods(study, differences)
            spans = [_span(r, differences) for r in analysis.of(sweep) if r.cell.method in methods]
            if all(math.isnan(span.mean) for span in spans):
                continue
            if sweep is None:
                name, ending, figure = "results", "", rows(analysis, differences)
            else:
                name, ending = "sweep", "-" + re.sub(r"\W+", "-", sweep.option)
                figure = lines(analysis, sweep, differences)
            name = ("differences" if differences else name) + ending
            found.append(Drawing(name, figure, svg_text(figure), sweep, differences))
    return found


def _span(result: Result, differences: bool) -> Span:
    if differences and result.comparison is None:
        return Span()
    found: Any = result.comparison if differences else result.summary
    mean = found.difference if differences else found.mean
    # A mean of one split has no interval: its two ends are the mean.
    low, high = (mean if math.isnan(end) else end for end in (found.low, found.high))
    return Span(100 * mean, 100 * low, 100 * high)


def _grid(datasets: Sequence[str], columns: int, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure with one titled panel for each data set; the height is that of one row."""
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    rows = math.ceil(len(datasets) / columns)
    figure = Figure(figsize=(_WIDTH, rows * height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axes in panels[len(datasets) :]:
        axes.set_axis_off()
    for axes, dataset in zip(panels, datasets, strict=False):
        axes.set_title(short_name(dataset))
    return figure, list(panels[: len(datasets)])


def _methods(study: Study, differences: bool) -> list[str]:
    """The methods of a figure: the reference does not differ from itself."""
    return [each for each in study.methods if not differences or each != study.reference]


def _label(analysis: Analysis, differences: bool, between: str = " ") -> str:
    if differences:
        return f"Difference from {analysis.study.reference}{between}in points"
    return f"{analysis.metric.capitalize()} in %"


# Methods as rows


def rows(analysis: Analysis, differences: bool = False) -> Any:
    """Methods as rows: means with intervals, and the paper's means as hollow diamonds.

    Or differences from the reference with intervals; colour and marker are the verdict.
    """
    study, methods = analysis.study, _methods(analysis.study, differences)
    columns = min(len(study.datasets), 4)
    figure, panels = _grid(study.datasets, columns, 0.185 * len(methods) + 1.0, sharey=True)
    panels[0].set_yticks(range(len(methods)), [short_name(method) for method in methods])
    panels[0].set_ylim(len(methods) - 0.4, -0.6)
    mean, paper_mean = "mean and 95 % interval", "the paper's mean, on its own splits"
    looks = {mean: _filled(BLUE, "o"), study.reference: _filled(EMPHASIS, "o"), paper_mean: _PAPER}
    shown = {mean}
    if differences:
        looks, shown = {VERDICTS[name]: look for name, look in _VERDICTS.items()}, set()
    for dataset, axes in zip(study.datasets, panels, strict=True):
        axes.grid(True)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        results = [analysis.results[Cell(dataset, method)] for method in methods]
        spans = [_span(result, differences) for result in results]
        papers = [Span()] * len(results)
        if differences:
            _limit(axes, [*spans, Span(0, 0, 0)])
            axes.axvline(0, color=EMPHASIS, lw=1, zorder=1)
        else:
            papers = [Span(*[r.paper[0] if r.paper else math.nan] * 3) for r in results]
            _limit(axes, [*spans, *papers])
        for row, (result, span, paper) in enumerate(zip(results, spans, papers, strict=True)):
            name, text = VERDICTS[result.verdict], signed(span.mean, 1)
            if not differences:
                name, text = mean, f"{span.mean:.1f}"
                if result.cell.method == study.reference:
                    name = study.reference
                    axes.axvline(span.mean, color=EMPHASIS, lw=0.6, ls=(0, (2, 2)), zorder=1)
            shown |= {name} if math.isnan(paper.mean) else {name, paper_mean}
            if _side(axes, span.mean) and _side(axes, span.mean) == _side(axes, paper.mean):
                text += f", paper {paper.mean:.1f}"  # two arrows would overlap
            else:
                _mark(axes, row, paper, _PAPER, f"{paper.mean:.1f}")
            if result.verdict == "unknown" if differences else not result.summary.count:
                _write(axes, row, result.gap or VERDICTS["unknown"], avoid=paper.mean)
            else:
                _mark(axes, row, span, looks[name], text)
    figure.supxlabel(_label(analysis, differences), fontsize=8)
    if study.reference in methods:
        panels[0].get_yticklabels()[methods.index(study.reference)].set_weight("bold")
    keys = [(name, look) for name, look in looks.items() if name in shown]
    _legend(figure, keys, loc="outside upper center", ncols=len(keys))
    return figure


def _legend(owner: Any, keys: Sequence[tuple[str, Look]], **place: Any) -> Any:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=label, **look) for label, look in keys]
    return owner.legend(handles=handles, **place)


def _limit(axes: Any, spans: Sequence[Span]) -> None:
    """Set limits that leave out outliers, so that the others can be told apart."""
    known = [span for span in spans if not math.isnan(span.mean)]
    if not known:
        axes.set(xlim=(0, 1), xticks=[])
        return
    lower, upper = np.quantile([span.mean for span in known], [0.25, 0.75])
    reach = max(1.5 * (upper - lower), 1.0)
    left, right = float(lower - reach), float(upper + reach)
    for _ in known:  # the room for arrows may take in what was an outlier
        inside = [span for span in known if left <= span.mean <= right or span.mean == 0]
        low, high = min(span.low for span in inside), max(span.high for span in inside)
        small, large = max(0.06 * (high - low), 0.05), 0.38 * (high - low)
        left = low - (large if any(span.mean < low for span in known) else small)
        right = high + (large if any(span.mean > high for span in known) else small)
    axes.set_xlim(left, right)
    axes.locator_params(axis="x", nbins=5, steps=[1, 2, 5, 10])


def _mark(axes: Any, row: int, span: Span, look: Look, text: str) -> None:
    """Draw a mean with its interval, or an arrow with its text if it is outside the panel."""
    if math.isnan(span.mean):
        return
    front = 3 if look["mfc"] == "white" else 4
    side = _side(axes, span.mean)
    if not side:
        if span.low < span.high:  # the paper's means have no interval
            axes.plot([span.low, span.high], [row, row], color=look["color"], lw=1.2, zorder=2)
        axes.plot(span.mean, row, **look, zorder=front)
        return
    left, right = axes.get_xlim()
    edge, align = (left, "left") if side < 0 else (right, "right")
    step = -side * (right - left)
    arrow = {**look, "marker": "<" if side < 0 else ">"}
    axes.plot(edge + 0.03 * step, row, **arrow, zorder=front)
    axes.text(edge + 0.08 * step, row, text, ha=align, color=look["color"], **_IN_ROW)


def _side(axes: Any, x: float) -> int:
    """-1 if left of the panel, 1 if right of it, 0 if inside or nan."""
    left, right = axes.get_xlim()
    return int(x > right) - int(x < left)


def _write(axes: Any, row: int, text: str, avoid: float = math.nan) -> None:
    """Write what is missing into a row, beside the mark at ``avoid``."""
    left, right = axes.get_xlim()
    share = 0.5 if math.isnan(avoid) else 0.25 if avoid > (left + right) / 2 else 0.75
    x = left + share * (right - left)
    axes.text(x, row, text, ha="center", style="italic", color=GREY, **_IN_ROW)


# Lines of a sweep


def lines(analysis: Analysis, sweep: Sweep, differences: bool = False) -> Any:
    """The mean of each method against the swept value, or its difference from the reference."""
    study = analysis.study
    looks = _looks(study)
    methods = _methods(study, differences)
    columns = min(len(study.datasets), 3) if len(study.datasets) != 4 else 2
    height = min(max(2.2, _LABEL_GAP * len(methods) + 1.3), 4.5)
    figure, panels = _grid(study.datasets, columns, height)
    # Numbers are placed at their value, anything else side by side.
    is_numeric = all(type(value) in (int, float) for value in sweep.values)
    positions: list[Any] = [*sweep.values] if is_numeric else [*range(len(sweep.values))]
    for number, (dataset, axes) in enumerate(zip(study.datasets, panels, strict=True)):
        ends = {}  # of the lines, by method
        for method in methods:
            cells = [Cell(dataset, method, sweep.option, value) for value in sweep.values]
            results = [analysis.results[cell] for cell in cells]
            if (end := _line(axes, positions, results, looks[method], differences)) is not None:
                ends[method] = end
        if not ends:
            axes.set(xticks=[], yticks=[])
            place = {"transform": axes.transAxes, "ha": "center", "va": "center"}
            axes.text(0.5, 0.5, "not run", color=GREY, style="italic", **place)
            continue
        axes.grid(True)
        axes.set_xlabel(sweep.symbol or sweep.option)
        if number % columns == 0:
            axes.set_ylabel(_label(analysis, differences, "\n"))
        if differences:  # the reference is the line of zeros
            axes.axhline(0, color=EMPHASIS, lw=2, zorder=2)
            ends[study.reference] = 0.0
        shown = slice(None, None, math.ceil(len(positions) / 8))
        if not is_numeric or len(positions) <= 8:
            axes.set_xticks(positions[shown], [value_text(v) for v in sweep.values[shown]])
        # Names stand beside the panel, in the order of the right ends of the lines.
        names = sorted(ends, key=lambda name: ends[name], reverse=True)
        legend = _legend(axes, [(short_name(name), looks[name]) for name in names], **_BESIDE)
        if study.reference in ends:
            legend.get_texts()[names.index(study.reference)].set_weight("bold")
    return figure


def _looks(study: Study) -> dict[str, Look]:
    looks: dict[str, Look] = {study.reference: {**_filled(EMPHASIS, "o", 4.5), "ls": "-", "lw": 2}}
    for number, method in enumerate(_methods(study, differences=True)):
        look = _filled(_COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)], 3.6)
        looks[method] = {**look, "ls": _DASHES[number // len(_COLOURS) % len(_DASHES)], "lw": 1}
    return looks


def _line(
    axes: Any, positions: Sequence[float], results: Sequence[Result], look: Look, differences: bool
) -> float | None:
    """Draw the line of one method; returns its last mean, or none if there is nothing to draw."""
    knots = sorted(
        (place, *span, not differences or result.verdict in ("better", "worse"))
        for place, result in zip(positions, results, strict=True)
        for span in [_span(result, differences)]
        if not math.isnan(span.mean)
    )
    if not knots:
        return None
    x, means, low, high, _ = zip(*knots, strict=True)
    front = 5 if look["color"] == EMPHASIS else 3
    axes.fill_between(x, low, high, color=look["color"], lw=0, alpha=0.15, zorder=1.5)
    axes.plot(x, means, **{**look, "marker": "None"}, zorder=front)
    for place, mean, *_, is_shown in knots:
        mark = look if is_shown else _hollow(look)
        axes.plot(place, mean, **mark, zorder=front + 0.5)
    return float(means[-1])
