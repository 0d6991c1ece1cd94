from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pamt_lightning.studies.analysis import Analysis, analyse
from pamt_lightning.studies.report import tables
from pamt_lightning.studies.report.tables import Entry, Table, comparison_tables, result_tables
from pamt_lightning.studies.statistics import summarize
from pamt_lightning.studies.study import Cell, Outcome, Study, Sweep
from tests.studies.made_up import (
    NOISE,
    SPLITS,
    STUDY,
    SWEEP,
    analysed,
    failed,
    outcomes,
    with_metrics,
    without,
)

EDGES = dict(zip(tables.EDGE_METRICS, (0.9, 0.7, 0.8, 0.6), strict=True))


def names(table: Table) -> list[str]:
    return [name for name, _ in table.rows]


def texts(entries: list[Entry]) -> list[str]:
    """The whole text of each field."""
    return [" ".join((*entry.lines, entry.note)).strip() for entry in entries]


def row(table: Table, name: str) -> list[str]:
    return texts(dict(table.rows)[name])


def strong(table: Table) -> dict[str, list[bool]]:
    return {name: [entry.strong for entry in entries] for name, entries in table.rows}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([tables.points(x) for x in (0.0123, -0.0123, -0.00001, math.nan)], "+1.23 −1.23 0.00 –"),
        ([tables.signed(-17.96, 1)], "−18.0"),
        (
            [tables.value_text(value) for value in (0.3, 10, True, None, "sym", 1e-05)],
            "0.3 10 true none sym 1e-05",
        ),
        ([tables.counted(n, "split") for n in (0, 1, 1200)], "0 splits 1 split 1,200 splits"),
    ],
)
def test_numbers_have_true_signs_and_no_negative_zero(shown: list[str], expected: str) -> None:
    assert " ".join(shown) == expected


# Results


def test_a_cell_shows_mean_deviation_interval_and_the_papers_mean() -> None:
    # 0.80 … 0.87: mean 0.835, variance 42 / 7 = 6 squared points.
    table = result_tables(analysed(), None)[""]
    assert table.header == ("method", "cora_ml", "citeseer")
    assert names(table) == ["GCN", "PTS", "PAMT"]
    summary = summarize([0.80 + 0.01 * number for number in range(8)])
    interval = f"[{100 * summary.low:.2f}, {100 * summary.high:.2f}]"
    assert dict(table.rows)["PAMT"][0].lines == ("83.50 ± 2.45", interval, "(paper 86.01)")
    assert strong(table) == {"GCN": [True, True], "PTS": [False, False], "PAMT": [False, False]}
    assert table.has_bold
    assert not result_tables(analysed(methods=("PTS", "PAMT")), None)[""].has_bold


@pytest.mark.parametrize(
    ("analysis", "shown"),
    [
        (analysed(runs=without(outcomes(STUDY), "cora_ml", "GCN")), "(paper 82.90) not run"),
        (analysed(splits=SPLITS[:1]), "81.00 (paper 82.90)"),  # neither deviation nor interval
    ],
)
def test_what_is_missing_stands_in_its_cell(analysis: Analysis, shown: str) -> None:
    missing, other = row(result_tables(analysis, None)[""], "GCN")
    assert missing == shown
    assert "not run" not in other


def test_a_sweep_has_one_table_for_each_data_set_with_a_column_for_each_value() -> None:
    found = result_tables(analysed(SWEEP, datasets=("cora_ml", "citeseer")), NOISE)
    assert list(found) == ["cora_ml", "citeseer"]
    assert found["cora_ml"].header == ("method", "noise = 0.3", "noise = 0.5")
    # The paper's means are of the graph as it is.
    first, interval = dict(found["cora_ml"].rows)["PAMT"][0].lines
    assert (first, interval[0]) == ("83.50 ± 2.45", "[")


# Comparisons


def test_a_comparison_is_counted_by_hand() -> None:
    found = comparison_tables(analysed(), None)
    assert list(found) == ["cora_ml", "citeseer"]
    table = found["cora_ml"]
    assert names(table) == ["GCN", "PTS"]
    # 8 wins of 8: p = 2 / 2⁸ = 0.0078; with the other data set's the two smallest of 4: × 4.
    assert row(table, "GCN") == ["8", "+1.00", "[+1.00, +1.00]", "0.031", "+1.00", "better"]
    # 4 wins and 4 losses of the same size.
    assert row(table, "PTS") == ["8", "0.00", "[−0.75, +0.75]", "1.000", "0.00", "tie"]
    assert strong(table) == {"GCN": [False] * 5 + [True], "PTS": [False] * 6}


def test_comparisons_without_common_splits_or_with_too_few_have_verdicts_of_their_own() -> None:
    runs = without(outcomes(STUDY), "cora_ml", "PAMT")
    table = comparison_tables(analysed(runs=runs), None)["cora_ml"]
    assert row(table, "GCN") == ["0", *"––––", "no common splits"]
    table = comparison_tables(analysed(splits=SPLITS[:1]), None)["cora_ml"]
    assert row(table, "GCN") == ["1", *"––––", "too few splits"]
    table = comparison_tables(analysed(SWEEP, splits=SPLITS[:1]), NOISE)["cora_ml"]
    assert row(table, "GCN") == ["too few splits"] * 2


def test_a_sweep_is_compared_at_each_value() -> None:
    runs = [
        failed(run, "boom") if run.cell[1::2] == ("GCN", 0.5) else run
        for run in outcomes(SWEEP)
        if (*run.cell[1::2], run.split_seed) != ("PAMT", 0.5, "test0")
    ]
    table = comparison_tables(analysed(SWEEP, runs), NOISE)["cora_ml"]
    assert names(table) == ["GCN", "PTS"]
    # GCN at 0.3 is the smallest of three p-values: 3 × 2 / 2⁸.
    expected = "+1.00 [+1.00, +1.00] p 0.023, r +1.00: better"
    assert row(table, "GCN") == [expected, "failed (8)"]
    assert strong(table) == {"GCN": [True, False], "PTS": [False, False]}
    # A split that only the reference lacks is noted.
    assert row(table, "PTS")[1].endswith(": tie n = 7 of 8")


def test_a_study_of_one_method_is_compared_with_the_configured_value() -> None:
    sweep = Sweep("model.alpha", (0.1, 0.2), "α", {"a": 0.2, "b": 0.1})
    study = Study("s", "s", ("a", "b"), ("PAMT",), SPLITS, sweeps=(sweep,))
    runs = outcomes(study, lambda cell, number: 0.8 - float(str(cell.value)) + 0.001 * number)
    found = comparison_tables(analyse(study, runs), sweep)
    better, itself = row(found["a"], "PAMT")
    assert (better[:8], better[-6:], itself) == ("+10.00 [", "better", "reference")
    itself, worse = row(found["b"], "PAMT")
    assert (itself, worse[-5:]) == ("reference", "worse")
    assert tables.reference_name(study, sweep, "a") == "PAMT, α = 0.2"
    assert tables.reference_name(study, sweep) == "the configured value"


# Edges, choices, time, missing runs


def test_the_auc_of_mask_and_attributes_stands_beside_the_accuracy() -> None:
    runs = [
        with_metrics(run, **EDGES) if run.cell.method == "PAMT" else run for run in outcomes(SWEEP)
    ]
    table = tables.edge_tables(analysed(SWEEP, runs))["cora_ml"]
    assert names(table) == ["PAMT, noise = 0.3", "PAMT, noise = 0.5"]
    shown = [field[:13] for field in row(table, "PAMT, noise = 0.5")]
    assert shown == ["83.50 ± 2.45 ", *(f"{value:.3f} ± 0.000" for value in EDGES.values())]


def test_missing_edge_metrics_are_left_out_or_noted() -> None:
    first, *runs = outcomes(STUDY)
    assert tables.edge_tables(analysed(runs=runs)) == {}
    first = with_metrics(first, mask_auc_original=0.7, feature_auc_planted=math.nan)
    (table,) = tables.edge_tables(analysed(runs=[first, *runs])).values()
    assert table.header == ("method", "test accuracy in %", "mask, original edges")
    assert row(table, "GCN")[1] == "0.700 n = 1 of 8"


def test_the_chosen_inference_is_counted_over_finished_runs() -> None:
    study = replace(STUDY, datasets=("cora_ml",), methods=("PTS", "PAMT"))
    chosen = ("mask", "structure", "mask", "network")
    runs = [
        replace(run, chosen=chosen[number % 4]) if run.cell.method == "PAMT" else run
        for number, run in enumerate(outcomes(study))
    ]
    table = tables.choice_table(analyse(study, [*runs[:-1], failed(runs[-1], "x")]))
    assert names(table) == ["PAMT"]
    assert row(table, "PAMT") == ["cora_ml", "mask 4, structure 2, network 1"]
    assert tables.choice_table(analysed()).rows == tables.missing_table(analysed()).rows == []


def pooled(run: Outcome, **views: float) -> Outcome:
    """The same run by a method that pools; equal weights are worse by one point."""
    equal = run.metrics["test_acc"] - 0.01
    return replace(with_metrics(run, test_acc_equal_weights=equal), views=views)


def test_the_shares_of_views_are_means_over_finished_runs_and_need_not_sum_to_one() -> None:
    study = replace(STUDY, datasets=("cora_ml",), methods=("PTS", "PAMT"))
    others, ours = outcomes(study)[:8], outcomes(study)[8:]
    ours = [
        pooled(run, graph=0.5, hops=1.5) if number % 2 else pooled(run, graph=0.6, hops=0.2)
        for number, run in enumerate(ours)
    ]
    ours[3] = failed(ours[3], "x")
    ours[5] = replace(ours[5], views={})  # of a version that did not pool: not counted
    table = tables.pool_table(analyse(study, [*others, *ours]))
    assert table.header == ("method", "data set", "pooled", "equal weights", "graph", "hops")
    assert names(table) == ["PAMT"]
    # Splits 0, 2, 4, 6, 1 and 7; shares 3/4 in four of them, 1/4 in two.
    accuracy = 100 * (0.80 + (0 + 2 + 4 + 6 + 1 + 7) / 600)
    shown = [f"{accuracy:.2f}", f"{accuracy - 1:.2f}", "58", "42"]
    assert row(table, "PAMT") == ["cora_ml", *shown]
    assert tables.pool_table(analyse(study, others)).rows == []


def test_views_that_a_method_lacks_and_weights_of_zero_are_shown_as_such() -> None:
    views = {0.3: {"graph": 0.2, "joined": 0.2}, 0.5: {"graph": 0.0}}
    study = replace(SWEEP, methods=("PAMT",))
    runs = [replace(run, views=views[run.cell.value]) for run in outcomes(study)]  # type: ignore[index]
    table = tables.pool_table(analyse(study, runs))
    assert row(table, "PAMT, noise = 0.3")[2:] == ["–", "50", "50"]
    assert row(table, "PAMT, noise = 0.5")[2:] == ["–", "0", "–"]


def test_seconds_and_epochs_are_medians_of_finished_runs() -> None:
    runs = [failed(r, "x") if r.cell.method == "PTS" else r for r in outcomes(STUDY)]
    runs = [run for run in runs if run.split_seed != "test7"]  # seconds 1, 2, …, 64
    table = tables.cost_table(analysed(runs=runs))
    assert row(table, "GCN") == ["8.0 s, 400 epochs"] * 2
    assert row(table, "PTS") == ["–"] * 2
    ones = [replace(run, metrics={"epochs": 1.0, "seconds": 1000.0}) for run in runs]
    assert row(tables.cost_table(analysed(runs=ones)), "GCN")[0] == "1,000 s, 1 epoch"


def test_missing_runs_are_listed_with_their_errors() -> None:
    runs = [
        failed(run, "out of\nmemory") if run.split_seed in SPLITS[:2] else run
        for run in outcomes(STUDY)
        if run.cell not in (Cell("cora_ml", "GCN"), Cell("citeseer", "PTS"))
    ]
    rows = {
        (name, *texts(entries)) for name, entries in tables.missing_table(analysed(runs=runs)).rows
    }
    why = ("n = 6 of 8, 2 failed", "2 × out of memory")
    assert rows == {
        ("GCN", "cora_ml", "not run", ""),
        ("PTS", "citeseer", "not run", ""),
        *((method, dataset, *why) for method, dataset in [("PTS", "cora_ml"), ("GCN", "citeseer")]),
        *(("PAMT", dataset, *why) for dataset in STUDY.datasets),
    }
