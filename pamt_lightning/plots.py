"""Images of a run and of the speed benchmark: need the extra `plots` (matplotlib).

Images are RGB arrays ``[height, width, 3]``, or SVG.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

_BLUE, _GREY = "#2b6ca3", "#8a8a8a"
_LONGEST_NAME = 22
_LARGEST = 25.0  # inches; about 40 classes


def plots_available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def confusion_image(matrix: npt.NDArray[np.integer[Any]], class_names: Sequence[str]) -> Image:
    """Draw a confusion matrix: colour is the share of the true class, the number is the count.

    Rows are true classes, columns are predicted ones; a folder that all names share is left out.
    """
    num_classes = len(class_names)
    size = min(3.2 + 0.55 * num_classes, _LARGEST)
    figure = _new_figure(size + 0.8, size)
    axes = figure.add_subplot()
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    shown = axes.imshow(share, cmap="Blues", vmin=0.0, vmax=1.0)
    # Names such as "Artificial_Intelligence/Machine_Learning/Theory" differ in the last part only.
    start = os.path.commonprefix(list(class_names)).rfind("/") + 1  # noqa: RUF071 - cut at the slash
    # Text between two dollar signs would be a formula.
    names = [short_name(name[start:]).replace("$", r"\$") for name in class_names]
    axes.set_xticks(range(num_classes), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(num_classes), names)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    for row, col in np.argwhere(matrix > 0):
        colour = "white" if share[row, col] > 0.55 else "black"
        count = f"{matrix[row, col]:d}"
        axes.text(col, row, count, ha="center", va="center", color=colour, fontsize=8)
    accuracy = np.trace(matrix) / max(matrix.sum(), 1)
    axes.set_title(f"Test confusion, accuracy {accuracy:.1%} of {matrix.sum():,} nodes")
    figure.colorbar(shown, ax=axes, fraction=0.045, label="share of the true class")
    return _render(figure)


def reliability_image(
    confidence: npt.NDArray[np.floating[Any]], correct: npt.NDArray[np.bool_], num_bins: int
) -> Image:
    """Draw the accuracy of predictions against their confidence, in bins of equal width.

    Args:
        confidence: Largest class probability of each node, shape ``[M]``.
        correct: Whether that class is the true one, shape ``[M]``.
        num_bins: Number of bins.
    """
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    count = np.bincount(bins, minlength=num_bins)
    filled = count > 0
    safe = np.maximum(count, 1)
    mean_confidence = np.bincount(bins, confidence, num_bins) / safe
    accuracy = np.bincount(bins, correct, num_bins) / safe
    error = float((count / max(count.sum(), 1) * np.abs(accuracy - mean_confidence)).sum())

    figure = _new_figure(5.6, 5.2)
    axes = figure.add_subplot()
    left = np.arange(num_bins)[filled] / num_bins
    axes.bar(left, accuracy[filled], 1 / num_bins, align="edge", color=_BLUE, edgecolor="white")
    axes.plot([0, 1], [0, 1], "--", color=_GREY, label="perfectly calibrated")
    dots = {"color": "black", "ms": 4, "label": "mean of bin"}
    axes.plot(mean_confidence[filled], accuracy[filled], "o", **dots)
    for x, y, n in zip(left + 0.5 / num_bins, accuracy[filled], count[filled], strict=True):
        height, colour = (y - 0.03, "white") if y > 0.1 else (y + 0.02, "black")
        axes.text(x, height, f"{n:,}", ha="center", va="center", fontsize=7, color=colour)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    axes.set_title(f"Reliability on the test nodes, calibration error {error:.3f}")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return _render(figure)


def growth_image(sizes: Sequence[float], measured: Mapping[str, Sequence[float]]) -> str:
    """Draw time and memory against the numbers of edges, with a line of slope one, as SVG.

    ``measured``: ``epoch`` and ``refresh`` in seconds, ``memory`` in bytes, one value per size.
    """
    figure = _new_figure(8.4, 3.6, layout="constrained")
    times, memory = figure.subplots(1, 2)
    x = np.asarray(sizes, dtype=float)
    for axes, names, unit, scale in (
        (times, ("epoch", "refresh"), "seconds", 1.0),
        (memory, ("memory",), "peak memory, MB", 1e-6),
    ):
        for name, colour in zip(names, (_BLUE, "#c2571a"), strict=False):
            y = scale * np.asarray(measured[name])
            axes.loglog(x, y, "o-", color=colour, label=name)
        top = scale * measured[names[0]][-1]
        axes.loglog(x, top * x / x[-1], "--", color=_GREY, label="in proportion to the edges")
        axes.set(xlabel="edges", ylabel=unit)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    return svg_text(figure)


def svg_text(figure: Any) -> str:
    """A figure as SVG: text can be searched and copied, and equal figures give equal bytes."""
    from matplotlib import rc_context

    file, nothing = io.StringIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "pamt"}):
        figure.savefig(file, format="svg", metadata=nothing)
    return re.sub(r"[ \t]+$", "", file.getvalue(), flags=re.MULTILINE)


def short_name(name: str) -> str:
    """A name that fits beside a figure; the end of a long one, such as a path, tells more."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]


def _new_figure(width: float, height: float, layout: Any = "compressed") -> Any:
    # "constrained" cuts off the label of the axis beside an image of fixed aspect.
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    return Figure(figsize=(width, height), dpi=110, layout=layout)


def _render(figure: Any) -> Image:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
