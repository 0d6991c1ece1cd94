"""Panels with methods as rows, one for each data set: means, and differences from the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pamt_lightning.studies.analysis import Analysis, Result
from pamt_lightning.studies.paper import paper_figure
from pamt_lightning.studies.report.wording import VERDICTS, metric_label, short_name, signed

# Of the colours of Okabe and Ito, which all eyes tell apart.
EMPHASIS, BLUE, GREEN = "#d55e00", "#0072b2", "#009e73"
GREY, INK = "#707070", "#222222"
WIDTH = 7.2  # inches: both columns of a page

_VERDICT_MARKS = {  # colour, marker, filled
    "better": (GREEN, "^", True),
    "worse": (BLUE, "v", True),
    "tie": (GREY, "o", False),
    "too few": (GREY, "s", False),
}
_MOST_COLUMNS = 4
_ROW = 0.185  # inches


class Span(NamedTuple):
    """A mean with its interval, in % or in points."""

    mean: float
    low: float
    high: float


def mean_of(result: Result) -> Span:
    """The mean of a cell in %; nan if there is none."""
    summary = result.summary
    return _span(summary.mean, summary.low, summary.high)


def difference_of(result: Result) -> Span:
    """The difference of a cell from the reference in points; nan if there is none."""
    found = result.comparison
    return _span(found.difference, found.low, found.high) if found else _span(*[math.nan] * 3)


def dots(analysis: Analysis) -> Any:
    """Methods as rows: mean with interval, and the paper's mean as a hollow diamond."""
    study = analysis.study
    figure, panels = _rows(study.datasets, study.methods, metric_label(analysis))
    any_paper = False
    for dataset, axes in zip(study.datasets, panels, strict=True):
        results = [analysis.result(dataset, method) for method in study.methods]
        papers = [
            (found or (math.nan,))[0] if analysis.beside_paper else math.nan
            for found in (paper_figure(dataset, method) for method in study.methods)
        ]
        any_paper |= not all(map(math.isnan, papers))
        _limit(axes, [*map(mean_of, results), *(Span(paper, paper, paper) for paper in papers)])
        for row, (result, paper) in enumerate(zip(results, papers, strict=True)):
            span, chosen = mean_of(result), result.cell.method == study.reference
            colour, text = EMPHASIS if chosen else BLUE, f"{span.mean:.1f}"
            if _side(axes, span.mean) and _side(axes, span.mean) == _side(axes, paper):
                text += f", paper {paper:.1f}"  # two arrows would lie one over the other
            else:
                _mark(axes, row, Span(paper, paper, paper), GREY, "D", False, f"{paper:.1f}")
            _mark(axes, row, span, colour, "o", True, text)
            if chosen and not math.isnan(span.mean):
                axes.axvline(span.mean, color=colour, lw=0.6, ls=(0, (2, 2)), zorder=1)
            if not result.summary.count:
                _say(axes, row, result.gap, paper)
    keys = [_key("o", BLUE, True, "mean and 95 % interval")]
    if study.reference in study.methods:
        panels[0].get_yticklabels()[study.methods.index(study.reference)].set_weight("bold")
        keys.append(_key("o", EMPHASIS, True, study.reference))
    keys += [_key("D", GREY, False, "the paper's mean, on splits of its own")] if any_paper else []
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
        _limit(axes, [*map(difference_of, results), Span(0, 0, 0)])
        axes.axvline(0, color=EMPHASIS, lw=1, zorder=1)
        for row, result in enumerate(results):
            verdict = result.comparison.verdict if result.comparison else "unknown"
            if verdict == "unknown":
                _say(axes, row, result.gap or VERDICTS[verdict])
                continue
            verdicts.add(verdict)
            span = difference_of(result)
            _mark(axes, row, span, *_VERDICT_MARKS[verdict], signed(span.mean, 1))
    keys = [
        _key(marker, colour, filled, VERDICTS[verdict])
        for verdict, (colour, marker, filled) in _VERDICT_MARKS.items()
        if verdict in verdicts
    ]
    figure.legend(handles=keys, loc="outside upper center", ncols=len(keys))
    return figure


def grid(datasets: Sequence[str], columns: int, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure with one titled panel for each data set; the height is that of one row."""
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    rows = math.ceil(len(datasets) / columns)
    figure = Figure(figsize=(WIDTH, rows * height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axes in panels[len(datasets) :]:
        axes.set_axis_off()
    for axes, dataset in zip(panels, datasets, strict=False):
        axes.set_title(short_name(dataset))
    return figure, list(panels[: len(datasets)])


def _span(mean: float, low: float, high: float) -> Span:
    # A mean of one split has no interval: its two ends are the mean.
    low, high = (mean if math.isnan(end) else end for end in (low, high))
    return Span(100 * mean, 100 * low, 100 * high)


def _rows(datasets: Sequence[str], methods: Sequence[str], label: str) -> tuple[Any, Any]:
    columns = min(len(datasets), _MOST_COLUMNS)
    figure, panels = grid(datasets, columns, _ROW * len(methods) + 1.0, sharey=True)
    panels[0].set_yticks(range(len(methods)), [short_name(method) for method in methods])
    panels[0].set_ylim(len(methods) - 0.4, -0.6)
    for axes in panels:
        axes.grid(True)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    figure.supxlabel(label, fontsize=8)
    return figure, panels


def _limit(axes: Any, spans: Sequence[Span]) -> None:
    """Limits that leave out what is far off, so that the others can be told apart."""
    known = [span for span in spans if not math.isnan(span.mean)]
    if not known:
        axes.set_xlim(0, 1)
        axes.set_xticks([])
        return
    lower, upper = np.quantile([span.mean for span in known], [0.25, 0.75])
    reach = max(1.5 * (upper - lower), 1.0)
    left, right = float(lower - reach), float(upper + reach)
    for _ in known:  # what the room for arrows takes in is no longer far off
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
    if math.isnan(span.mean):
        return
    left, right = axes.get_xlim()
    face = colour if filled else "white"
    style = {"color": colour, "mfc": face, "mew": 0.8, "zorder": 4 if filled else 3}
    side = _side(axes, span.mean)
    if not side:
        if span.low < span.high:  # the paper's have no interval
            axes.plot([span.low, span.high], [row, row], color=colour, lw=1.2, zorder=2)
        axes.plot(span.mean, row, marker, ms=4.2, **style)
        return
    edge, align = (left, "left") if side < 0 else (right, "right")
    step = -side * (right - left)
    axes.plot(edge + 0.03 * step, row, "<" if side < 0 else ">", ms=4.2, **style)
    place = {"ha": align, "va": "center_baseline", "fontsize": 6.5}
    axes.text(edge + 0.08 * step, row, text, color=colour, **place)


def _side(axes: Any, x: float) -> int:
    """-1 if left of the panel, 1 if right of it, 0 if inside or nowhere."""
    left, right = axes.get_xlim()
    return int(x > right) - int(x < left)


def _say(axes: Any, row: int, text: str, avoid: float = math.nan) -> None:
    left, right = axes.get_xlim()
    share = 0.5 if math.isnan(avoid) else 0.25 if avoid > (left + right) / 2 else 0.75
    place = {"ha": "center", "va": "center_baseline", "fontsize": 6.5, "style": "italic"}
    axes.text(left + share * (right - left), row, text, color=GREY, **place)


def _key(marker: str, colour: str, filled: bool, label: str) -> Any:
    from matplotlib.lines import Line2D

    face = colour if filled else "white"
    return Line2D(
        [], [], color=colour, marker=marker, mfc=face, mew=0.8, ms=4.2, lw=1.2 * (marker != "D"),
        label=label,
    )  # fmt: skip
