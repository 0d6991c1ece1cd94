from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from pamt_lightning.errors import InputError
from pamt_lightning.experiments.expand import Run
from pamt_lightning.experiments.outcome import Value
from pamt_lightning.experiments.runner import Tally
from pamt_lightning.experiments.study import Study
from pamt_lightning.experiments.tune import (
    Space,
    Trial,
    TrialFailedError,
    Tuner,
    check_seeds,
    read_space,
    score_of,
    write_choice,
    write_trials,
)
from pamt_lightning.main import main

LEFT_OVER = "known nodes left over"


class FakeStore:
    """Rows in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}

    def rows(self) -> dict[str, dict[str, Any]]:
        return self.kept


class FakeRunner:
    """Scores runs by a function of their options instead of training."""

    def __init__(self, score: Callable[[dict[str, Any], str], float]) -> None:
        self.store = FakeStore()
        self.score = score
        self.done: list[Run] = []

    def run(self, runs: Sequence[Run], *, retry: bool = False) -> Tally:
        tally = Tally()
        for run in runs:
            self.done.append(run)
            value = self.score(options_of(run), run.split_seed)
            if value < 0:
                tally.failed[run.run_id] = "it diverged."
                continue
            metrics = {"test_acc": value, "val_acc": 0.0}
            self.store.kept[run.run_id] = {"metrics": metrics, "tested_on": LEFT_OVER}
        return tally


def options_of(run: Run) -> dict[str, Any]:
    words = run.args
    pairs = zip(words[::2], words[1::2], strict=True)
    return {name[2:]: yaml.safe_load(value) for name, value in pairs}


def configure(args: list[str]) -> dict[str, Any]:
    return {"model": {"class_path": "pamt_lightning.PAMTModule", "init_args": {}}, "args": args}


def tuner(
    space: Space,
    score: Callable[[dict[str, Any], str], float],
    splits: tuple[str, ...] = ("val0", "val1", "val2"),
) -> tuple[Tuner, FakeRunner]:
    runner = FakeRunner(score)
    study = Study("t", "t", space.datasets, ("tuned",), splits, reference="tuned")
    given: Any = runner
    return Tuner(space, ["--trainer.max_epochs", "9"], study, configure, given), runner


LINE = Space({"model.lr": {"low": 0.0, "high": 1.0}})


def near_a_third(options: dict[str, Any], split: str) -> float:
    return 0.9 - abs(float(options["model.lr"]) - 0.3) + 0.001 * int(split[3:])


def test_the_search_comes_near_the_best_choice_and_lists_it_first(tmp_path: Path) -> None:
    search, _ = tuner(LINE, near_a_third)
    trials = search.search(tmp_path / "s.sqlite3", 30)
    assert len(trials) == 30
    assert sorted(trial.number for trial in trials) == list(range(30))
    best = trials[0]
    assert best.state == "complete"
    value = best.choice["model.lr"]
    assert isinstance(value, float)
    assert abs(value - 0.3) < 0.1
    assert best.score == pytest.approx(0.901 - abs(value - 0.3))
    complete = [trial.score for trial in trials if trial.state == "complete"]
    assert complete == sorted(complete, key=lambda score: -(score or 0.0))


def test_what_is_tried_is_what_is_written_down(tmp_path: Path) -> None:
    search, runner = tuner(LINE, near_a_third)
    trials = search.search(tmp_path / "s.sqlite3", 5)
    tried = {options_of(run)["model.lr"] for run in runner.done}
    assert tried == {trial.choice["model.lr"] for trial in trials}
    assert all(options_of(run)["trainer.max_epochs"] == 9 for run in runner.done)


def test_the_choices_to_start_with_come_first(tmp_path: Path) -> None:
    space = Space(LINE.options, start=({"model.lr": 0.125}, {"model.lr": 0.75}))
    search, runner = tuner(space, near_a_third)
    search.search(tmp_path / "s.sqlite3", 3)
    tried = list(dict.fromkeys(options_of(run)["model.lr"] for run in runner.done))
    assert tried[:2] == [0.125, 0.75]


def test_a_choice_that_is_worse_on_every_split_is_given_up_early(tmp_path: Path) -> None:
    space = Space(
        {"model.mask": [True, False]}, start=({"model.mask": True}, {"model.mask": False})
    )
    splits = tuple(f"val{number}" for number in range(12))
    search, runner = tuner(space, lambda o, s: 0.8 if o["model.mask"] else 0.5, splits)
    trials = search.search(tmp_path / "s.sqlite3", 2)
    assert [(trial.state, trial.choice["model.mask"]) for trial in trials] == [
        ("complete", True),
        ("pruned", False),
    ]
    assert trials[0].splits == 12
    assert trials[1].splits < 12
    assert len(runner.done) == 12 + trials[1].splits


def test_one_choice_is_scored_on_all_data_sets_under_all_conditions(tmp_path: Path) -> None:
    conditions: tuple[dict[str, float], ...] = ({}, {"data.structure_noise": 0.5})
    space = Space(LINE.options, ("cora_ml", "pubmed"), conditions)

    def score(options: dict[str, Any], split: str) -> float:
        of_data = 0.2 if "pubmed" in options["config"] else 0.4
        return of_data + (0.1 if "data.structure_noise" in options else 0.0)

    search, runner = tuner(space, score, ("val0",))
    (trial,) = search.search(tmp_path / "s.sqlite3", 1)
    assert trial.score == pytest.approx((0.2 + 0.3 + 0.4 + 0.5) / 4)
    seen = {
        (options_of(r)["config"], options_of(r).get("data.structure_noise")) for r in runner.done
    }
    files = ("configs/cora_ml.yaml", "configs/pubmed.yaml")
    assert seen == {(file, noise) for file in files for noise in (None, 0.5)}


def test_a_search_goes_on_where_it_was(tmp_path: Path) -> None:
    first, _ = tuner(LINE, near_a_third)
    first.search(tmp_path / "s.sqlite3", 3)
    second, runner = tuner(LINE, near_a_third)
    trials = second.search(tmp_path / "s.sqlite3", 5)
    assert len(trials) == 5
    assert len({options_of(run)["model.lr"] for run in runner.done}) == 2
    third, runner = tuner(LINE, near_a_third)
    assert len(third.search(tmp_path / "s.sqlite3", 5)) == 5
    assert runner.done == []


def test_a_search_does_not_go_on_with_another_question(tmp_path: Path) -> None:
    tuner(LINE, near_a_third)[0].search(tmp_path / "s.sqlite3", 1)
    other, _ = tuner(Space({"model.lr": {"low": 0.0, "high": 2.0}}), near_a_third)
    with pytest.raises(InputError, match="had other space"):
        other.search(tmp_path / "s.sqlite3", 2)
    splits, _ = tuner(LINE, near_a_third, ("val4",))
    with pytest.raises(InputError, match="had other splits"):
        splits.search(tmp_path / "s.sqlite3", 2)


def test_a_trial_that_fails_does_not_end_the_search(tmp_path: Path) -> None:
    space = Space(
        {"model.mask": [True, False]}, start=({"model.mask": False}, {"model.mask": True})
    )
    search, _ = tuner(space, lambda o, s: 0.8 if o["model.mask"] else -1.0)
    trials = search.search(tmp_path / "s.sqlite3", 2)
    assert [(trial.state, trial.score) for trial in trials] == [
        ("complete", pytest.approx(0.8)),
        ("failed", None),
    ]


def test_kinds_of_options_keep_their_types(tmp_path: Path) -> None:
    space = Space(
        {
            "model.lr": {"low": 0.001, "high": 0.1, "log": True},
            "model.num_steps": {"low": 6, "high": 20, "step": 2},
            "model.representation": ["softmax", "cosine"],
            "model.mask": [True, False],
        }
    )
    search, _ = tuner(space, lambda o, s: 0.5, ("val0",))
    for trial in search.search(tmp_path / "s.sqlite3", 12):
        choice = trial.choice
        assert isinstance(choice["model.lr"], float)
        assert 0.001 <= choice["model.lr"] <= 0.1
        assert len(re.sub(r"^0\.0*|e.*", "", str(choice["model.lr"]))) <= 5  # four digits
        assert choice["model.num_steps"] in range(6, 21, 2)
        assert choice["model.representation"] in ("softmax", "cosine")
        assert choice["model.mask"] in (True, False)


# What is chosen on ---------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [["test0"], ["val0", "test3"], ["2144199730"], ["val0", "5"]])
def test_test_seeds_are_refused(seeds: list[str]) -> None:
    with pytest.raises(InputError, match="must be published validation seeds"):
        check_seeds(seeds, published=True)


def test_a_graph_of_ones_own_may_have_any_seeds_but_those_for_testing() -> None:
    check_seeds(["0", "1", "val3"], published=False)
    with pytest.raises(InputError, match="got 'test1'"):
        check_seeds(["0", "test1"], published=False)


def test_the_accuracy_on_test_nodes_is_never_the_score() -> None:
    metrics = {"test_acc": 0.9, "val_acc": 0.7}
    assert score_of({"tested_on": LEFT_OVER, "metrics": metrics}) == 0.9
    assert score_of({"tested_on": "test nodes", "metrics": metrics}) == 0.7
    with pytest.raises(TrialFailedError, match="has no val_acc"):
        score_of({"id": "x", "tested_on": "test nodes", "metrics": {"test_acc": 0.9}})


# Files ---------------------------------------------------------------------------------------


def test_a_space_is_read(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    content = {
        "space": {"model.lr": {"low": 0.1, "high": 1.0, "log": True}, "model.mask": [True]},
        "datasets": ["Cora-ML", "pubmed"],
        "conditions": [{}, {"data.structure_noise": 0.5}],
        "start": [{"model.lr": 0.5}],
    }
    file.write_text(json.dumps(content))
    space = read_space(file)
    assert space.datasets == ("cora_ml", "pubmed")
    assert space.conditions == ({}, {"data.structure_noise": 0.5})
    assert space.start == ({"model.lr": 0.5},)
    assert dict(space.options) == content["space"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"spaces": {}}, "has no key 'spaces'"),
        ({"datasets": ["cora_ml"]}, "`space` must hold"),
        ({"space": {"model.lr": 3}}, "model.lr must be a list of choices or a range"),
        ({"space": {"model.lr": []}}, "model.lr must be a list of choices or a range"),
        ({"space": {"model.lr": {"low": 1}}}, "model.lr must be a list of choices or a range"),
        ({"space": {"model.lr": {"low": 1, "high": 2, "max": 3}}}, "must be a list of choices"),
        ({"space": {"model.lr": {"low": "a", "high": 2}}}, "must be numbers, got ['a', 2]"),
        ({"space": {"model.lr": {"low": 2, "high": 2}}}, "`low` must be below `high`"),
        ({"space": {"a": [1]}, "start": [{"b": 1}]}, "`start` may hold options of `space` only"),
        ({"space": {"a": [1]}, "conditions": ["x"]}, "`conditions` must be a list of options"),
        ({"space": {"a": [1]}, "datasets": ["coral"]}, "coral"),
    ],
)
def test_a_mistake_in_a_space_is_named(content: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=re.escape(words)):
        read_space(file)


def test_the_choice_is_a_config_file_that_fit_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice: dict[str, Value] = {
        "model.lr": 0.0123,
        "model.representation": "softmax",
        "stopping.patience": 7,
    }
    file = tmp_path / "best.yaml"
    write_choice(file, Trial(3, choice, 0.8, 5, "complete"), ["Chosen by: us", "in a test"])
    assert file.read_text().startswith("# Chosen by: us\n# in a test\nmodel:\n  init_args:\n")
    with pytest.raises(SystemExit):
        main(["fit", "--config", str(file), "--print_config"])
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["model"]["init_args"]["lr"] == 0.0123
    assert shown["model"]["init_args"]["representation"] == "softmax"
    assert shown["stopping"]["patience"] == 7


def test_all_trials_are_written_down(tmp_path: Path) -> None:
    trials = [Trial(1, {"a": 1}, 0.5, 3, "complete"), Trial(0, {"a": 2}, None, 0, "failed")]
    write_trials(tmp_path / "t.csv", trials)
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert [(row["trial"], row["state"], row["score"], row["a"]) for row in rows] == [
        ("1", "complete", "0.5", "1"),
        ("0", "failed", "", "2"),
    ]


# The command ---------------------------------------------------------------------------------


def tune(space: dict[str, Any], folder: Path, *args: str) -> int:
    file = folder / "space.yaml"
    file.write_text(json.dumps(space))
    words = ["--space", str(file), "--folder", str(folder / "search"), "--jobs", "1", *args]
    return main(["tune", *words])


SMALL = [
    *("--data.dataset", "synthetic", "--data.synthetic.num_nodes", "300"),
    *("--data.synthetic.num_features", "60", "--data.train", "5", "--trainer.max_epochs", "3"),
]


def test_tune_searches_writes_its_choice_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = {"space": {"model.lr": [0.01, 0.1]}}
    assert tune(space, tmp_path, "--trials", "2", "--seeds", "0,1", *SMALL) == 0
    out = capsys.readouterr().out
    best = tmp_path / "search" / "best.yaml"
    assert f"best choice: {best}" in out
    assert "# Chosen by: pamt tune" in best.read_text()
    rows = (tmp_path / "search" / "runs.jsonl").read_text().splitlines()
    assert 2 <= len(rows) <= 4  # one choice on two splits, or both
    assert tune(space, tmp_path, "--trials", "2", "--seeds", "0,1", *SMALL) == 0
    assert (tmp_path / "search" / "runs.jsonl").read_text().splitlines() == rows


def test_tune_refuses_test_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = {"space": {"model.lr": [0.01, 0.1]}}
    for seeds in ("test5", "7"):
        args = ("--seeds", seeds, "--config", "configs/cora_ml.yaml")
        assert tune(space, tmp_path, *args) == 2
        assert "must be published validation seeds" in capsys.readouterr().err
    assert not (tmp_path / "search").exists()


def test_tune_takes_no_seeds_of_a_single_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = {"space": {"model.lr": [0.01, 0.1]}}
    assert tune(space, tmp_path, "--data.split_seed", "val0") == 2
    assert "`pamt tune` takes no --data.split_seed: use --seeds." in capsys.readouterr().err
