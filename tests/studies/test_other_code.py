"""Runs of another version of the code: taken only if asked for, where there is none, and told."""

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.cli.main import main
from pamt_lightning.data.splits import resolve_split_seed
from pamt_lightning.studies.expand import Run, outcomes
from pamt_lightning.studies.other_code import known_rows
from pamt_lightning.studies.outcome import Cell
from pamt_lightning.studies.report.reports import Finished, write_reports, write_summary
from pamt_lightning.studies.store import Store
from pamt_lightning.studies.study import Study
from tests.studies.small_runs import write_study

CONFIG = {"model": {"class_path": "Some", "init_args": {"alpha": 0.1}}, "threads": 1}
NOW = Run(
    "now",
    Cell("cora_ml", "PTS"),
    "test0",
    0,
    ("--data.noise_seed", "0"),
    {**CONFIG, "code": "new"},
    split_options=("data.noise_seed",),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def add(store: Store, run_id: str, accuracy: float | None, **changes: Any) -> None:
    """Add a run of older code; without an accuracy it has failed."""
    config = {**CONFIG, "code": "old", **changes.pop("config", {})}
    key = store.add_context("configuration", config)
    row = {"id": run_id, "args": [*NOW.args], "split_seed": "test0", "init_seed": 0, "config": key}
    done = {"error": "broken"} if accuracy is None else {"metrics": {"test_acc": accuracy}}
    store.add({**row, **done, **changes})


def accuracies(store: Store, *, any_code: bool = True) -> list[float]:
    rows = known_rows([NOW], store, any_code=any_code)
    return [run.metrics["test_acc"] for run in outcomes([NOW], rows) if run.error is None]


def test_the_newest_of_other_versions_answers_only_if_asked_for(store: Store) -> None:
    add(store, "first", 0.7)
    add(store, "second", 0.8, config={"code": "older still"})
    add(store, "third", None, config={"code": "broken"})
    assert accuracies(store, any_code=False) == []
    assert accuracies(store) == [0.8]
    (found,) = outcomes([NOW], known_rows([NOW], store, any_code=True))
    assert (found.run_id, found.other_code) == ("second", True)


def test_a_run_of_this_code_goes_first_also_if_it_failed(store: Store) -> None:
    add(store, "first", 0.7)
    add(store, "now", None, config={"code": "new"})
    assert accuracies(store) == []
    add(store, "now", 0.9, config={"code": "new"})
    add(store, "later", 0.6, config={"code": "newer still"})
    assert accuracies(store) == [0.9]
    (found,) = outcomes([NOW], known_rows([NOW], store, any_code=True))
    assert not found.other_code


def test_the_same_run_typed_in_other_words_is_an_answer(store: Store) -> None:
    add(store, "first", 0.7, args=["--model.alpha", "0.1", *NOW.args])
    assert accuracies(store) == [0.7]
    add(store, "second", 0.8, split_seed=str(resolve_split_seed("test0")))
    assert accuracies(store) == [0.8]


@pytest.mark.parametrize(
    "changes",
    [
        {"split_seed": "test1"},
        {"init_seed": 1},
        {"args": ["--data.noise_seed", "1"]},
        {"config": {"threads": 2}},
        {"config": {"model": {"class_path": "Some", "init_args": {"alpha": 0.2}}}},
        {"config": {"data": {"path": "a hash"}}},
    ],
)
def test_another_run_is_no_answer(store: Store, changes: dict[str, Any]) -> None:
    add(store, "other", 0.7, **changes)
    assert accuracies(store) == []


def test_reports_say_how_many_there_are(store: Store, tmp_path: Path) -> None:
    study = Study("small", "Small", ("cora_ml",), ("PTS",), ("test0", "test1"), reference="PTS")
    runs = [NOW, replace(NOW, run_id="next", split_seed="test1")]
    add(store, "first", 0.7)
    add(store, "next", 0.8, config={"code": "new"}, split_seed="test1")
    note = "Runs that another version of the code computed: 1."
    text = write_reports(study, runs, store, tmp_path / "any", any_code=True)
    assert note in text
    assert note in (tmp_path / "any" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"\| PTS \| 75.00 ± 7.07 .*; 1 by other code \|", text)
    table = (tmp_path / "any" / "runs.csv").read_text(encoding="utf-8")
    lines = csv.DictReader(table.splitlines())
    assert [(line["id"], line["code"]) for line in lines] == [("first", "other"), ("next", "this")]
    assert note not in write_reports(study, runs, store, tmp_path / "this")
    for any_code, count in ((True, 2), (False, 1)):
        summary = tmp_path / "all.md"
        write_summary(summary, [Finished(study, runs, "")], store, "typed", any_code=any_code)
        about = summary.read_text(encoding="utf-8")
        assert f"small {count} of 2" in about
        assert ("**Computed by another version of the code: 1 run.**" in about) == any_code


def test_runs_are_always_of_this_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = write_study(tmp_path / "mine.yaml")
    assert main(["study", study, "--folder", str(tmp_path / "r"), "--any-code"]) == 2
    assert "--any-code goes with --report" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
