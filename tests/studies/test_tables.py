from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pamt_lightning.studies.analysis import Analysis, analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.report.tables import (
    comparison_tables,
    results_table,
    sections,
)
from pamt_lightning.studies.report.wording import (
    comparison_notes,
)
from pamt_lightning.studies.statistics import summarize
from tests.studies.made_up import (
    SPLITS,
    STUDY,
    accuracy,
    failed,
    field,
    outcomes,
    text,
    without,
)


def small(runs: list[Outcome] | None = None) -> Analysis:
    return analyse(STUDY, outcomes(STUDY) if runs is None else runs)


# The results table


def test_a_cell_shows_mean_spread_interval_and_the_papers_mean() -> None:
    # 0.80 … 0.87: mean 0.835, variance 42 / 7 = 6 squared points.
    entry = field(results_table(small()), "PAMT", "cora_ml")
    summary = summarize([0.80 + 0.01 * number for number in range(8)])
    interval = f"[{100 * summary.low:.2f}, {100 * summary.high:.2f}]"
    assert entry.lines == ("83.50 ± 2.45", interval, "(paper 86.01)")
    assert 81.8 < 100 * summary.low < 83.5 < 100 * summary.high < 85.2
    assert entry.note == ""


def test_rows_are_methods_and_columns_are_data_sets_in_the_order_of_the_study() -> None:
    table = results_table(small())
    assert table.header == ("method", "cora_ml", "citeseer")
    assert [name for name, _ in table.rows] == ["GCN", "PTS", "PAMT"]


def test_a_method_without_a_figure_in_the_paper_has_none() -> None:
    study = replace(STUDY, methods=("MLP", "PAMT"))
    table = results_table(analyse(study, outcomes(study)))
    assert len(field(table, "MLP", "cora_ml").lines) == 2


def test_another_metric_is_not_set_beside_the_papers_accuracy() -> None:
    runs = [replace(run, metrics={"test_f1": run.metrics["test_acc"]}) for run in outcomes(STUDY)]
    table = results_table(analyse(STUDY, runs, "test_f1"))
    assert table.caption.startswith("test_f1 in %, mean")
    assert "paper" not in table.caption + text(table, "PAMT", "cora_ml")


def test_missing_splits_are_counted() -> None:
    runs = [
        run
        for run in outcomes(STUDY)
        if run.cell != Cell("citeseer", "GCN") or run.split_seed in SPLITS[:5]
    ]
    assert field(results_table(small(runs)), "GCN", "citeseer").note == "n = 5 of 8"


def test_a_cell_without_runs_says_so() -> None:
    table = results_table(small(without(outcomes(STUDY), "cora_ml", "GCN")))
    assert text(table, "GCN", "cora_ml") == "(paper 82.90) not run"
    assert field(table, "GCN", "citeseer").note == ""


def test_failed_runs_are_counted() -> None:
    runs = [
        failed(run, "boom") if run.cell.method == "GCN" and run.split_seed in SPLITS[6:] else run
        for run in outcomes(STUDY)
    ]
    assert field(results_table(small(runs)), "GCN", "cora_ml").note == "n = 6 of 8, 2 failed"


def test_a_cell_whose_runs_all_failed_says_so() -> None:
    runs = [failed(r, "boom") if r.cell.method == "GCN" else r for r in outcomes(STUDY)]
    assert text(results_table(small(runs)), "GCN", "cora_ml") == "(paper 82.90) failed (8)"


def test_a_run_that_failed_and_was_done_again_is_not_missing() -> None:
    runs = outcomes(STUDY)
    table = results_table(small([failed(runs[0], "killed"), *runs]))
    assert all(entry.note == "" for _, entries in table.rows for entry in entries)


def test_a_figure_that_is_not_a_number_is_missing_and_not_averaged() -> None:
    first, *others = outcomes(STUDY)
    spoilt = replace(first, metrics={"test_acc": math.nan})
    entry = field(results_table(small([spoilt, *others])), "GCN", "cora_ml")
    assert entry.note == "n = 7 of 8, 1 without a figure"
    assert entry.lines[0].startswith("85.00 ± ")  # 0.82 … 0.88


def test_initialisations_of_a_split_count_as_one_and_missing_ones_are_told() -> None:
    study = replace(STUDY, inits=(0, 1))
    runs = outcomes(study)
    table = results_table(analyse(study, runs))
    assert "8 splits, each averaged over 2 initialisations" in table.caption
    assert field(table, "PAMT", "cora_ml").lines[0] == "83.50 ± 2.45"
    assert field(results_table(analyse(study, runs[1:])), "GCN", "cora_ml").note == "15 of 16 runs"


def test_a_single_split_has_neither_spread_nor_interval() -> None:
    study = replace(STUDY, splits=SPLITS[:1])
    entry = field(results_table(analyse(study, outcomes(study))), "PAMT", "cora_ml")
    assert entry.lines == ("80.00", "(paper 86.01)")


# Bold


def test_bold_is_for_what_was_shown_to_be_better_than_the_reference() -> None:
    table = results_table(small())
    strong = {name: [entry.strong for entry in entries] for name, entries in table.rows}
    assert strong == {"GCN": [True, True], "PTS": [False, False], "PAMT": [False, False]}


def test_a_larger_mean_alone_is_not_bold() -> None:
    # By far the largest mean, but it wins four splits and loses four.
    def figure(cell: Cell, number: int) -> float:
        ups = 0.1 if number % 2 else -0.01
        return accuracy(cell, number) if cell.method == "PAMT" else 0.8 + 0.01 * number + ups

    runs = outcomes(STUDY, figure)
    table = results_table(small(runs))
    assert field(table, "GCN", "cora_ml").lines[0].startswith("88.00")
    assert not any(entry.strong for _, entries in table.rows for entry in entries)


def worse(cell: Cell, number: int) -> float:
    return 0.8 + 0.01 * number - {"PAMT": 0.0}.get(cell.method, 0.02)


def test_the_reference_is_bold_where_it_was_shown_to_beat_all_others() -> None:
    table = results_table(small(outcomes(STUDY, worse)))
    assert field(table, "PAMT", "cora_ml").strong
    assert not field(table, "GCN", "cora_ml").strong


def test_the_reference_is_not_bold_where_one_of_the_others_is_missing() -> None:
    table = results_table(small(without(outcomes(STUDY, worse), "cora_ml", "GCN")))
    assert not field(table, "PAMT", "cora_ml").strong
    assert field(table, "PAMT", "citeseer").strong


def test_nothing_is_bold_without_a_comparison() -> None:
    for study in (replace(STUDY, reference="MLP"), replace(STUDY, methods=("PAMT",))):
        table = results_table(analyse(study, outcomes(study)))
        assert not any(entry.strong for _, entries in table.rows for entry in entries)
        notes = sections(analyse(study, outcomes(study)))[0].notes
        assert not any("Bold" in note for note in notes)
    assert "Bold" in sections(small())[0].notes[0]


# Comparisons


def test_a_comparison_is_counted_by_hand() -> None:
    table, _ = comparison_tables(small())
    assert table.caption == (
        "cora_ml: test accuracy minus that of PAMT on the same splits, in points."
    )
    assert [name for name, _ in table.rows] == ["GCN", "PTS"]
    # 8 wins of 8: p = 2 / 2⁸ = 0.0078; with the other data set's the two smallest of 4: × 4.
    expected = ["8", "+1.00", "[+1.00, +1.00]", "0.031", "+1.00", "better"]
    assert [" ".join(entry.lines) for entry in dict(table.rows)["GCN"]] == expected
    # 4 wins and 4 losses of the same size.
    assert text(table, "PTS", "difference") == "0.00"
    assert text(table, "PTS", "adjusted p") == "1.000"
    assert text(table, "PTS", "effect") == "0.00"
    assert text(table, "PTS", "verdict") == "tie"
    assert [entry.strong for entry in dict(table.rows)["PTS"]] == [False] * 6


def test_a_comparison_without_common_splits_has_no_figures() -> None:
    table, _ = comparison_tables(small(without(outcomes(STUDY), "cora_ml", "PAMT")))
    shown = [" ".join(entry.lines) for entry in dict(table.rows)["GCN"]]
    assert shown == ["0", "–", "–", "–", "–", "no common splits"]


def test_too_few_splits_are_said_to_be_too_few() -> None:
    study = replace(STUDY, splits=SPLITS[:4])
    table, _ = comparison_tables(analyse(study, outcomes(study)))
    assert text(table, "GCN", "verdict") == "too few splits"


def test_a_study_that_does_not_run_its_reference_has_no_comparisons() -> None:
    study = replace(STUDY, reference="MLP")
    titles = [section.title for section in sections(analyse(study, outcomes(study)))]
    assert titles == ["Results", "Time", "What is missing"]


def test_the_size_of_the_family_is_told() -> None:
    (note,) = comparison_notes(small(), None)
    assert "all comparisons (4 of the study)" in note


def test_a_family_too_large_for_its_splits_is_told() -> None:
    # 7 wins of 7: p = 2 / 2⁷ = 0.0156, and four times that is above 0.05.
    study = replace(STUDY, splits=SPLITS[:7])
    _, want = comparison_notes(analyse(study, outcomes(study)), None)
    assert want == (
        "With 4 comparisons and 7 splits no adjusted p of the study can be below 0.05, however "
        "large the difference: too few splits."
    )


@pytest.mark.parametrize(("count", "is_told"), [(1, False), (2, True), (8, True), (10, False)])
def test_intervals_of_few_splits_are_said_to_be_too_narrow(count: int, is_told: bool) -> None:
    study = replace(STUDY, splits=tuple(f"test{number}" for number in range(count)))
    first, *_ = sections(analyse(study, outcomes(study)))
    assert any("fewer than 10 splits are too narrow" in note for note in first.notes) == is_told
