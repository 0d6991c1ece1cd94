from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pamt_lightning.studies.analysis import Analysis, analyse
from pamt_lightning.studies.study import Cell, Outcome, Sweep
from tests.studies.made_up import (
    NOISE,
    STUDY,
    SWEEP,
    accuracy,
    analysed,
    failed,
    outcomes,
    with_metrics,
    without,
)

GCN = Cell("cora_ml", "GCN")


def bold(analysis: Analysis) -> set[Cell]:
    return {cell for cell, result in analysis.results.items() if analysis.shows_best(result)}


def p_adjusted(analysis: Analysis, cell: Cell) -> float:
    found = analysis.results[cell].comparison
    assert found is not None
    return found.p_adjusted


# Incomplete cells


@pytest.mark.parametrize(
    ("kept", "num_failed", "num_nan", "gap"),
    [
        (8, 0, 0, ""),
        (5, 0, 0, "n = 5 of 8"),
        (8, 2, 0, "n = 6 of 8, 2 failed"),
        (8, 0, 1, "n = 7 of 8, 1 not finite"),
        (8, 8, 0, "failed (8)"),
        (8, 0, 8, "not finite (8)"),
        (0, 0, 0, "not run"),
    ],
)
def test_missing_splits_and_failed_runs_are_counted(
    kept: int, num_failed: int, num_nan: int, gap: str
) -> None:
    ours = [run for run in outcomes(STUDY) if run.cell == GCN][:kept]
    for number in range(num_failed):
        ours[number] = failed(ours[number], "boom")
    for number in range(num_nan):
        ours[number] = with_metrics(ours[number], test_acc=math.nan)
    result = analyse(STUDY, [*without(outcomes(STUDY), *GCN[:2]), *ours]).results[GCN]
    assert (result.gap, result.runs_asked, result.splits_asked) == (gap, 8, 8)
    assert result.errors == ({"boom": num_failed} if num_failed else {})
    count = kept - num_failed - num_nan
    assert result.summary.count == count
    if 0 < count < 8 and kept == 8:  # the others are averaged: up to 0.88
        assert result.summary.mean == pytest.approx(0.88 - 0.005 * (count - 1))


def test_initialisations_of_a_split_count_as_one() -> None:
    study = replace(STUDY, inits=(0, 1))
    runs = [
        replace(run, metrics={"test_acc": run.metrics["test_acc"] + 0.02 * run.init_seed})
        for run in outcomes(study)
    ]
    result = analyse(study, runs).results[Cell("cora_ml", "PAMT")]
    assert (result.summary.count, result.finished) == (8, 16)
    assert result.summary.mean == pytest.approx(0.845)  # 0.80 … 0.87, and 0.02 more
    assert analyse(study, runs[1:]).results[GCN].gap == "15 of 16 runs"


def test_runs_of_another_version_and_on_other_nodes_are_noticed() -> None:
    first, *runs = outcomes(STUDY)
    result = analyse(STUDY, [replace(first, other_version=True), *runs]).results[GCN]
    assert (result.other_version, result.gap) == (1, "1 of another version")
    assert analyse(STUDY, [first, *runs]).on_test_nodes
    assert not analyse(STUDY, [replace(first, tested_on="held-out nodes"), *runs]).on_test_nodes


def test_runs_of_a_cell_outside_the_study_are_refused() -> None:
    stranger = Outcome("x", Cell("cora_ml", "SGC"), "test0", 0, {"test_acc": 0.5})
    with pytest.raises(KeyError, match="SGC"):
        analyse(STUDY, [stranger])


# Bold


def test_bold_is_what_was_shown_to_be_better_than_the_reference() -> None:
    assert bold(analysed()) == {GCN, Cell("citeseer", "GCN")}


def test_a_larger_mean_alone_is_not_bold() -> None:
    # By far the largest mean, but it wins four splits and loses four.
    def figure(cell: Cell, number: int) -> float:
        ups = 0.1 if number % 2 else -0.01
        return accuracy(cell, number) if cell.method == "PAMT" else 0.8 + 0.01 * number + ups

    analysis = analyse(STUDY, outcomes(STUDY, figure))
    assert analysis.results[GCN].summary.mean == pytest.approx(0.88)
    assert bold(analysis) == set()


def test_the_reference_is_bold_where_it_was_shown_to_beat_all_others() -> None:
    runs = outcomes(STUDY, lambda cell, n: 0.8 + 0.01 * n - 0.02 * (cell.method != "PAMT"))
    assert bold(analyse(STUDY, runs)) == {Cell(dataset, "PAMT") for dataset in STUDY.datasets}
    assert bold(analyse(STUDY, without(runs, "cora_ml", "GCN"))) == {Cell("citeseer", "PAMT")}


@pytest.mark.parametrize("analysis", [analysed(reference="MLP"), analysed(methods=("PAMT",))])
def test_nothing_is_bold_without_a_comparison(analysis: Analysis) -> None:
    assert bold(analysis) == set()
    assert {result.comparison for result in analysis.results.values()} == {None}


# Families of comparisons


def test_a_family_is_a_table() -> None:
    # 8 wins of 8. GCN and PTS on two data sets; in a sweep, on one data set at each value.
    assert p_adjusted(analysed(), GCN) == 4 * 2 / 2**8
    analysis = analysed(SWEEP, sweeps=(NOISE, Sweep("model.alpha", (0.1,), "α")))
    assert p_adjusted(analysis, Cell(*GCN[:2], NOISE.option, 0.3)) == 4 * 2 / 2**8
    assert p_adjusted(analysis, Cell(*GCN[:2], "model.alpha", 0.1)) == 2 * 2 / 2**8


def test_further_references_have_comparisons_of_their_own() -> None:
    (other,) = analysed(further_references=("GCN",)).further
    assert other == analysed(reference="GCN")
    assert other.results[Cell("cora_ml", "PAMT")].verdict == "worse"
