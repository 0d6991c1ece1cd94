from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pamt_lightning.studies.analysis import analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.report.csv_files import table_csv
from pamt_lightning.studies.report.tables import (
    choice_tables,
    cost_table,
    edge_tables,
    gaps_table,
    results_table,
    sections,
    sweep_comparison_tables,
    sweep_tables,
)
from pamt_lightning.studies.report.wording import comparison_notes, noise_notes
from pamt_lightning.studies.study import Study, Sweep
from tests.studies.made_up import SPLITS, STUDY, SWEEP, failed, field, outcomes, text, without

EDGES = {
    "mask_auc_planted": 0.9,
    "mask_auc_original": 0.7,
    "feature_auc_planted": 0.8,
    "feature_auc_original": 0.6,
}


def test_a_sweep_has_one_table_for_each_data_set_with_a_column_for_each_value() -> None:
    study = replace(SWEEP, datasets=("cora_ml", "citeseer"))
    tables = sweep_tables(analyse(study, outcomes(study)), study.sweeps[0])
    assert [table.caption.split(":")[0] for table in tables] == ["cora_ml", "citeseer"]
    assert tables[0].header == ("method", "noise = 0.3", "noise = 0.5")
    # The paper's figures are of the graph as it is.
    assert field(tables[0], "PAMT", "noise = 0.3").lines[0] == "83.50 ± 2.45"
    assert len(field(tables[0], "PAMT", "noise = 0.3").lines) == 2


def test_a_sweep_is_compared_at_each_value() -> None:
    runs = [
        run if run.cell.value == 0.3 or run.cell.method != "GCN" else failed(run, "boom")
        for run in outcomes(SWEEP)
    ]
    (table,) = sweep_comparison_tables(analyse(SWEEP, runs), SWEEP.sweeps[0])
    assert [name for name, _ in table.rows] == ["GCN", "PTS"]
    # GCN at 0.3 is the smallest of three p-values: 3 × 2 / 2⁸.
    assert text(table, "GCN", "noise = 0.3") == "+1.00 [+1.00, +1.00] p 0.023, r +1.00: better"
    assert field(table, "GCN", "noise = 0.3").strong
    assert text(table, "GCN", "noise = 0.5") == "failed (8)"
    assert text(table, "PTS", "noise = 0.5").endswith("p 1.000, r 0.00: tie")


def test_splits_that_the_reference_lacks_are_told() -> None:
    runs = [r for r in outcomes(SWEEP) if r.cell.method != "PAMT" or r.split_seed != "test0"]
    (table,) = sweep_comparison_tables(analyse(SWEEP, runs), SWEEP.sweeps[0])
    assert field(table, "GCN", "noise = 0.5").note == "n = 7 of 8"


def test_each_sweep_is_a_family_of_its_own() -> None:
    study = replace(SWEEP, sweeps=(*SWEEP.sweeps, Sweep("model.alpha", (0.1,), "α")))
    analysis = analyse(study, outcomes(study))
    assert "(4 of cora_ml)" in comparison_notes(analysis, "data.structure_noise")[0]
    assert "(2 of cora_ml)" in comparison_notes(analysis, "model.alpha")[0]
    found = analysis.result("cora_ml", "GCN", "model.alpha", 0.1).comparison
    assert found is not None
    assert found.p_adjusted == pytest.approx(2 * 2 / 2**8)


def test_a_sweep_of_one_method_is_not_compared() -> None:
    study = replace(SWEEP, methods=("PAMT",))
    titles = [section.title for section in sections(analyse(study, outcomes(study)))]
    assert titles == ["Results by noise (data.structure_noise)", "Time", "What is missing"]


def test_the_mask_stands_beside_the_attributes_and_the_accuracy() -> None:
    runs = [
        replace(run, metrics={**run.metrics, **EDGES}) if run.cell.method == "PAMT" else run
        for run in outcomes(SWEEP)
    ]
    (table,) = edge_tables(analyse(SWEEP, runs))
    assert [name for name, _ in table.rows] == ["PAMT, noise = 0.3", "PAMT, noise = 0.5"]
    shown = [text(table, "PAMT, noise = 0.5", column)[:13] for column in table.header[1:]]
    assert shown == ["83.50 ± 2.45 ", *(f"{value:.3f} ± 0.000" for value in EDGES.values())]


def test_edge_metrics_that_are_missing_are_left_out_or_told() -> None:
    runs = outcomes(STUDY)
    assert edge_tables(analyse(STUDY, runs)) == ()
    some = {"mask_auc_original": 0.7, "feature_auc_planted": math.nan}
    runs[0] = replace(runs[0], metrics={**runs[0].metrics, **some})
    (table,) = edge_tables(analyse(STUDY, runs))
    assert table.header == ("method", "test accuracy in %", "mask, original edges")
    assert text(table, "GCN", "mask, original edges") == "0.700 n = 1 of 8"


def test_seconds_and_epochs_are_medians_of_finished_runs() -> None:
    runs = [failed(r, "x") if r.cell.method == "PTS" else r for r in outcomes(STUDY)]
    runs = [run for run in runs if run.split_seed != "test7"]  # seconds 1, 2, …, 64
    table = cost_table(analyse(STUDY, runs))
    assert text(table, "GCN", "cora_ml") == "8.0 s, 400 epochs"
    assert text(table, "PTS", "cora_ml") == "–"


def test_what_is_missing_is_listed_with_its_reason() -> None:
    runs = [
        failed(run, "out of\nmemory") if run.split_seed in SPLITS[:2] else run
        for run in without(outcomes(STUDY), "citeseer", "PTS")
        if run.cell != Cell("cora_ml", "GCN")
    ]
    stranger = Outcome("x", Cell("cora_ml", "SGC"), "test0", 0, {"test_acc": 0.5})
    table = gaps_table(analyse(STUDY, [*runs, stranger]))
    rows = {(name, *(" ".join((*e.lines, e.note)).strip() for e in es)) for name, es in table.rows}
    why = ("n = 6 of 8, 2 failed", "2 × out of memory")
    assert rows == {
        ("GCN", "cora_ml", "not run", ""),
        ("PTS", "citeseer", "not run", ""),
        *((method, dataset, *why) for method, dataset in [("PTS", "cora_ml"), ("GCN", "citeseer")]),
        *(("PAMT", dataset, *why) for dataset in STUDY.datasets),
    }
    assert table.notes == ("Runs that count for no cell of the study, in runs.csv only: 1.",)


def test_nothing_missing_is_said_in_words() -> None:
    table = gaps_table(analyse(STUDY, outcomes(STUDY)))
    assert table.rows == ()
    assert table.caption == "Nothing: all runs that the study asks for are there."


def test_a_study_of_one_method_is_compared_with_the_configured_value() -> None:
    sweep = Sweep("model.alpha", (0.1, 0.2), "α", {"a": 0.2, "b": 0.1})
    splits = tuple(f"test{number}" for number in range(8))
    study = Study("s", "s", ("a", "b"), ("PAMT",), splits, sweeps=(sweep,))
    gains = {("a", 0.1): 0.01, ("a", 0.2): 0.0, ("b", 0.1): 0.0, ("b", 0.2): -0.02}
    runs = [
        Outcome(f"{cell}{split}", cell, split, 0, {"test_acc": 0.8 + gain + 0.001 * number})
        for (dataset, value), gain in gains.items()
        for number, split in enumerate(splits)
        for cell in [Cell(dataset, "PAMT", "model.alpha", value)]
    ]
    analysis = analyse(study, runs)
    tables = sweep_comparison_tables(analysis, sweep)
    assert [table.caption.split(",")[0] for table in tables] == [
        "a: test accuracy minus that of PAMT",
        "b: test accuracy minus that of PAMT",
    ]
    assert "PAMT, α = 0.2 on the same splits" in tables[0].caption
    ((_, fields),) = tables[0].rows
    assert fields[0].lines[0].startswith("+1.00 [")
    assert fields[0].lines[-1] == "better"
    assert fields[1].lines == ("reference",)
    ((_, fields),) = tables[1].rows
    assert fields[0].lines == ("reference",)
    assert fields[1].lines[-1] == "worse"
    names = [section.title for section in sections(analysis)]
    assert "Compared with the configured value, by α (model.alpha)" in names


def test_each_further_reference_has_tables_of_its_own() -> None:
    sweep = Sweep("data.structure_noise", (0.5,))
    splits = tuple(f"test{number}" for number in range(8))
    study = Study(
        *("s", "s", ("a",), ("PAMT", "PTA", "PAMT_plus"), splits),
        sweeps=(sweep,),
        further_references=("PAMT_plus",),
    )
    means = {"PAMT": 0.8, "PTA": 0.7, "PAMT_plus": 0.9}
    runs = [
        Outcome(f"{method}{split}", cell, split, 0, {"test_acc": mean + 0.001 * number})
        for method, mean in means.items()
        for number, split in enumerate(splits)
        for cell in [Cell("a", method, "data.structure_noise", 0.5)]
    ]
    found = {section.title: section for section in sections(analyse(study, runs))}
    first = found["Compared with PAMT, by data.structure_noise"].tables[0]
    second = found["Compared with PAMT_plus, by data.structure_noise"].tables[0]
    assert [(name, fields[0].lines[-1]) for name, fields in first.rows] == [
        ("PTA", "worse"),
        ("PAMT_plus", "better"),
    ]
    assert [(name, fields[0].lines[-1]) for name, fields in second.rows] == [
        ("PAMT", "worse"),
        ("PTA", "worse"),
    ]
    lines = table_csv(study, runs).splitlines()
    assert len(lines) == 1 + 2 * 3
    assert {line.split(",")[-9] for line in lines[1:]} == {"", "PAMT", "PAMT_plus"}


def test_accuracy_on_known_nodes_is_not_called_test_accuracy() -> None:
    study = Study("s", "s", ("cora_ml",), ("PAMT",), ("val0", "val1"))
    cell = Cell("cora_ml", "PAMT")
    runs = [
        Outcome(split, cell, split, 0, {"test_acc": 0.8}, tested_on="known nodes left over")
        for split in study.splits
    ]
    analysis = analyse(study, runs)
    table = results_table(analysis)
    assert table.caption.startswith("Accuracy on known nodes in %")
    assert "paper" not in table.caption
    assert "86.01" not in str(table.rows)  # the paper's mean is of test nodes
    assert "86.01" in str(results_table(analyse(study, [])).rows)


# What the runs were like


def test_what_was_chosen_is_counted() -> None:
    study = replace(STUDY, datasets=("cora_ml",), methods=("PTS", "PAMT"))
    names = ("mask", "unmasked", "mask", "graphless")
    runs = [
        replace(run, chosen=names[number % 4]) if run.cell.method == "PAMT" else run
        for number, run in enumerate(outcomes(study))
    ]
    (table,) = choice_tables(analyse(study, runs))
    assert [name for name, _ in table.rows] == ["PAMT"]
    assert text(table, "PAMT", "data set") == "cora_ml"
    assert text(table, "PAMT", "runs") == "mask 4, unmasked 2, graphless 2"
    runs[-1] = failed(runs[-1], "x")
    (table,) = choice_tables(analyse(study, runs))
    assert text(table, "PAMT", "runs") == "mask 4, unmasked 2, graphless 1"


def test_where_nothing_was_chosen_nothing_is_counted() -> None:
    assert choice_tables(analyse(STUDY, outcomes(STUDY))) == ()


def test_the_noise_that_was_reached_stands_below_the_results() -> None:
    runs = [
        replace(run, metrics={**run.metrics, "structure_noise": float(str(run.cell.value)) + miss})
        for run, miss in zip(outcomes(SWEEP), [0.0, -0.00025, 0.0001] * 16, strict=True)
    ]
    analysis = analyse(SWEEP, runs)
    (found,) = [s for s in sections(analysis) if s.title.startswith("Results by")]
    said = "differs from the one asked for by at most 0.000250, over 48 runs."
    assert said in found.notes[-1]
    other = replace(SWEEP, sweeps=(replace(SWEEP.sweeps[0], option="model.alpha"),))
    assert noise_notes(analyse(other, outcomes(other)), other.sweeps[0]) == ()


def test_notes_are_only_about_what_is_there() -> None:
    study = replace(STUDY, datasets=("mine",), methods=("PTS", "PAMT"))
    titles = {section.title: section for section in sections(analyse(study, outcomes(study)))}
    assert "paper" not in titles["Results"].tables[0].caption
    (note,) = titles["Results"].notes  # PTS wins on half of the splits: nothing is bold
    assert note.startswith("Intervals of fewer than 10 splits")
    runs = [replace(r, metrics={**r.metrics, "mask_auc_original": 0.9}) for r in outcomes(STUDY)]
    titles = {section.title: section for section in sections(analyse(STUDY, runs))}
    assert titles["Results"].notes[0].startswith("Bold: ")
    edges = titles["Which edges join two classes"]
    assert edges.notes == ("0.5 is guessing, 1 tells them all.",)


def test_one_is_not_spoken_of_as_many() -> None:
    study = replace(STUDY, datasets=("mine",), methods=("PTS", "PAMT"), splits=("test0", "test1"))
    runs = [
        replace(r, metrics={**r.metrics, "epochs": 1.0, "seconds": 1.0}) for r in outcomes(study)
    ]
    analysis = analyse(study, runs)
    assert text(cost_table(analysis), "PTS", "mine") == "1.0 s, 1 epoch"
    assert "With 1 comparison and 2 splits no" in comparison_notes(analysis, None)[1]
