from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pamt_lightning.studies.analysis import Analysis, analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.report.tables import (
    Section,
    choice_tables,
    comparison_notes,
    comparison_tables,
    cost_table,
    counted,
    edge_tables,
    missing_table,
    overview,
    p_text,
    percent,
    points,
    results_table,
    sections,
    signed,
    sweep_comparison_tables,
    sweep_tables,
    value_text,
)
from pamt_lightning.studies.statistics import summarize
from pamt_lightning.studies.study import Study, Sweep
from tests.studies.made_up import SPLITS, STUDY, SWEEP, failed, field, outcomes, text, without

EDGES = {
    "mask_auc_planted": 0.9,
    "mask_auc_original": 0.7,
    "feature_auc_planted": 0.8,
    "feature_auc_original": 0.6,
}


def small(runs: list[Outcome] | None = None) -> Analysis:
    return analyse(STUDY, outcomes(STUDY) if runs is None else runs)


def by_title(analysis: Analysis) -> dict[str, Section]:
    return {section.title: section for section in sections(analysis)}


# Numbers


def test_numbers_have_true_signs_and_no_negative_zero() -> None:
    shares = (0.0123, -0.0123, -0.00001, math.nan)
    assert [points(share) for share in shares] == ["+1.23", "−1.23", "0.00", "–"]
    assert signed(-17.96, 1) == "−18.0"
    assert [percent(0.8505), percent(math.nan)] == ["85.05", "–"]
    assert [p_text(p) for p in (0.0004, 0.012, 1.0, math.nan)] == ["< 0.001", "0.012", "1.000", "–"]
    values = (0.3, 10, True, None, "sym", 1e-05)
    assert [value_text(value) for value in values] == ["0.3", "10", "true", "none", "sym", "1e-05"]
    assert [counted(n, "split") for n in (0, 1, 1200)] == ["0 splits", "1 split", "1,200 splits"]


# The results table


def test_a_cell_shows_mean_deviation_interval_and_the_papers_mean() -> None:
    # 0.80 … 0.87: mean 0.835, variance 42 / 7 = 6 squared points.
    table = results_table(small())
    assert table.header == ("method", "cora_ml", "citeseer")
    assert [name for name, _ in table.rows] == ["GCN", "PTS", "PAMT"]
    entry = field(table, "PAMT", "cora_ml")
    summary = summarize([0.80 + 0.01 * number for number in range(8)])
    interval = f"[{100 * summary.low:.2f}, {100 * summary.high:.2f}]"
    assert entry.lines == ("83.50 ± 2.45", interval, "(paper 86.01)")
    assert 81.8 < 100 * summary.low < 83.5 < 100 * summary.high < 85.2
    assert entry.note == ""


def test_bold_entries_are_those_of_the_analysis() -> None:
    strong = {name: [e.strong for e in entries] for name, entries in results_table(small()).rows}
    assert strong == {"GCN": [True, True], "PTS": [False, False], "PAMT": [False, False]}


def test_methods_data_sets_and_nodes_without_a_mean_in_the_paper_show_none() -> None:
    study = replace(STUDY, methods=("MLP", "PAMT"))
    assert len(field(results_table(analyse(study, outcomes(study))), "MLP", "cora_ml").lines) == 2
    runs = [replace(run, tested_on="held-out nodes") for run in outcomes(STUDY)]
    for study, found in ((replace(STUDY, datasets=("mine",)), None), (STUDY, runs)):
        table = results_table(analyse(study, found or outcomes(study)))
        assert "paper" not in table.caption + str(table.rows)


def test_accuracy_on_held_out_nodes_is_not_called_test_accuracy() -> None:
    runs = [replace(run, tested_on="held-out nodes") for run in outcomes(STUDY)]
    assert results_table(small(runs)).caption.startswith("Accuracy on held-out nodes in %")
    assert "accuracy on held-out nodes minus" in comparison_tables(small(runs))[0].caption
    assert results_table(small()).caption.startswith("Test accuracy in %")


def test_what_is_missing_stands_in_its_cell() -> None:
    table = results_table(small(without(outcomes(STUDY), "cora_ml", "GCN")))
    assert text(table, "GCN", "cora_ml") == "(paper 82.90) not run"
    assert field(table, "GCN", "citeseer").note == ""


def test_a_single_split_has_neither_deviation_nor_interval() -> None:
    study = replace(STUDY, splits=SPLITS[:1])
    entry = field(results_table(analyse(study, outcomes(study))), "PAMT", "cora_ml")
    assert entry.lines == ("80.00", "(paper 86.01)")


def test_the_caption_names_splits_and_initialisations() -> None:
    study = replace(STUDY, inits=(0, 1))
    caption = results_table(analyse(study, outcomes(study))).caption
    assert "8 splits, each averaged over 2 initialisations" in caption


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
    assert [entry.strong for entry in dict(table.rows)["GCN"]] == [False] * 5 + [True]
    # 4 wins and 4 losses of the same size.
    shown = [text(table, "PTS", name) for name in table.header[2:]]
    assert shown == ["0.00", "[−0.75, +0.75]", "1.000", "0.00", "tie"]
    assert not any(entry.strong for entry in dict(table.rows)["PTS"])


def test_a_comparison_without_common_splits_has_no_numbers() -> None:
    table, _ = comparison_tables(small(without(outcomes(STUDY), "cora_ml", "PAMT")))
    shown = [" ".join(entry.lines) for entry in dict(table.rows)["GCN"]]
    assert shown == ["0", "–", "–", "–", "–", "no common splits"]


def test_too_few_splits_are_a_verdict_of_their_own() -> None:
    study = replace(STUDY, splits=SPLITS[:4])
    table, _ = comparison_tables(analyse(study, outcomes(study)))
    assert text(table, "GCN", "verdict") == "too few splits"


def test_a_study_that_does_not_run_its_reference_has_no_comparisons() -> None:
    study = replace(STUDY, reference="MLP")
    assert list(by_title(analyse(study, outcomes(study)))) == ["Results", "Time", "Missing runs"]


def test_notes_name_the_size_of_the_family_and_whether_it_is_too_large() -> None:
    (note,) = comparison_notes(small(), None)
    assert "all comparisons (4 of the study)" in note
    # 7 wins of 7: p = 2 / 2⁷ = 0.0156, and four times that is above 0.05.
    study = replace(STUDY, splits=SPLITS[:7])
    _, warning = comparison_notes(analyse(study, outcomes(study)), None)
    assert warning.startswith("With 4 comparisons and 7 splits no adjusted p of the study")
    study = replace(STUDY, datasets=("mine",), methods=("PTS", "PAMT"), splits=SPLITS[:2])
    _, warning = comparison_notes(analyse(study, outcomes(study)), None)
    assert warning.startswith("With 1 comparison and 2 splits no")


@pytest.mark.parametrize(("count", "is_noted"), [(1, False), (2, True), (8, True), (10, False)])
def test_intervals_of_few_splits_are_noted_to_be_too_narrow(count: int, is_noted: bool) -> None:
    study = replace(STUDY, splits=tuple(f"test{number}" for number in range(count)))
    first, *_ = sections(analyse(study, outcomes(study)))
    assert any("fewer than 10 splits are too narrow" in note for note in first.notes) == is_noted


def test_bold_is_explained_only_where_something_is_bold() -> None:
    assert by_title(small())["Results"].notes[0].startswith("Bold: shown to be better than PAMT")
    study = replace(STUDY, methods=("PTS", "PAMT"))
    notes = by_title(analyse(study, outcomes(study)))["Results"].notes
    assert not any("Bold" in note for note in notes)


# Sweeps


def test_a_sweep_has_one_table_for_each_data_set_with_a_column_for_each_value() -> None:
    study = replace(SWEEP, datasets=("cora_ml", "citeseer"))
    tables = sweep_tables(analyse(study, outcomes(study)), study.sweeps[0])
    assert [table.caption.split(":")[0] for table in tables] == ["cora_ml", "citeseer"]
    assert tables[0].header == ("method", "noise = 0.3", "noise = 0.5")
    # The paper's means are of the graph as it is.
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


def test_splits_that_the_reference_lacks_are_noted() -> None:
    runs = [r for r in outcomes(SWEEP) if r.cell.method != "PAMT" or r.split_seed != "test0"]
    (table,) = sweep_comparison_tables(analyse(SWEEP, runs), SWEEP.sweeps[0])
    assert field(table, "GCN", "noise = 0.5").note == "n = 7 of 8"


def test_notes_name_the_family_of_each_sweep() -> None:
    study = replace(SWEEP, sweeps=(*SWEEP.sweeps, Sweep("model.alpha", (0.1,), "α")))
    analysis = analyse(study, outcomes(study))
    assert "(4 of cora_ml)" in comparison_notes(analysis, "data.structure_noise")[0]
    assert "(2 of cora_ml)" in comparison_notes(analysis, "model.alpha")[0]


def test_a_sweep_of_one_method_without_a_reference_value_is_not_compared() -> None:
    study = replace(SWEEP, methods=("PAMT",))
    titles = list(by_title(analyse(study, outcomes(study))))
    assert titles == ["Results by noise (data.structure_noise)", "Time", "Missing runs"]


def test_a_study_of_one_method_is_compared_with_the_configured_value() -> None:
    sweep = Sweep("model.alpha", (0.1, 0.2), "α", {"a": 0.2, "b": 0.1})
    study = Study("s", "s", ("a", "b"), ("PAMT",), SPLITS, sweeps=(sweep,))
    runs = outcomes(study, lambda cell, number: 0.8 - float(str(cell.value)) + 0.001 * number)
    analysis = analyse(study, runs)
    first, second = sweep_comparison_tables(analysis, sweep)
    assert "minus that of PAMT, α = 0.2 on the same splits" in first.caption
    assert text(first, "PAMT", "α = 0.1").startswith("+10.00 [")
    assert text(first, "PAMT", "α = 0.1").endswith("better")
    assert text(first, "PAMT", "α = 0.2") == text(second, "PAMT", "α = 0.1") == "reference"
    assert text(second, "PAMT", "α = 0.2").endswith("worse")
    assert "Compared with the configured value, by α (model.alpha)" in by_title(analysis)


@pytest.mark.parametrize("base", [STUDY, SWEEP], ids=["plain", "sweep"])
def test_each_further_reference_has_tables_of_its_own(base: Study) -> None:
    study = replace(base, further_references=("GCN",))
    found = by_title(analyse(study, outcomes(study)))
    by = ", by noise (data.structure_noise)" if study.sweeps else ""
    first = found[f"Compared with PAMT{by}"].tables[0]
    second = found[f"Compared with GCN{by}"].tables[0]
    assert [(name, fields[-1].lines[-1]) for name, fields in first.rows] == [
        *(("GCN", "better"), ("PTS", "tie")),
    ]
    assert [(name, fields[-1].lines[-1]) for name, fields in second.rows] == [
        *(("PTS", "tie"), ("PAMT", "worse")),
    ]


def test_the_noise_that_was_reached_stands_below_the_results() -> None:
    runs = [
        replace(run, metrics={**run.metrics, "structure_noise": float(str(run.cell.value)) + miss})
        for run, miss in zip(outcomes(SWEEP), [0.0, -0.00025, 0.0001] * 16, strict=True)
    ]
    note = by_title(analyse(SWEEP, runs))["Results by noise (data.structure_noise)"].notes[-1]
    assert "at most 0.000250, over 48 runs." in note
    other = replace(SWEEP, sweeps=(replace(SWEEP.sweeps[0], option="model.alpha"),))
    notes = by_title(analyse(other, outcomes(other)))["Results by noise (model.alpha)"].notes
    assert not any("reached" in note for note in notes)


# Edges, choices, time, missing runs


def test_the_auc_of_mask_and_attributes_stands_beside_the_accuracy() -> None:
    runs = [
        replace(run, metrics={**run.metrics, **EDGES}) if run.cell.method == "PAMT" else run
        for run in outcomes(SWEEP)
    ]
    (table,) = edge_tables(analyse(SWEEP, runs))
    assert [name for name, _ in table.rows] == ["PAMT, noise = 0.3", "PAMT, noise = 0.5"]
    shown = [text(table, "PAMT, noise = 0.5", column)[:13] for column in table.header[1:]]
    assert shown == ["83.50 ± 2.45 ", *(f"{value:.3f} ± 0.000" for value in EDGES.values())]
    (note,) = by_title(analyse(SWEEP, runs))["Edges between classes"].notes
    assert "Planted" in note


def test_missing_edge_metrics_are_left_out_or_noted() -> None:
    runs = outcomes(STUDY)
    assert edge_tables(small(runs)) == ()
    some = {"mask_auc_original": 0.7, "feature_auc_planted": math.nan}
    runs[0] = replace(runs[0], metrics={**runs[0].metrics, **some})
    (table,) = edge_tables(small(runs))
    assert table.header == ("method", "test accuracy in %", "mask, original edges")
    assert text(table, "GCN", "mask, original edges") == "0.700 n = 1 of 8"
    (note,) = by_title(small(runs))["Edges between classes"].notes
    assert "Planted" not in note


def test_the_chosen_inference_is_counted_over_finished_runs() -> None:
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
    (table,) = choice_tables(analyse(study, [*runs[:-1], failed(runs[-1], "x")]))
    assert text(table, "PAMT", "runs") == "mask 4, unmasked 2, graphless 1"
    assert choice_tables(small()) == ()


def test_seconds_and_epochs_are_medians_of_finished_runs() -> None:
    runs = [failed(r, "x") if r.cell.method == "PTS" else r for r in outcomes(STUDY)]
    runs = [run for run in runs if run.split_seed != "test7"]  # seconds 1, 2, …, 64
    table = cost_table(small(runs))
    assert text(table, "GCN", "cora_ml") == "8.0 s, 400 epochs"
    assert text(table, "PTS", "cora_ml") == "–"
    ones = [replace(run, metrics={"epochs": 1.0, "seconds": 1000.0}) for run in runs]
    assert text(cost_table(small(ones)), "GCN", "cora_ml") == "1,000 s, 1 epoch"


def test_missing_runs_are_listed_with_their_errors() -> None:
    runs = [
        failed(run, "out of\nmemory") if run.split_seed in SPLITS[:2] else run
        for run in without(outcomes(STUDY), "citeseer", "PTS")
        if run.cell != Cell("cora_ml", "GCN")
    ]
    table = missing_table(small(runs))
    rows = {(name, *(" ".join((*e.lines, e.note)).strip() for e in es)) for name, es in table.rows}
    why = ("n = 6 of 8, 2 failed", "2 × out of memory")
    assert rows == {
        ("GCN", "cora_ml", "not run", ""),
        ("PTS", "citeseer", "not run", ""),
        *((method, dataset, *why) for method, dataset in [("PTS", "cora_ml"), ("GCN", "citeseer")]),
        *(("PAMT", dataset, *why) for dataset in STUDY.datasets),
    }
    assert table.notes == ()
    complete = missing_table(small())
    assert (complete.rows, complete.caption[:5]) == ((), "None:")


def test_runs_of_another_results_version_are_noted() -> None:
    runs = [replace(run, other_version=run.cell.method == "GCN") for run in outcomes(STUDY)]
    assert missing_table(small(runs)).notes == ("Runs computed under another results version: 16.",)


def test_the_overview_lists_what_the_study_consists_of() -> None:
    study = replace(
        SWEEP, options={"trainer.max_epochs": 500}, narrowed="--seeds test8", inits=(0, 1)
    )
    facts = dict(overview(analyse(study, outcomes(study)[1:])))
    assert facts["varied"] == "noise (data.structure_noise): 0.3, 0.5"
    assert facts["options"] == "trainer.max_epochs = 500"
    assert facts["part of the study"] == "--seeds test8"
    assert facts["initialisations"] == "2: seeds 0, 1"
    assert facts["runs"] == "95 finished, 0 failed, of 96"
    assert "paper's results" not in facts
    assert "Tables 3 and 5" in dict(overview(small()))["paper's results"]
