from __future__ import annotations

import csv
import io
from dataclasses import replace

from pamt_lightning.studies.report.csv_files import runs_csv, table_csv
from tests.studies.made_up import STUDY, SWEEP, failed, outcomes, without


def lines_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_each_run_is_a_line_with_all_its_metrics() -> None:
    good, bad = outcomes(SWEEP)[:2]
    bad = failed(bad, 'it said "no",\nand stopped')
    lines = lines_of(runs_csv([good, bad]))
    assert lines[0] == {
        "id": "cora_ml-GCN-0.3-test0-0",
        "dataset": "cora_ml",
        "method": "GCN",
        "option": "data.structure_noise",
        "value": "0.3",
        "split_seed": "test0",
        "init_seed": "0",
        "status": "finished",
        "error": "",
        "code": "this",
        "epochs": "100.0",
        "seconds": "1.0",
        "test_acc": "0.81",
    }
    assert lines[1]["status"] == "failed"
    assert lines[1]["error"] == 'it said "no",\nand stopped'
    assert lines[1]["test_acc"] == ""


def test_each_cell_is_a_line_with_all_statistics() -> None:
    lines = lines_of(table_csv(STUDY, without(outcomes(STUDY), "citeseer", "PTS")))
    assert [(line["dataset"], line["method"]) for line in lines] == [
        (dataset, method) for dataset in STUDY.datasets for method in STUDY.methods
    ]
    gcn, _, pamt, _, pts, _ = lines
    assert (gcn["mean"], gcn["std"], gcn["splits"]) == ("84.5", "2.44949", "8")
    assert (gcn["paper_mean"], gcn["paper_std"]) == ("82.9", "0.41")
    assert (gcn["difference"], gcn["difference_low"], gcn["effect"]) == ("1.0", "1.0", "1.0")
    assert (gcn["p_value"], gcn["p_adjusted"]) == ("0.0078125", "0.0234375")  # × 3
    assert (gcn["verdict"], gcn["reference"], gcn["common_splits"]) == ("better", "PAMT", "8")
    assert (gcn["option"], gcn["value"], gcn["metric"]) == ("", "", "test_acc")
    assert pamt["verdict"] == pamt["difference"] == pamt["reference"] == ""
    assert (pts["missing"], pts["mean"], pts["splits"]) == ("not run", "", "0")
    assert (pts["splits_asked"], pts["runs_asked"], pts["runs_finished"]) == ("8", "8", "0")


def test_the_papers_figure_is_not_set_beside_a_sweep() -> None:
    lines = lines_of(table_csv(SWEEP, outcomes(SWEEP)))
    assert {line["paper_mean"] for line in lines} == {""}
    assert {(line["option"], line["value"]) for line in lines} == {
        ("data.structure_noise", "0.3"),
        ("data.structure_noise", "0.5"),
    }


def test_another_metric_is_not_set_beside_the_papers_accuracy() -> None:
    runs = [replace(run, metrics={"test_f1": run.metrics["test_acc"]}) for run in outcomes(STUDY)]
    (first, *_) = lines_of(table_csv(STUDY, runs, "test_f1"))
    assert (first["metric"], first["mean"], first["paper_mean"]) == ("test_f1", "84.5", "")
