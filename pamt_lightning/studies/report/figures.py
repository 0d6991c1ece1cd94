"""The figures of a study: dots and forest (methods as rows), and lines of a sweep.

Needs the extra `plots` (matplotlib).
"""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from pamt_lightning.errors import InputError
from pamt_lightning.plots import plots_available
from pamt_lightning.studies.analysis import Analysis, Result
from pamt_lightning.studies.outcome import Cell, Value
from pamt_lightning.studies.paper import paper_figure
from pamt_lightning.studies.report.tables import (
    VERDICTS,
    difference_label,
    metric_label,
    signed,
    sweep_name,
    value_text,
)
from pamt_lightning.studies.study import Study, Sweep

# Colours of Okabe and Ito, which can be told apart with colour blindness.
EMPHASIS, BLUE, GREEN = "#d55e00", "#0072b2", "#009e73"
GREY, INK = "#707070", "#222222"

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
    "text.parse_math": False,  # else text between two dollar signs is a formula
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and copied
    "svg.hashsalt": "pamt",  # the same figure gives the same bytes
}
_WIDTH = 7.2  # inches: both columns of a page
_ROW = 0.185  # inches
_LABEL_GAP = 0.125  # inches between the labels of two lines
_MOST_COLUMNS = 4
_LONGEST_NAME = 22

_VERDICT_MARKS = {  # colour, marker, filled
    "better": (GREEN, "^", True),
    "worse": (BLUE, "v", True),
    "tie": (GREY, "o", False),
    "too few": (GREY, "s", False),
}
# Okabe and Ito without yellow, which is too light on white, and without that of the reference.
_COLOURS = (BLUE, GREEN, "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.3)), (0, (1.2, 1.2)))
_MARKERS = "s^Dv<>Phdp*X8H"


@dataclass(frozen=True)
class Drawing:
    """A figure with its file name (without ending) and its caption."""

    name: str
    caption: str
    figure: Any

    @cached_property
    def svg(self) -> str:
        """The figure as SVG, text as text, without a date."""
        file = io.StringIO()
        with _style():
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            self.figure.savefig(file, format="svg", metadata=nothing)
        return re.sub(r"[ \t]+$", "", file.getvalue(), flags=re.MULTILINE)


class Span(NamedTuple):
    """A mean with its interval, in % or in points; nan if there is none."""

    mean: float
    low: float
    high: float


class _Look(NamedTuple):
    colour: str
    dash: Any
    marker: str
    width: float
    size: float
    is_reference: bool


def draw(analysis: Analysis) -> list[Drawing]:
    """All figures of a study.

    Without sweeps: the means, and the differences from the reference. With sweeps, the same two for
    each swept option, against its values. A figure with nothing to show is left out.

    Raises:
        InputError: matplotlib is not installed.
    """
    if not plots_available():
        raise InputError("figures need matplotlib: pip install 'pamt-lightning[plots]'.")
    study, found = analysis.study, []
    with _style():
        for sweep in study.sweeps or (None,):
            results = [
                result
                for cell, result in analysis.results.items()
                if sweep is None or cell.option == sweep.option
            ]
            ending = "" if sweep is None else "-" + re.sub(r"\W+", "-", sweep.option)
            if any(result.summary.count for result in results):
                caption = _caption(metric_label(analysis), sweep, results)
                figure = dots(analysis) if sweep is None else lines(analysis, sweep)
                found.append(Drawing(f"sweep{ending}" if sweep else "results", caption, figure))
            # The reference may be compared with its configured value; that is no line here.
            compared = [
                result.comparison
                for result in results
                if result.comparison and result.cell.method != study.reference
            ]
            if any(comparison.count > 1 for comparison in compared):
                label = difference_label(analysis)
                caption = _caption(label[:1].upper() + label[1:], sweep, results, differences=True)
                figure = forest(analysis) if sweep is None else lines(analysis, sweep, True)
                found.append(Drawing(f"differences{ending}", caption, figure))
    return found


@contextlib.contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own matplotlibrc must not change committed files
        mpl.rcParams.update(_STYLE)
        yield


def _caption(
    label: str, sweep: Sweep | None, results: Sequence[Result], *, differences: bool = False
) -> str:
    parts = [f"{label}: means with 95 % bootstrap intervals."]
    if sweep is None:
        parts.append("An arrow at the edge marks a value outside the axis, printed beside it.")
    else:
        by = ", by" if differences else " by"
        parts = [f"{label}{by} {sweep_name(sweep)}: means with 95 % bootstrap intervals."]
        if differences:
            parts.append("Filled markers: a difference was shown; hollow markers: none was.")
    counts = {result.summary.count for result in results} - {0}
    if len(counts) > 1:
        parts.append(
            f"Not all splits were run everywhere: means are over {min(counts)} to {max(counts)} "
            "splits."
        )
    return " ".join(parts)


def _mean(result: Result) -> Span:
    return _span(result.summary.mean, result.summary.low, result.summary.high)


def _difference(result: Result) -> Span:
    found = result.comparison
    return _span(found.difference, found.low, found.high) if found else Span(*[math.nan] * 3)


def _span(mean: float, low: float, high: float) -> Span:
    # A mean of one split has no interval: its two ends are the mean.
    low, high = (mean if math.isnan(end) else end for end in (low, high))
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
        axes.set_title(_short(dataset))
    return figure, list(panels[: len(datasets)])


def _short(name: str) -> str:
    """A name that fits beside a figure; the end of a long one, such as a path, tells more."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]


# Methods as rows


def dots(analysis: Analysis) -> Any:
    """Methods as rows: mean with interval, and the paper's mean as a hollow diamond."""
    study = analysis.study
    figure, panels = _rows(study.datasets, study.methods, metric_label(analysis))
    any_paper = False
    for dataset, axes in zip(study.datasets, panels, strict=True):
        results = [analysis.result(dataset, method) for method in study.methods]
        papers = [
            (found or (math.nan,))[0] if analysis.on_test_nodes else math.nan
            for found in (paper_figure(dataset, method) for method in study.methods)
        ]
        any_paper |= not all(map(math.isnan, papers))
        _limit(axes, [*map(_mean, results), *(Span(paper, paper, paper) for paper in papers)])
        for row, (result, paper) in enumerate(zip(results, papers, strict=True)):
            span, is_reference = _mean(result), result.cell.method == study.reference
            colour, text = EMPHASIS if is_reference else BLUE, f"{span.mean:.1f}"
            if _side(axes, span.mean) and _side(axes, span.mean) == _side(axes, paper):
                text += f", paper {paper:.1f}"  # two arrows would overlap
            else:
                _mark(axes, row, Span(paper, paper, paper), GREY, "D", False, f"{paper:.1f}")
            _mark(axes, row, span, colour, "o", True, text)
            if is_reference and not math.isnan(span.mean):
                axes.axvline(span.mean, color=colour, lw=0.6, ls=(0, (2, 2)), zorder=1)
            if not result.summary.count:
                _write(axes, row, result.gap, avoid=paper)
    keys = [_key("o", BLUE, True, "mean and 95 % interval")]
    if study.reference in study.methods:
        panels[0].get_yticklabels()[study.methods.index(study.reference)].set_weight("bold")
        keys.append(_key("o", EMPHASIS, True, study.reference))
    keys += [_key("D", GREY, False, "the paper's mean, on its own splits")] if any_paper else []
    figure.legend(handles=keys, loc="outside upper center", ncols=len(keys))
    return figure


def forest(analysis: Analysis) -> Any:
    """Methods as rows: their difference from the reference; colour and marker are the verdict."""
    study = analysis.study
    methods = [method for method in study.methods if method != study.reference]
    label = f"Difference from {study.reference} in points"
    figure, panels = _rows(study.datasets, methods, label)
    verdicts = set()
    for dataset, axes in zip(study.datasets, panels, strict=True):
        results = [analysis.result(dataset, method) for method in methods]
        _limit(axes, [*map(_difference, results), Span(0, 0, 0)])
        axes.axvline(0, color=EMPHASIS, lw=1, zorder=1)
        for row, result in enumerate(results):
            verdict = result.comparison.verdict if result.comparison else "unknown"
            if verdict == "unknown":
                _write(axes, row, result.gap or VERDICTS[verdict])
                continue
            verdicts.add(verdict)
            span = _difference(result)
            _mark(axes, row, span, *_VERDICT_MARKS[verdict], signed(span.mean, 1))
    keys = [
        _key(marker, colour, filled, VERDICTS[verdict])
        for verdict, (colour, marker, filled) in _VERDICT_MARKS.items()
        if verdict in verdicts
    ]
    figure.legend(handles=keys, loc="outside upper center", ncols=len(keys))
    return figure


def _rows(datasets: Sequence[str], methods: Sequence[str], label: str) -> tuple[Any, Any]:
    columns = min(len(datasets), _MOST_COLUMNS)
    figure, panels = _grid(datasets, columns, _ROW * len(methods) + 1.0, sharey=True)
    panels[0].set_yticks(range(len(methods)), [_short(method) for method in methods])
    panels[0].set_ylim(len(methods) - 0.4, -0.6)
    for axes in panels:
        axes.grid(True)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    figure.supxlabel(label, fontsize=8)
    return figure, panels


def _limit(axes: Any, spans: Sequence[Span]) -> None:
    """Set limits that leave out outliers, so that the others can be told apart."""
    known = [span for span in spans if not math.isnan(span.mean)]
    if not known:
        axes.set_xlim(0, 1)
        axes.set_xticks([])
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


def _mark(
    axes: Any, row: int, span: Span, colour: str, marker: str, filled: bool, text: str
) -> None:
    """Draw a mean with its interval, or an arrow with its text if it is outside the panel."""
    if math.isnan(span.mean):
        return
    face = colour if filled else "white"
    style = {"color": colour, "mfc": face, "mew": 0.8, "ms": 4.2, "zorder": 4 if filled else 3}
    side = _side(axes, span.mean)
    if not side:
        if span.low < span.high:  # the paper's means have no interval
            axes.plot([span.low, span.high], [row, row], color=colour, lw=1.2, zorder=2)
        axes.plot(span.mean, row, marker, **style)
        return
    left, right = axes.get_xlim()
    edge, align = (left, "left") if side < 0 else (right, "right")
    step = -side * (right - left)
    axes.plot(edge + 0.03 * step, row, "<" if side < 0 else ">", **style)
    place = {"ha": align, "va": "center_baseline", "fontsize": 6.5}
    axes.text(edge + 0.08 * step, row, text, color=colour, **place)


def _side(axes: Any, x: float) -> int:
    """-1 if left of the panel, 1 if right of it, 0 if inside or nan."""
    left, right = axes.get_xlim()
    return int(x > right) - int(x < left)


def _write(axes: Any, row: int, text: str, avoid: float = math.nan) -> None:
    """Write what is missing into a row, beside the mark at ``avoid``."""
    left, right = axes.get_xlim()
    share = 0.5 if math.isnan(avoid) else 0.25 if avoid > (left + right) / 2 else 0.75
    place = {"ha": "center", "va": "center_baseline", "fontsize": 6.5, "style": "italic"}
    axes.text(left + share * (right - left), row, text, color=GREY, **place)


def _key(marker: str, colour: str, filled: bool, label: str) -> Any:
    from matplotlib.lines import Line2D

    style: Any = {"mfc": colour if filled else "white", "mew": 0.8, "ms": 4.2}
    width = 0 if marker == "D" else 1.2  # the paper's means have no interval
    return Line2D([], [], color=colour, marker=marker, lw=width, label=label, **style)


# Lines of a sweep


def lines(analysis: Analysis, sweep: Sweep, differences: bool = False) -> Any:
    """The mean of each method against the swept value, or its difference from the reference."""
    study = analysis.study
    methods = [method for method in study.methods if not differences or method != study.reference]
    columns = min(len(study.datasets), 3) if len(study.datasets) != 4 else 2
    height = min(max(2.2, _LABEL_GAP * len(methods) + 1.3), 4.5)
    figure, panels = _grid(study.datasets, columns, height)
    looks = _looks(study)
    positions, numeric = _positions(sweep.values)
    label = f"Difference from {study.reference}\nin points" if differences else None
    ends: list[dict[str, tuple[float, float]]] = []  # of the lines of each panel, by method
    for number, (dataset, axes) in enumerate(zip(study.datasets, panels, strict=True)):
        drawn = {}
        for method in methods:
            results = [
                analysis.results[Cell(dataset, method, sweep.option, value)]
                for value in sweep.values
            ]
            end = _line(axes, positions, results, looks[method], differences, len(methods) > 6)
            if end is not None:
                drawn[method] = end
        if not drawn:
            axes.set(xticks=[], yticks=[])
            place = {"transform": axes.transAxes, "ha": "center", "va": "center"}
            axes.text(0.5, 0.5, "not run", color=GREY, style="italic", **place)
            ends.append({})
            continue
        axes.grid(True)
        if differences:  # the reference is the line of zeros
            axes.axhline(0, color=EMPHASIS, lw=2, zorder=2)
            drawn = {study.reference: (max(positions), 0.0), **drawn}
        ends.append(drawn)
        axes.set_xlabel(sweep.symbol or sweep.option)
        shown = slice(None, None, math.ceil(len(positions) / 8))
        if not numeric or len(positions) <= 8:
            axes.set_xticks(positions[shown], [value_text(v) for v in sweep.values[shown]])
        if number % columns == 0:
            axes.set_ylabel(label or metric_label(analysis))
    _label(figure, panels, ends, looks, 0.075 / (_WIDTH / columns - 1.1))
    return figure


def _looks(study: Study) -> dict[str, _Look]:
    looks = {study.reference: _Look(EMPHASIS, "-", "o", 2.0, 4.5, True)}
    others = [method for method in study.methods if method != study.reference]
    for number, method in enumerate(others):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        looks[method] = _Look(colour, dash, _MARKERS[number % len(_MARKERS)], 1.0, 3.6, False)
    return looks


def _positions(values: Sequence[Value]) -> tuple[list[float], bool]:
    """Positions on the axis: numbers at their value, anything else side by side."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values):
        return [float(number) for number in numbers], True
    return [float(place) for place in range(len(values))], False


def _line(
    axes: Any,
    positions: Sequence[float],
    results: Sequence[Result],
    look: _Look,
    differences: bool,
    faint: bool,
) -> tuple[float, float] | None:
    """Draw the line of one method; returns its right end, or none if there is nothing to draw."""
    spans = [_difference(result) if differences else _mean(result) for result in results]
    verdicts = [result.comparison.verdict if result.comparison else "" for result in results]
    filled = [not differences or verdict in ("better", "worse") for verdict in verdicts]
    knots = [
        knot
        for knot in sorted(zip(positions, spans, filled, strict=True))
        if not math.isnan(knot[1].mean)
    ]
    if not knots:
        return None
    x, found, _ = zip(*knots, strict=True)
    means = [span.mean for span in found]
    front = 5 if look.is_reference else 3
    alpha = 0.25 if look.is_reference else 0.1 if faint else 0.18
    band = [span.low for span in found], [span.high for span in found]
    axes.fill_between(x, *band, color=look.colour, lw=0, alpha=alpha, zorder=1.5)
    axes.plot(x, means, color=look.colour, ls=look.dash, lw=look.width, zorder=front)
    for place, span, is_filled in knots:
        _marker(axes, place, span.mean, look, is_filled, zorder=front + 0.5)
    return x[-1], means[-1]


def _marker(axes: Any, x: float, y: float, look: _Look, filled: bool, **options: Any) -> None:
    style = {"mfc": look.colour if filled else "white", "ms": look.size, "mew": 0.7}
    axes.plot(x, y, look.marker, color=look.colour, **style, **options)


def _label(
    figure: Any,
    panels: Sequence[Any],
    ends: Sequence[Mapping[str, tuple[float, float]]],
    looks: Mapping[str, _Look],
    step: float,
) -> None:
    """Name each line at its right end; names that would overlap are moved apart.

    The step is the length of a leader, as a share of a panel's width.
    """
    texts = []
    for axes, drawn in zip(panels, ends, strict=True):
        style = {"transform": axes.transAxes, "va": "center", "fontsize": 6.5, "color": INK}
        named = []
        for method in drawn:
            weight = "bold" if looks[method].is_reference else "normal"
            named.append(axes.text(1 + 3.4 * step, 0.5, _short(method), weight=weight, **style))
        texts.append(named)
    # The layout first makes room for the names; the heights of the panels are known after it.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes, drawn, named in zip(panels, ends, texts, strict=True):
        height = axes.get_window_extent().height / figure.dpi
        to_share = axes.transData + axes.transAxes.inverted()
        starts = [to_share.transform(end) for end in drawn.values()]
        places = spread([float(start[1]) for start in starts], _LABEL_GAP / height)
        for method, start, place, text in zip(drawn, starts, places, named, strict=True):
            look = looks[method]
            text.set_y(place)
            style = {"transform": axes.transAxes, "clip_on": False}
            axes.plot([start[0], 1 + step], [start[1], place], color=look.colour, lw=0.4, **style)
            sample = {"color": look.colour, "ls": look.dash, "lw": look.width, **style}
            axes.plot([1 + step, 1 + 3 * step], [place, place], **sample)
            _marker(axes, 1 + 2 * step, place, look, True, **style)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places in [0, 1] at least ``gap`` apart, in the order of and as near as can be to ``wanted``.

    Without the gap this is isotonic regression: neighbours that are too close share their mean.
    """
    count = len(wanted)
    if count < 2:
        return [min(max(place, 0.0), 1.0) for place in wanted]
    gap = min(gap, 1 / (count - 1))
    order = np.argsort(wanted, kind="stable")
    offsets = gap * np.arange(count)
    level = isotonic_regression(np.asarray(wanted)[order] - offsets).x
    places = np.empty(count)
    places[order] = np.clip(level, 0.0, 1 - (count - 1) * gap) + offsets
    return [float(place) for place in places]
