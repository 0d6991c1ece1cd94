"""Panels of a sweep, one for each data set: a line for each method against the swept value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pamt_lightning.studies.analysis import Analysis, Result
from pamt_lightning.studies.outcome import Value
from pamt_lightning.studies.report.panels import (
    BLUE,
    EMPHASIS,
    GREEN,
    GREY,
    INK,
    WIDTH,
    Span,
    difference_of,
    grid,
    mean_of,
)
from pamt_lightning.studies.report.wording import metric_label, short_name, value_text
from pamt_lightning.studies.study import Study, Sweep

# Okabe and Ito without yellow, which is too light on white, and without that of the reference.
_COLOURS = (BLUE, GREEN, "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.3)), (0, (1.2, 1.2)))
_MARKERS = "s^Dv<>Phdp*X8H"
_GAP = 0.125  # inches between the labels of two lines


class _Look(NamedTuple):
    colour: str
    dash: Any
    marker: str
    chosen: bool


class _Knot(NamedTuple):
    x: float
    span: Span
    filled: bool


def lines(analysis: Analysis, sweep: Sweep, *, differences: bool = False) -> Any:
    """The mean of each method against the swept value, or its difference from the reference."""
    study = analysis.study
    methods = [method for method in study.methods if not differences or method != study.reference]
    columns = min(len(study.datasets), 3) if len(study.datasets) != 4 else 2
    height = min(max(2.2, _GAP * len(methods) + 1.3), 4.5)
    figure, panels = grid(study.datasets, columns, height)
    looks = _looks(study)
    where, numeric = _positions(sweep.values)
    label = f"Difference from {study.reference}\nin points"
    ends: list[dict[str, tuple[float, float]]] = []
    for number, (dataset, axes) in enumerate(zip(study.datasets, panels, strict=True)):
        axes.grid(True)
        if differences:
            axes.axhline(0, color=EMPHASIS, lw=2, zorder=2)
        # In a figure of differences the reference is the line of zeros.
        ends.append({study.reference: (max(where), 0.0)} if differences else {})
        for method in methods:
            results = [analysis.result(dataset, method, sweep.option, v) for v in sweep.values]
            knots = sorted(
                knot
                for x, result in zip(where, results, strict=True)
                if not math.isnan((knot := _knot(x, result, differences)).span.mean)
            )
            if knots:
                _line(axes, knots, looks[method], faint=len(methods) > 6)
                ends[-1][method] = (knots[-1].x, knots[-1].span.mean)
        if not set(ends[-1]) & set(methods):
            ends[-1].clear()
            _not_run(axes)
            continue
        axes.set_xlabel(sweep.symbol or sweep.option)
        shown = slice(None, None, math.ceil(len(where) / 8))
        if not numeric or len(where) <= 8:
            axes.set_xticks(where[shown], [value_text(value) for value in sweep.values[shown]])
        if number % columns == 0:
            axes.set_ylabel(label if differences else metric_label(analysis))
    _label(figure, panels, ends, looks, 0.075 / (WIDTH / columns - 1.1))
    return figure


def _not_run(axes: Any) -> None:
    axes.grid(False)
    axes.set(xticks=[], yticks=[])
    axes.text(
        0.5, 0.5, "not run", transform=axes.transAxes, ha="center", va="center", color=GREY,
        style="italic",
    )  # fmt: skip


def _looks(study: Study) -> dict[str, _Look]:
    looks = {study.reference: _Look(EMPHASIS, "-", "o", True)}
    others = [method for method in study.methods if method != study.reference]
    for number, method in enumerate(others):
        looks[method] = _Look(
            _COLOURS[number % len(_COLOURS)],
            _DASHES[number // len(_COLOURS) % len(_DASHES)],
            _MARKERS[number % len(_MARKERS)],
            False,
        )
    return looks


def _positions(values: Sequence[Value]) -> tuple[list[float], bool]:
    """Where values stand on the axis: numbers at their place, all else side by side."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values):
        return [float(number) for number in numbers], True
    return [float(place) for place in range(len(values))], False


def _knot(x: float, result: Result, differences: bool) -> _Knot:
    if not differences:
        return _Knot(x, mean_of(result), True)
    shown = result.comparison is not None and result.comparison.verdict in ("better", "worse")
    return _Knot(x, difference_of(result), shown)


def _line(axes: Any, knots: Sequence[_Knot], look: _Look, faint: bool) -> None:
    x = [knot.x for knot in knots]
    low, high = [knot.span.low for knot in knots], [knot.span.high for knot in knots]
    front = 5 if look.chosen else 3
    alpha = 0.25 if look.chosen else 0.1 if faint else 0.18
    axes.fill_between(x, low, high, color=look.colour, lw=0, alpha=alpha, zorder=1.5)
    means = [knot.span.mean for knot in knots]
    width = 2.0 if look.chosen else 1.0
    axes.plot(x, means, color=look.colour, ls=look.dash, lw=width, zorder=front)
    for knot in knots:
        _marker(axes, knot.x, knot.span.mean, look, knot.filled, zorder=front + 0.5)


def _marker(axes: Any, x: float, y: float, look: _Look, filled: bool, **options: Any) -> None:
    face = look.colour if filled else "white"
    size = 4.5 if look.chosen else 3.6
    axes.plot(
        x, y, look.marker, color=look.colour, mfc=face, ms=size, mew=0.7, **options
    )  # fmt: skip


def _label(
    figure: Any,
    panels: Sequence[Any],
    ends: Sequence[dict[str, tuple[float, float]]],
    looks: dict[str, _Look],
    step: float,
) -> None:
    """Name each line at its right end; names that would overlap are moved apart.

    The step is the length of a leader, as a share of a panel's width.
    """
    # Twice: the names need room at the right first, and then the height that is left.
    texts = [
        [_name(axes, method, looks[method], 1 + 3.4 * step) for method in found]
        for axes, found in zip(panels, ends, strict=True)
    ]
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes, found, named in zip(panels, ends, texts, strict=True):
        height = axes.get_window_extent().height / figure.dpi
        to_share = axes.transData + axes.transAxes.inverted()
        wanted = [float(to_share.transform(end)[1]) for end in found.values()]
        places = spread(wanted, _GAP / height)
        for method, place, text in zip(found, places, named, strict=True):
            look = looks[method]
            text.set_y(place)
            start = to_share.transform(found[method])
            style = {"transform": axes.transAxes, "clip_on": False}
            axes.plot([start[0], 1 + step], [start[1], place], color=look.colour, lw=0.4, **style)
            width = 2.0 if look.chosen else 1.0
            sample = {"color": look.colour, "ls": look.dash, "lw": width, **style}
            axes.plot([1 + step, 1 + 3 * step], [place, place], **sample)
            _marker(axes, 1 + 2 * step, place, look, True, **style)


def _name(axes: Any, method: str, look: _Look, x: float) -> Any:
    weight = "bold" if look.chosen else "normal"
    return axes.text(
        x, 0.5, short_name(method), transform=axes.transAxes, va="center", fontsize=6.5, color=INK,
        weight=weight,
    )  # fmt: skip


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places in [0, 1] at least ``gap`` apart, in the order of and as near as can be to ``wanted``.

    Without the gap this is isotonic regression: neighbours that are too close share their mean.
    """
    count = len(wanted)
    if count > 1:
        gap = min(gap, 1 / (count - 1))
    order = np.argsort(wanted, kind="stable")
    blocks: list[list[float]] = []  # sum and number of what was pooled
    for rank, index in enumerate(order):
        blocks.append([wanted[index] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, number = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += number
    level = [total / number for total, number in blocks for _ in range(int(number))]
    highest = 1 - max(count - 1, 0) * gap
    places = [0.0] * count
    for rank, index in enumerate(order):
        places[index] = min(max(level[rank], 0.0), highest) + rank * gap
    return places
