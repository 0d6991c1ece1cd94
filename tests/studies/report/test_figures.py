from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies.analysis import analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.report import figures
from pamt_lightning.studies.report.figures import (
    EMPHASIS,
    GREEN,
    GREY,
    Drawing,
    dots,
    forest,
    lines,
    spread,
)
from pamt_lightning.studies.study import Study, Sweep
from tests.studies.made_up import SPLITS, STUDY, SWEEP, accuracy, failed, outcomes, without

MANY = tuple(f"method {number}" for number in range(14))


def draw(study: Study, runs: list[Outcome] | None = None) -> list[Drawing]:
    return figures.draw(analyse(study, outcomes(study) if runs is None else runs))


def panel(figure: Any, dataset: str) -> Any:
    return next(axes for axes in figure.axes if axes.get_title() == dataset)


def marked(axes: Any, row: int) -> list[tuple[float, str, str, bool]]:
    """Place, marker, colour, and whether it is filled, of the marks in one row."""
    return [
        (round(float(line.get_xdata()[0]), 6), line.get_marker(), line.get_color(), filled)
        for line in axes.lines
        if line.get_marker() != "None" and float(line.get_ydata()[0]) == row
        for filled in [line.get_markerfacecolor() != "white"]
    ]


def words(drawing: Drawing) -> list[str]:
    root = ElementTree.fromstring(drawing.svg)
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def check(figure: Any) -> None:
    file = io.BytesIO()
    figure.savefig(file, format="rgba", dpi=60)
    width = round(60 * figure.get_figwidth())
    image = np.frombuffer(file.getvalue(), dtype=np.uint8).reshape(-1, width, 4)[..., :3]
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20  # not blank
    for edge in (image[0], image[-1], image[:, 0], image[:, -1]):
        assert (edge == 255).all()  # nothing is cut off


# Which figures there are


def test_a_study_without_sweeps_has_means_and_differences() -> None:
    drawings = draw(STUDY)
    assert [drawing.name for drawing in drawings] == ["results", "differences"]
    for drawing in drawings:
        check(drawing.figure)


def test_one_method_compared_with_its_configured_value_has_no_figure_of_differences() -> None:
    sweep = Sweep("model.num_steps", (6, 8), "K", reference=8)
    study = replace(SWEEP, methods=("PAMT",), sweeps=(sweep,))
    assert [drawing.name for drawing in draw(study)] == ["sweep-model-num_steps"]


def test_a_study_with_sweeps_has_both_for_each_sweep() -> None:
    study = replace(SWEEP, sweeps=(*SWEEP.sweeps, Sweep("model.num_steps", (6, 8), "K")))
    drawings = draw(study)
    assert [drawing.name for drawing in drawings] == [
        "sweep-data-structure_noise",
        "differences-data-structure_noise",
        "sweep-model-num_steps",
        "differences-model-num_steps",
    ]
    for drawing in drawings:
        check(drawing.figure)


def test_what_has_nothing_to_show_is_left_out() -> None:
    assert draw(STUDY, []) == []
    assert draw(SWEEP, []) == []
    alone = replace(SWEEP, methods=("PAMT",))
    assert [drawing.name for drawing in draw(alone)] == ["sweep-data-structure_noise"]


def test_a_missing_matplotlib_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "plots_available", lambda: False)
    with pytest.raises(InputError, match=r"pip install 'pamt-lightning\[plots\]'"):
        draw(STUDY)


def test_nothing_heavy_is_loaded() -> None:
    code = "import sys, pamt_lightning.studies.report.render; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "pamt_lightning" in loaded
    assert not loaded & {"torch", "pytorch_lightning", "lightning", "matplotlib"}


# SVG


@pytest.mark.parametrize("study", [STUDY, SWEEP], ids=["dots", "lines"])
def test_the_same_runs_give_the_same_bytes(study: Study) -> None:
    first, again = draw(study), draw(study)
    assert [drawing.svg for drawing in first] == [drawing.svg for drawing in again]
    assert "<dc:date>" not in first[0].svg
    assert mpl.__version__ not in first[0].svg


def test_the_users_own_settings_neither_count_nor_change() -> None:
    plain = draw(STUDY)[0].svg
    with mpl.rc_context({"font.size": 20, "axes.facecolor": "black"}):
        assert draw(STUDY)[0].svg == plain
        assert mpl.rcParams["font.size"] == 20
        assert mpl.rcParams["axes.facecolor"] == "black"


def test_text_is_text_and_never_a_formula_or_markup() -> None:
    names = ("<b>", "$x^2$", "a & b")
    for study in (
        replace(STUDY, methods=(*names, "PAMT")),
        replace(SWEEP, methods=(*names, "PAMT")),
    ):
        for drawing in draw(study):
            assert set(names) <= set(words(drawing))
            check(drawing.figure)


# Dots


def test_dots_stand_at_means_and_hollow_diamonds_at_the_papers() -> None:
    figure = dots(analyse(STUDY, outcomes(STUDY)))
    axes = panel(figure, "cora_ml")
    assert [label.get_text() for label in axes.get_yticklabels()] == list(STUDY.methods)
    assert marked(axes, 2) == [(86.01, "D", GREY, False), (83.5, "o", EMPHASIS, True)]
    gcn = marked(axes, 0)
    assert [mark[:2] for mark in gcn] == [(82.9, "D"), (84.5, "o")]
    assert gcn[1][2] != EMPHASIS
    assert figure.get_supxlabel() == "Test accuracy in %"
    low, high = next(
        line.get_xdata()
        for line in axes.lines
        if list(line.get_ydata()) == [0, 0] and line.get_marker() == "None"
    )
    found = analyse(STUDY, outcomes(STUDY)).results[Cell("cora_ml", "GCN")].summary
    assert (low, high) == (100 * found.low, 100 * found.high)


def test_the_legend_names_only_what_is_there() -> None:
    def legend(study: Study) -> list[str]:
        figure = dots(analyse(study, outcomes(study)))
        return [text.get_text() for text in figure.legends[0].get_texts()]

    paper = "the paper's mean, on its own splits"
    assert legend(STUDY) == ["mean and 95 % interval", "PAMT", paper]
    assert legend(replace(STUDY, datasets=("mine",), methods=("GCN",))) == [
        "mean and 95 % interval"
    ]


def test_a_method_that_is_far_off_is_an_arrow_with_its_figure() -> None:
    study = replace(STUDY, datasets=("mine",), methods=(*MANY, "PAMT"))

    def figure(cell: Cell, number: int) -> float:
        return 0.305 if cell.method == "method 3" else accuracy(cell, number)

    axes = panel(dots(analyse(study, outcomes(study, figure))), "mine")
    left, right = axes.get_xlim()
    assert 70 < left < right < 90
    assert [mark[1] for mark in marked(axes, 3)] == ["<"]
    assert [text.get_text() for text in axes.texts] == ["30.5"]


def test_two_arrows_in_one_row_are_one() -> None:
    study = replace(STUDY, datasets=("cora_ml",), methods=("GCN", *MANY, "PAMT"))

    def figure(cell: Cell, number: int) -> float:
        return 0.305 if cell.method == "GCN" else 0.95 + 0.001 * number

    axes = panel(dots(analyse(study, outcomes(study, figure))), "cora_ml")
    assert [text.get_text() for text in axes.texts] == ["30.5, paper 82.9", "86.0"]
    assert [mark[1] for mark in marked(axes, 0)] == ["<"]
    assert [mark[1::2] for mark in marked(axes, 15)] == [("<", False), ("o", True)]


def test_what_is_missing_is_written_into_its_row() -> None:
    runs = [failed(r, "x") if r.cell.method == "GCN" else r for r in outcomes(STUDY)]
    runs = without(runs, "citeseer", "PTS")
    for draw_panels in (dots, forest):
        axes = panel(draw_panels(analyse(STUDY, runs)), "citeseer")
        said = {text.get_text(): text.get_position()[1] for text in axes.texts}
        assert said == {"failed (8)": 0, "not run": 1}


def test_a_long_name_leaves_room_for_the_figure() -> None:
    long = "configs/of/mine/a_method_with_a_long_name.yaml"
    for base in (STUDY, SWEEP):
        study = replace(base, methods=(long, "PAMT"))
        for drawing in draw(study):
            assert f"…{long[-21:]}" in words(drawing)
            check(drawing.figure)


# Forest


def test_the_forest_shows_differences_with_their_verdicts() -> None:
    figure = forest(analyse(STUDY, outcomes(STUDY)))
    axes = panel(figure, "cora_ml")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["GCN", "PTS"]
    assert marked(axes, 0) == [(1.0, "^", GREEN, True)]
    assert marked(axes, 1) == [(0.0, "o", GREY, False)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["better", "tie"]
    assert figure.get_supxlabel() == "Difference from PAMT in points"


# Lines


def test_a_line_for_each_method_stands_at_its_means() -> None:
    def figure(cell: Cell, number: int) -> float:
        assert isinstance(cell.value, float)
        return accuracy(cell, number) - cell.value

    analysis = analyse(SWEEP, outcomes(SWEEP, figure))
    axes = panel(lines(analysis, SWEEP.sweeps[0]), "cora_ml")
    drawn = {
        line.get_color(): np.round(line.get_xydata(), 6).tolist()
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_transform() == axes.transData
    }
    assert len(drawn) == 3
    assert drawn[EMPHASIS] == [[0.3, 53.5], [0.5, 33.5]]
    # Hollow markers are for differences that were not shown.
    assert "white" not in {line.get_markerfacecolor() for line in axes.lines}
    assert axes.get_xlabel() == "noise"
    assert axes.get_ylabel() == "Test accuracy in %"
    assert sorted(text.get_text() for text in axes.texts) == ["GCN", "PAMT", "PTS"]


def test_differences_are_filled_where_they_were_shown() -> None:
    analysis = analyse(SWEEP, outcomes(SWEEP))
    axes = panel(lines(analysis, SWEEP.sweeps[0], differences=True), "cora_ml")
    knots = {
        tuple(np.round(line.get_xydata()[0], 6)): line.get_markerfacecolor() != "white"
        for line in axes.lines
        if line.get_marker() != "None" and line.get_transform() == axes.transData
    }
    assert sorted(text.get_text() for text in axes.texts) == ["GCN", "PAMT", "PTS"]
    assert knots == {(0.3, 1.0): True, (0.5, 1.0): True, (0.3, 0.0): False, (0.5, 0.0): False}


@pytest.mark.parametrize("differences", [False, True])
def test_a_data_set_without_runs_has_an_empty_panel(differences: bool) -> None:
    study = replace(SWEEP, datasets=("cora_ml", "pubmed"))
    analysis = analyse(study, outcomes(SWEEP))
    figure = lines(analysis, study.sweeps[0], differences=differences)
    empty = panel(figure, "pubmed")
    assert [text.get_text() for text in empty.texts] == ["not run"]
    assert list(empty.get_xticks()) == list(empty.get_yticks()) == []
    assert empty.get_xlabel() == ""
    assert len(panel(figure, "cora_ml").texts) == 3
    check(figure)


def test_fifteen_lines_can_be_told_apart_and_their_names_do_not_overlap() -> None:
    study = replace(SWEEP, methods=(*MANY, "PAMT"))
    figure = lines(analyse(study, outcomes(study)), study.sweeps[0])
    check(figure)
    axes = panel(figure, "cora_ml")
    heights = sorted(text.get_window_extent().y0 for text in axes.texts)
    assert len(heights) == 15
    assert min(np.diff(heights)) >= 0.1 * figure.dpi
    looks = {
        (line.get_color(), line.get_marker())
        for line in axes.lines
        if line.get_marker() != "None" and line.get_transform() == axes.transData
    }
    assert len(looks) == 15


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        (("none", "row", "sym"), ["none", "row", "sym"]),
        ((None, 0.3, 0.6), ["none", "0.3", "0.6"]),
        ((True, False), ["true", "false"]),
        ((20, 6, 10), ["20", "6", "10"]),
    ],
)
def test_values_of_all_kinds_have_their_place(values: tuple[Any, ...], ticks: list[str]) -> None:
    study = replace(SWEEP, sweeps=(Sweep("model.x", values),))
    figure = lines(analyse(study, outcomes(study)), study.sweeps[0])
    axes = panel(figure, "cora_ml")
    assert [label.get_text() for label in axes.get_xticklabels()] == ticks
    assert axes.get_xlabel() == "model.x"
    numbers = all(type(value) is int for value in values)
    assert list(axes.get_xticks()) == (list(values) if numbers else list(range(len(values))))
    check(figure)


def test_a_single_split_can_be_drawn() -> None:
    for study in (replace(STUDY, splits=SPLITS[:1]), replace(SWEEP, splits=SPLITS[:1])):
        (drawing,) = draw(study)
        check(drawing.figure)


@pytest.mark.parametrize(
    ("wanted", "gap", "places"),
    [
        ([0.2, 0.8], 0.1, [0.2, 0.8]),
        ([0.5, 0.5], 0.2, [0.4, 0.6]),
        ([0.5, 0.4], 0.3, [0.6, 0.3]),  # the order stays
        ([1.0, 1.0, 1.0], 0.25, [0.5, 0.75, 1.0]),  # never above the panel
        ([-0.2, 0.0], 0.25, [0.0, 0.25]),
        ([0.5, 0.5, 0.5], 0.9, [0.0, 0.5, 1.0]),  # as much room as there is
        ([0.3], 0.5, [0.3]),
        ([], 0.5, []),
    ],
)
def test_names_are_moved_apart(wanted: list[float], gap: float, places: list[float]) -> None:
    assert spread(wanted, gap) == pytest.approx(places)
