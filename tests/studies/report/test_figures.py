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

from pamt_lightning.studies.report.figures import (
    EMPHASIS,
    GREEN,
    GREY,
    Drawing,
    draw,
    lines,
    rows,
)
from pamt_lightning.studies.study import Cell, Study, Sweep
from tests.studies.made_up import (
    NOISE,
    SPLITS,
    STUDY,
    SWEEP,
    accuracy,
    analysed,
    failed,
    outcomes,
    without,
)

MANY = tuple(f"method {number}" for number in range(14))
STEPS = Sweep("model.num_steps", (6, 8), "K")
both = pytest.mark.parametrize("base", [STUDY, SWEEP], ids=["rows", "lines"])


def panel(figure: Any, dataset: str = "cora_ml") -> Any:
    return next(axes for axes in figure.axes if axes.get_title() == dataset)


def texts(artists: Any) -> list[str]:
    return [artist.get_text() for artist in artists]


def marks(axes: Any) -> list[tuple[float, float, str, str, bool]]:
    """Place, marker, colour, and whether it is filled, of the marks in a panel."""
    return [
        (*np.round(line.get_xydata()[0], 6).tolist(), line.get_marker(), line.get_color(), filled)
        for line in axes.lines
        if line.get_marker() != "None" and line.get_transform() == axes.transData
        for filled in [line.get_markerfacecolor() != "white"]
    ]


def legend(owner: Any) -> list[str]:
    return texts(owner.get_texts())


def in_row(axes: Any, row: int) -> list[tuple[float, str, str, bool]]:
    return [(mark[0], *mark[2:]) for mark in marks(axes) if mark[1] == row]


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


# All figures


@pytest.mark.parametrize(
    ("study", "expected"),
    [
        (STUDY, "results differences"),
        (
            replace(SWEEP, sweeps=(NOISE, STEPS)),
            "sweep-data-structure_noise differences-data-structure_noise "
            "sweep-model-num_steps differences-model-num_steps",
        ),
        # There is nothing to compare with, or only the configured value.
        (replace(SWEEP, methods=("PAMT",)), "sweep-data-structure_noise"),
        (
            replace(SWEEP, methods=("PAMT",), sweeps=(replace(STEPS, reference=8),)),
            "sweep-model-num_steps",
        ),
        (replace(STUDY, splits=SPLITS[:1]), "results"),
    ],
)
def test_a_study_has_means_and_differences_for_each_sweep(study: Study, expected: str) -> None:
    drawings = draw(analysed(study))
    assert [drawing.name for drawing in drawings] == expected.split()
    for drawing in drawings:
        check(drawing.figure)
    assert draw(analysed(study, [])) == []


@both
def test_the_same_runs_give_the_same_bytes_whatever_the_users_own_settings(base: Study) -> None:
    plain = [drawing.svg for drawing in draw(analysed(base))]
    with mpl.rc_context({"font.size": 20, "axes.facecolor": "black"}):
        assert [drawing.svg for drawing in draw(analysed(base))] == plain
        assert (mpl.rcParams["font.size"], mpl.rcParams["axes.facecolor"]) == (20, "black")
    assert "<dc:date>" not in plain[0]
    assert mpl.__version__ not in plain[0]


@both
def test_text_is_text_and_never_a_formula_or_markup(base: Study) -> None:
    long = "configs/of/mine/a_method_with_a_long_name.yaml"
    names = ("<b>", "$x^2$", "a & b")
    for drawing in draw(analysed(base, methods=(*names, long, "PAMT"))):
        assert {*names, f"…{long[-21:]}"} <= set(words(drawing))
        check(drawing.figure)


def test_matplotlib_is_loaded_only_to_draw() -> None:
    code = "import sys, pamt_lightning.studies.report.render; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).split()
    assert "jinja2" in modules
    assert "matplotlib" not in modules


# Methods as rows


def test_marks_stand_at_means_and_hollow_diamonds_at_the_papers() -> None:
    analysis = analysed()
    figure = rows(analysis)
    axes = panel(figure)
    assert texts(axes.get_yticklabels()) == list(STUDY.methods)
    assert in_row(axes, 2) == [(86.01, "D", GREY, False), (83.5, "o", EMPHASIS, True)]
    paper, gcn = in_row(axes, 0)
    assert (paper[0], gcn[0]) == (82.9, 84.5)
    assert gcn[2] != EMPHASIS
    assert figure.get_supxlabel() == "Test accuracy in %"
    found = analysis.results[Cell("cora_ml", "GCN")].summary
    interval = [[100 * found.low, 0], [100 * found.high, 0]]
    assert interval in [line.get_xydata().tolist() for line in axes.lines]


def test_the_legend_names_only_what_is_there() -> None:
    mean, paper = "mean and 95 % interval", "the paper's mean, on its own splits"
    assert legend(rows(analysed()).legends[0]) == [mean, "PAMT", paper]
    figure = rows(analysed(datasets=("mine",), methods=("GCN",)))
    assert legend(figure.legends[0]) == [mean]


def test_a_method_that_is_far_off_is_an_arrow_with_its_figure() -> None:
    study = replace(STUDY, datasets=("cora_ml",), methods=("GCN", *MANY, "PAMT"))
    off = outcomes(study, lambda cell, n: 0.305 if cell.method == "GCN" else 0.95 + 0.001 * n)
    axes = panel(rows(analysed(study, off)))
    left, right = axes.get_xlim()
    assert 70 < left < right < 100
    # Two arrows in one row are one.
    assert texts(axes.texts) == ["30.5, paper 82.9", "86.0"]
    assert [mark[1] for mark in in_row(axes, 0)] == ["<"]
    assert [mark[1::2] for mark in in_row(axes, 15)] == [("<", False), ("o", True)]


def test_what_is_missing_is_written_into_its_row() -> None:
    runs = [failed(r, "x") if r.cell.method == "GCN" else r for r in outcomes(STUDY)]
    analysis = analysed(STUDY, without(runs, "citeseer", "PTS"))
    for figure in (rows(analysis), rows(analysis, differences=True)):
        axes = panel(figure, "citeseer")
        said = {text.get_text(): text.get_position()[1] for text in axes.texts}
        assert said == {"failed (8)": 0, "not run": 1}


def test_a_row_shows_differences_with_their_verdicts() -> None:
    figure = rows(analysed(), differences=True)
    axes = panel(figure)
    assert texts(axes.get_yticklabels()) == ["GCN", "PTS"]
    assert in_row(axes, 0) == [(1.0, "^", GREEN, True)]
    assert in_row(axes, 1) == [(0.0, "o", GREY, False)]
    assert legend(figure.legends[0]) == ["better", "tie"]
    assert figure.get_supxlabel() == "Difference from PAMT in points"


# Lines of a sweep


def test_a_line_for_each_method_stands_at_its_means() -> None:
    runs = outcomes(SWEEP, lambda cell, n: accuracy(cell, n) - float(str(cell.value)))
    axes = panel(lines(analysed(SWEEP, runs), NOISE))
    drawn = {
        line.get_color(): np.round(line.get_xydata(), 6).tolist()
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_transform() == axes.transData
    }
    assert len(drawn) == 3
    assert drawn[EMPHASIS] == [[0.3, 53.5], [0.5, 33.5]]
    assert all(filled for *_, filled in marks(axes))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("noise", "Test accuracy in %")


def test_differences_are_filled_where_they_were_shown() -> None:
    axes = panel(lines(analysed(SWEEP), NOISE, differences=True))
    knots = {(x, y): filled for x, y, *_, filled in marks(axes)}
    assert knots == {(0.3, 1.0): True, (0.5, 1.0): True, (0.3, 0.0): False, (0.5, 0.0): False}


@pytest.mark.parametrize("differences", [False, True])
def test_names_stand_in_the_order_of_the_lines_the_reference_in_bold(differences: bool) -> None:
    level = {"GCN": 0.1, "PTS": 0.3, "PAMT": 0.2}
    runs = outcomes(SWEEP, lambda cell, n: level[cell.method] + 0.001 * n)
    found = panel(lines(analysed(SWEEP, runs), NOISE, differences)).get_legend()
    assert legend(found) == ["PTS", "PAMT", "GCN"]
    assert [text.get_weight() for text in found.get_texts()] == ["normal", "bold", "normal"]


@pytest.mark.parametrize("differences", [False, True])
def test_a_data_set_without_runs_has_an_empty_panel(differences: bool) -> None:
    study = replace(SWEEP, datasets=("cora_ml", "pubmed"))
    figure = lines(analysed(study, outcomes(SWEEP)), NOISE, differences)
    empty = panel(figure, "pubmed")
    assert texts(empty.texts) == ["not run"]
    assert [*empty.get_xticks(), *empty.get_yticks(), empty.get_xlabel()] == [""]
    assert len(legend(panel(figure).get_legend())) == 3
    check(figure)


def test_fifteen_lines_can_be_told_apart_and_their_names_fit() -> None:
    figure = lines(analysed(SWEEP, methods=(*MANY, "PAMT")), NOISE)
    check(figure)
    axes = panel(figure)
    assert len({(marker, colour) for *_, marker, colour, _ in marks(axes)}) == 15
    names = axes.get_legend().get_window_extent()
    assert 0 < names.y0 < names.y1 < figure.bbox.height


@pytest.mark.parametrize(
    ("values", "places", "ticks"),
    [
        (("none", "row", "sym"), [0, 1, 2], ["none", "row", "sym"]),
        ((None, 0.3, 0.6), [0, 1, 2], ["none", "0.3", "0.6"]),
        ((True, False), [0, 1], ["true", "false"]),
        ((20, 6, 10), [20, 6, 10], ["20", "6", "10"]),
    ],
)
def test_values_of_all_kinds_have_their_place(
    values: tuple[Any, ...], places: list[int], ticks: list[str]
) -> None:
    sweep = Sweep("model.x", values)
    figure = lines(analysed(SWEEP, sweeps=(sweep,)), sweep)
    axes = panel(figure)
    assert texts(axes.get_xticklabels()) == ticks
    assert list(axes.get_xticks()) == places
    assert axes.get_xlabel() == "model.x"
    check(figure)
