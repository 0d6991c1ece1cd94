from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pamt_lightning.studies.analysis import Analysis, analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.study import Study, Sweep
from tests.studies.made_up import SPLITS, STUDY, SWEEP, accuracy, failed, outcomes, without

GCN = Cell("cora_ml", "GCN")


def bold(analysis: Analysis) -> set[Cell]:
    return {cell for cell, result in analysis.results.items() if analysis.shows_best(result)}


# Incomplete cells


def test_a_complete_study_has_no_gaps() -> None:
    results = analyse(STUDY, outcomes(STUDY)).results
    assert list(results) == STUDY.cells()
    assert {result.gap for result in results.values()} == {""}
    assert {(r.runs_asked, r.splits_asked, r.finished) for r in results.values()} == {(8, 8, 8)}


@pytest.mark.parametrize(
    ("kept", "num_failed", "num_nan", "gap"),
    [
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
        ours[number] = replace(ours[number], metrics={"test_acc": math.nan})
    result = analyse(STUDY, [*without(outcomes(STUDY), *GCN[:2]), *ours]).results[GCN]
    assert result.gap == gap
    assert result.errors == ((("boom", num_failed),) if num_failed else ())
    assert result.summary.count == kept - num_failed - num_nan


def test_a_value_that_is_not_finite_is_not_averaged() -> None:
    first, *others = outcomes(STUDY)
    runs = [replace(first, metrics={"test_acc": math.inf}), *others]
    assert analyse(STUDY, runs).results[GCN].summary.mean == pytest.approx(0.85)  # 0.82 … 0.88


def test_a_run_that_failed_and_was_repeated_is_not_missing() -> None:
    runs = outcomes(STUDY)
    results = analyse(STUDY, [failed(runs[0], "killed"), *runs]).results
    assert {result.gap for result in results.values()} == {""}


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


def test_runs_of_another_results_version_are_counted() -> None:
    runs = outcomes(STUDY)
    runs[0] = replace(runs[0], other_version=True)
    result = analyse(STUDY, runs).results[GCN]
    assert (result.other_version, result.gap) == (1, "1 of another version")


def test_runs_on_held_out_nodes_are_not_taken_for_runs_on_test_nodes() -> None:
    runs = outcomes(STUDY)
    assert analyse(STUDY, runs).on_test_nodes
    assert not analyse(STUDY, [replace(runs[0], tested_on="held-out nodes"), *runs]).on_test_nodes


# Bold


def test_bold_is_what_was_shown_to_be_better_than_the_reference() -> None:
    assert bold(analyse(STUDY, outcomes(STUDY))) == {GCN, Cell("citeseer", "GCN")}


def test_a_larger_mean_alone_is_not_bold() -> None:
    # By far the largest mean, but it wins four splits and loses four.
    def figure(cell: Cell, number: int) -> float:
        ups = 0.1 if number % 2 else -0.01
        return accuracy(cell, number) if cell.method == "PAMT" else 0.8 + 0.01 * number + ups

    analysis = analyse(STUDY, outcomes(STUDY, figure))
    assert analysis.results[GCN].summary.mean == pytest.approx(0.88)
    assert bold(analysis) == set()


def worse(cell: Cell, number: int) -> float:
    return 0.8 + 0.01 * number - (0.0 if cell.method == "PAMT" else 0.02)


def test_the_reference_is_bold_where_it_was_shown_to_beat_all_others() -> None:
    runs = outcomes(STUDY, worse)
    assert bold(analyse(STUDY, runs)) == {Cell(dataset, "PAMT") for dataset in STUDY.datasets}
    assert bold(analyse(STUDY, without(runs, "cora_ml", "GCN"))) == {Cell("citeseer", "PAMT")}


@pytest.mark.parametrize(
    "study", [replace(STUDY, reference="MLP"), replace(STUDY, methods=("PAMT",))]
)
def test_nothing_is_bold_without_a_comparison(study: Study) -> None:
    analysis = analyse(study, outcomes(study))
    assert bold(analysis) == set()
    assert {result.comparison for result in analysis.results.values()} == {None}


# Families of comparisons


def test_all_data_sets_are_one_family_without_sweeps() -> None:
    found = analyse(STUDY, outcomes(STUDY)).results[GCN].comparison
    assert found is not None
    assert found.p_value == 2 / 2**8
    assert found.p_adjusted == 4 * 2 / 2**8  # GCN and PTS on two data sets


def test_each_sweep_of_a_data_set_is_a_family_of_its_own() -> None:
    study = replace(SWEEP, sweeps=(*SWEEP.sweeps, Sweep("model.alpha", (0.1,), "α")))
    analysis = analyse(study, outcomes(study))
    for option, value, size in (("data.structure_noise", 0.3, 4), ("model.alpha", 0.1, 2)):
        found = analysis.results[Cell("cora_ml", "GCN", option, value)].comparison
        assert found is not None
        assert found.p_adjusted == pytest.approx(size * 2 / 2**8)


def test_one_method_is_compared_with_its_value_by_data_set() -> None:
    sweep = Sweep("model.alpha", (0.1, 0.2), "α", {"a": 0.2, "b": 0.1})
    study = Study("s", "s", ("a", "b"), ("PAMT",), SPLITS, sweeps=(sweep,))
    gains = {("a", 0.1): 0.01, ("a", 0.2): 0.0, ("b", 0.1): 0.0, ("b", 0.2): -0.02}
    runs = outcomes(study, lambda c, n: 0.8 + gains[c.dataset, float(str(c.value))] + 0.001 * n)
    verdicts = {
        (cell.dataset, cell.value): result.comparison and result.comparison.verdict
        for cell, result in analyse(study, runs).results.items()
    }
    assert verdicts == {
        **{("a", 0.1): "better", ("a", 0.2): None, ("b", 0.1): None, ("b", 0.2): "worse"}
    }


def test_further_references_share_the_summaries_and_have_comparisons_of_their_own() -> None:
    study = replace(STUDY, further_references=("GCN", "not run here"))
    analysis = analyse(study, outcomes(study))
    (other,) = analysis.further
    assert other.study.reference == "GCN"
    alone = analyse(replace(STUDY, reference="GCN"), outcomes(STUDY))
    assert other == replace(alone, study=other.study)
    for cell, result in analysis.results.items():
        assert other.results[cell].summary is result.summary
    found = other.results[Cell("cora_ml", "PAMT")].comparison
    assert found is not None
    assert found.verdict == "worse"


def test_runs_of_a_cell_outside_the_study_are_refused() -> None:
    stranger = Outcome("x", Cell("cora_ml", "SGC"), "test0", 0, {"test_acc": 0.5})
    with pytest.raises(KeyError, match="SGC"):
        analyse(STUDY, [stranger])
