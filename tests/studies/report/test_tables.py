from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pamt_lightning.studies.analysis import Analysis, analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.report.tables import (
    Entry,
    Table,
    choice_table,
    comparison_tables,
    cost_table,
    counted,
    edge_tables,
    families,
    missing_table,
    noise_misses,
    p_text,
    percent,
    points,
    reference_name,
    result_tables,
    signed,
    value_text,
)
from pamt_lightning.studies.statistics import summarize
from pamt_lightning.studies.study import Study, Sweep
from tests.studies.made_up import SPLITS, STUDY, SWEEP, failed, outcomes, without

EDGES = {
    "mask_auc_planted": 0.9,
    "mask_auc_original": 0.7,
    "feature_auc_planted": 0.8,
    "feature_auc_original": 0.6,
}
NOISE = SWEEP.sweeps[0]


def analysed(study: Study = STUDY, runs: list[Outcome] | None = None, **changes: Any) -> Analysis:
    study = replace(study, **changes)
    return analyse(study, outcomes(study) if runs is None else runs)


def field(table: Table, row: str, column: str) -> Entry:
    return dict(table.rows)[row][table.header.index(column) - 1]


def row(table: Table, name: str) -> list[str]:
    """The whole text of each field of a row."""
    return [" ".join((*e.lines, e.note)).strip() for e in dict(table.rows)[name]]


def text(table: Table, name: str, column: str) -> str:
    return row(table, name)[table.header.index(column) - 1]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([points(x) for x in (0.0123, -0.0123, -0.00001, math.nan)], "+1.23 −1.23 0.00 –"),
        ([signed(-17.96, 1), percent(0.8505), percent(math.nan)], "−18.0 85.05 –"),
        ([p_text(p) for p in (0.0004, 0.012, 1.0, math.nan)], "< 0.001 0.012 1.000 –"),
        (
            [value_text(value) for value in (0.3, 10, True, None, "sym", 1e-05)],
            "0.3 10 true none sym 1e-05",
        ),
        ([counted(n, "split") for n in (0, 1, 1200)], "0 splits 1 split 1,200 splits"),
    ],
)
def test_numbers_have_true_signs_and_no_negative_zero(shown: list[str], expected: str) -> None:
    assert " ".join(shown) == expected


# Results


def test_a_cell_shows_mean_deviation_interval_and_the_papers_mean() -> None:
    # 0.80 … 0.87: mean 0.835, variance 42 / 7 = 6 squared points.
    table = result_tables(analysed(), None)[""]
    assert table.header == ("method", "cora_ml", "citeseer")
    assert [name for name, _ in table.rows] == ["GCN", "PTS", "PAMT"]
    summary = summarize([0.80 + 0.01 * number for number in range(8)])
    interval = f"[{100 * summary.low:.2f}, {100 * summary.high:.2f}]"
    assert 81.8 < 100 * summary.low < 83.5 < 100 * summary.high < 85.2
    expected = Entry(("83.50 ± 2.45", interval, "(paper 86.01)"))
    assert field(table, "PAMT", "cora_ml") == expected
    strong = {name: [entry.strong for entry in entries] for name, entries in table.rows}
    assert strong == {"GCN": [True, True], "PTS": [False, False], "PAMT": [False, False]}
    assert table.has_bold
    assert not result_tables(analysed(methods=("PTS", "PAMT")), None)[""].has_bold


def test_what_is_missing_stands_in_its_cell() -> None:
    table = result_tables(analysed(runs=without(outcomes(STUDY), "cora_ml", "GCN")), None)[""]
    assert text(table, "GCN", "cora_ml") == "(paper 82.90) not run"
    assert field(table, "GCN", "citeseer").note == ""


def test_a_single_split_has_neither_deviation_nor_interval() -> None:
    table = result_tables(analysed(splits=SPLITS[:1]), None)[""]
    assert text(table, "PAMT", "cora_ml") == "80.00 (paper 86.01)"


def test_a_sweep_has_one_table_for_each_data_set_with_a_column_for_each_value() -> None:
    tables = result_tables(analysed(SWEEP, datasets=("cora_ml", "citeseer")), NOISE)
    assert list(tables) == ["cora_ml", "citeseer"]
    assert tables["cora_ml"].header == ("method", "noise = 0.3", "noise = 0.5")
    # The paper's means are of the graph as it is.
    first, interval = field(tables["cora_ml"], "PAMT", "noise = 0.3").lines
    assert (first, interval[0]) == ("83.50 ± 2.45", "[")


def test_the_noise_that_was_missed_is_listed() -> None:
    runs = [
        replace(run, metrics={**run.metrics, "structure_noise": float(str(run.cell.value)) + miss})
        for run, miss in zip(outcomes(SWEEP), [0.0, -0.00025, 0.0001] * 16, strict=True)
    ]
    misses = noise_misses(analysed(SWEEP, runs), NOISE)
    assert max(misses) == pytest.approx(0.00025)
    assert len(misses) == 48
    other = replace(NOISE, option="model.alpha")
    assert noise_misses(analysed(SWEEP, sweeps=(other,)), other) == []


# Comparisons


def test_a_comparison_is_counted_by_hand() -> None:
    tables = comparison_tables(analysed(), None)
    assert list(tables) == ["cora_ml", "citeseer"]
    table = tables["cora_ml"]
    assert [name for name, _ in table.rows] == ["GCN", "PTS"]
    # 8 wins of 8: p = 2 / 2⁸ = 0.0078; with the other data set's the two smallest of 4: × 4.
    assert row(table, "GCN") == ["8", "+1.00", "[+1.00, +1.00]", "0.031", "+1.00", "better"]
    assert [entry.strong for entry in dict(table.rows)["GCN"]] == [False] * 5 + [True]
    # 4 wins and 4 losses of the same size.
    assert row(table, "PTS") == ["8", "0.00", "[−0.75, +0.75]", "1.000", "0.00", "tie"]
    assert not any(entry.strong for entry in dict(table.rows)["PTS"])


def test_comparisons_without_common_splits_or_with_too_few_have_verdicts_of_their_own() -> None:
    runs = without(outcomes(STUDY), "cora_ml", "PAMT")
    table = comparison_tables(analysed(runs=runs), None)["cora_ml"]
    assert row(table, "GCN") == ["0", "–", "–", "–", "–", "no common splits"]
    table = comparison_tables(analysed(splits=SPLITS[:4]), None)["cora_ml"]
    assert text(table, "GCN", "verdict") == "too few splits"


def test_a_sweep_is_compared_at_each_value() -> None:
    runs = [
        run if run.cell.value == 0.3 or run.cell.method != "GCN" else failed(run, "boom")
        for run in outcomes(SWEEP)
    ]
    table = comparison_tables(analysed(SWEEP, runs), NOISE)["cora_ml"]
    assert [name for name, _ in table.rows] == ["GCN", "PTS"]
    # GCN at 0.3 is the smallest of three p-values: 3 × 2 / 2⁸.
    expected = "+1.00 [+1.00, +1.00] p 0.023, r +1.00: better"
    assert row(table, "GCN") == [expected, "failed (8)"]
    assert field(table, "GCN", "noise = 0.3").strong
    assert text(table, "PTS", "noise = 0.5").endswith("p 1.000, r 0.00: tie")


def test_splits_that_the_reference_lacks_are_noted() -> None:
    runs = [r for r in outcomes(SWEEP) if r.cell.method != "PAMT" or r.split_seed != "test0"]
    table = comparison_tables(analysed(SWEEP, runs), NOISE)["cora_ml"]
    assert field(table, "GCN", "noise = 0.5").note == "n = 7 of 8"


def test_families_are_those_of_the_correction() -> None:
    assert families(analysed(), None) == {"the study": [8] * 4}
    alpha = Sweep("model.alpha", (0.1,), "α")
    analysis = analysed(SWEEP, sweeps=(NOISE, alpha))
    assert families(analysis, NOISE) == {"cora_ml": [8] * 4}
    assert families(analysis, alpha) == {"cora_ml": [8] * 2}


def test_a_study_of_one_method_is_compared_with_the_configured_value() -> None:
    sweep = Sweep("model.alpha", (0.1, 0.2), "α", {"a": 0.2, "b": 0.1})
    study = Study("s", "s", ("a", "b"), ("PAMT",), SPLITS, sweeps=(sweep,))
    runs = outcomes(study, lambda cell, number: 0.8 - float(str(cell.value)) + 0.001 * number)
    tables = comparison_tables(analyse(study, runs), sweep)
    better, itself = row(tables["a"], "PAMT")
    assert (better[:8], better[-6:], itself) == ("+10.00 [", "better", "reference")
    itself, worse = row(tables["b"], "PAMT")
    assert (itself, worse[-5:]) == ("reference", "worse")
    assert reference_name(study, sweep, "a") == "PAMT, α = 0.2"
    assert reference_name(study, sweep) == "the configured value"


@pytest.mark.parametrize(("base", "sweep"), [(STUDY, None), (SWEEP, NOISE)], ids=["plain", "sweep"])
def test_each_further_reference_has_tables_of_its_own(base: Study, sweep: Sweep | None) -> None:
    analysis = analysed(base, further_references=("GCN",))
    shown = [
        [(name, entries[-1].lines[-1]) for name, entries in table.rows]
        for each in (analysis, *analysis.further)
        for table in [comparison_tables(each, sweep)["cora_ml"]]
    ]
    assert shown == [[("GCN", "better"), ("PTS", "tie")], [("PTS", "tie"), ("PAMT", "worse")]]


# Edges, choices, time, missing runs


def test_the_auc_of_mask_and_attributes_stands_beside_the_accuracy() -> None:
    runs = [
        replace(run, metrics={**run.metrics, **EDGES}) if run.cell.method == "PAMT" else run
        for run in outcomes(SWEEP)
    ]
    table = edge_tables(analysed(SWEEP, runs))["cora_ml"]
    assert [name for name, _ in table.rows] == ["PAMT, noise = 0.3", "PAMT, noise = 0.5"]
    shown = [field[:13] for field in row(table, "PAMT, noise = 0.5")]
    assert shown == ["83.50 ± 2.45 ", *(f"{value:.3f} ± 0.000" for value in EDGES.values())]


def test_missing_edge_metrics_are_left_out_or_noted() -> None:
    runs = outcomes(STUDY)
    assert edge_tables(analysed(runs=runs)) == {}
    some = {"mask_auc_original": 0.7, "feature_auc_planted": math.nan}
    runs[0] = replace(runs[0], metrics={**runs[0].metrics, **some})
    (table,) = edge_tables(analysed(runs=runs)).values()
    assert table.header == ("method", "test accuracy in %", "mask, original edges")
    assert text(table, "GCN", "mask, original edges") == "0.700 n = 1 of 8"


def test_the_chosen_inference_is_counted_over_finished_runs() -> None:
    study = replace(STUDY, datasets=("cora_ml",), methods=("PTS", "PAMT"))
    names = ("mask", "unmasked", "mask", "graphless")
    runs = [
        replace(run, chosen=names[number % 4]) if run.cell.method == "PAMT" else run
        for number, run in enumerate(outcomes(study))
    ]
    table = choice_table(analyse(study, runs))
    assert [name for name, _ in table.rows] == ["PAMT"]
    assert row(table, "PAMT") == ["cora_ml", "mask 4, unmasked 2, graphless 2"]
    table = choice_table(analyse(study, [*runs[:-1], failed(runs[-1], "x")]))
    assert text(table, "PAMT", "runs") == "mask 4, unmasked 2, graphless 1"
    assert choice_table(analysed()).rows == []


def test_seconds_and_epochs_are_medians_of_finished_runs() -> None:
    runs = [failed(r, "x") if r.cell.method == "PTS" else r for r in outcomes(STUDY)]
    runs = [run for run in runs if run.split_seed != "test7"]  # seconds 1, 2, …, 64
    table = cost_table(analysed(runs=runs))
    assert text(table, "GCN", "cora_ml") == "8.0 s, 400 epochs"
    assert text(table, "PTS", "cora_ml") == "–"
    ones = [replace(run, metrics={"epochs": 1.0, "seconds": 1000.0}) for run in runs]
    assert text(cost_table(analysed(runs=ones)), "GCN", "cora_ml") == "1,000 s, 1 epoch"


def test_missing_runs_are_listed_with_their_errors() -> None:
    runs = [
        failed(run, "out of\nmemory") if run.split_seed in SPLITS[:2] else run
        for run in without(outcomes(STUDY), "citeseer", "PTS")
        if run.cell != Cell("cora_ml", "GCN")
    ]
    table = missing_table(analysed(runs=runs))
    rows = {(name, *(" ".join((*e.lines, e.note)).strip() for e in es)) for name, es in table.rows}
    why = ("n = 6 of 8, 2 failed", "2 × out of memory")
    assert rows == {
        ("GCN", "cora_ml", "not run", ""),
        ("PTS", "citeseer", "not run", ""),
        *((method, dataset, *why) for method, dataset in [("PTS", "cora_ml"), ("GCN", "citeseer")]),
        *(("PAMT", dataset, *why) for dataset in STUDY.datasets),
    }
    assert missing_table(analysed()).rows == []
