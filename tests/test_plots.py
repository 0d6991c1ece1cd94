from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.figure import Figure

from pamt_lightning.plots import confusion_image, growth_image, reliability_image

LONG = "Artificial_Intelligence/Machine_Learning/Theory"


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes that were drawn, to see what is written on them."""
    drawn: list[Any] = []
    add_subplot = Figure.add_subplot

    def remember(figure: Figure, *args: Any, **options: Any) -> Any:
        drawn.append(add_subplot(figure, *args, **options))
        return drawn[-1]

    monkeypatch.setattr(Figure, "add_subplot", remember)
    return drawn


def check(image: npt.NDArray[np.uint8]) -> None:
    height, width, colours = image.shape
    assert colours == 3
    assert image.dtype == np.uint8
    assert 200 < height < 3000
    assert 200 < width < 3000
    assert len(np.unique(image @ np.array([1, 256, 65536]))) > 20  # not blank
    for edge in (image[0], image[-1], image[:, 0], image[:, -1]):
        assert (edge == 255).all()  # nothing is cut off


def test_a_confusion_matrix_shows_counts_shares_and_accuracy(axes: list[Any]) -> None:
    check(confusion_image(np.array([[30, 10], [0, 1960]]), ["no", "yes"]))
    (ax,) = axes
    assert ax.get_title() == "Test confusion, accuracy 99.5% of 2,000 nodes"
    # Row, that is true class, goes down; column, that is predicted class, goes right.
    placed = {text.get_text(): (*text.get_position(), text.get_color()) for text in ax.texts}
    assert placed == {"30": (0, 0, "white"), "10": (1, 0, "black"), "1960": (1, 1, "white")}
    np.testing.assert_array_equal(ax.images[0].get_array(), [[0.75, 0.25], [0, 1]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted class", "true class")


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([LONG, "short"], ["…" + LONG[-21:], "short"]),
        (["a/b/c", "a/bd/e"], ["b/c", "bd/e"]),
    ],
)
def test_long_names_are_cut_at_the_front_and_so_are_common_folders(
    names: list[str], shown: list[str], axes: list[Any]
) -> None:
    check(confusion_image(np.eye(2, dtype=np.int64), names))
    for axis in (axes[0].xaxis, axes[0].yaxis):
        assert [label.get_text() for label in axis.get_ticklabels()] == shown


@pytest.mark.parametrize("name", ["$\\foo$", "a$b", "100%", "x_1^2", "{", "ünï", ""])
def test_names_are_shown_as_they_are_and_never_read_as_formulas(name: str) -> None:
    check(confusion_image(np.eye(2, dtype=np.int64), [name, "b"]))


@pytest.mark.parametrize(
    "matrix",
    [np.array([[3, 1], [0, 0]]), np.zeros((2, 2), dtype=np.int64), np.eye(60, dtype=np.int64)],
    ids=["no test node of a class", "no test node", "many classes"],
)
def test_unusual_confusion_matrices_can_be_drawn(matrix: npt.NDArray[np.int64]) -> None:
    check(confusion_image(matrix, [f"class {number}" for number in range(len(matrix))]))


def test_reliability_shows_the_accuracy_and_number_of_each_bin(axes: list[Any]) -> None:
    confidence = np.array([0.55, 0.55, 0.55, 0.55, 0.95, 1.0])
    correct = np.array([True, False, False, False, True, True])
    check(reliability_image(confidence, correct, 10))
    (ax,) = axes
    bars = [(round(bar.get_x(), 6), bar.get_height()) for bar in ax.patches]
    assert bars == [(0.5, 0.25), (0.9, 1.0)]
    assert [text.get_text() for text in ax.texts] == ["4", "2"]
    # 4/6 of the nodes are off by 0.3, 2/6 by 0.025.
    assert ax.get_title() == "Reliability on the test nodes, calibration error 0.208"
    points = ax.lines[1].get_xydata()
    np.testing.assert_allclose(points, [[0.55, 0.25], [0.975, 1.0]])


@pytest.mark.parametrize("size", [0, 1])
def test_few_or_no_nodes_can_be_drawn(size: int) -> None:
    check(reliability_image(np.ones(size), np.ones(size, dtype=np.bool_), 10))


def test_growth_is_drawn_beside_a_line_of_slope_one(axes: list[Any]) -> None:
    sizes = [1e3, 1e4, 1e5]
    measured = {"epoch": [0.1, 0.5, 2.0], "refresh": [1.0, 2.0, 3.0], "memory": [1e8, 2e8, 4e8]}
    assert "in proportion to the edges</text>" in growth_image(sizes, measured)
    times, memory = axes
    drawn = {line.get_label(): line.get_ydata().tolist() for line in times.lines}
    assert (drawn["epoch"], drawn["refresh"]) == (measured["epoch"], measured["refresh"])
    assert drawn["in proportion to the edges"] == pytest.approx([0.02, 0.2, 2.0])
    assert memory.lines[0].get_ydata().tolist() == pytest.approx([100, 200, 400])  # in MB
