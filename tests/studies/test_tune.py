from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from filelock import FileLock

from pamt_lightning.cli.fit_parser import FitParser
from pamt_lightning.cli.main import main
from pamt_lightning.errors import InputError
from pamt_lightning.studies import tune_command
from pamt_lightning.studies.expand import Run
from pamt_lightning.studies.outcome import Value
from pamt_lightning.studies.runner import Tally, describe
from pamt_lightning.studies.space import Space
from pamt_lightning.studies.study import Study
from pamt_lightning.studies.tune import Trial, TrialFailedError, Tuner, check_seeds, score_of
from pamt_lightning.studies.tune_command import as_config, verdict, write_choice, write_trials
from tests.command_line import parsed

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
            row = describe(run) | {"metrics": metrics, "tested_on": LEFT_OVER}
            self.store.kept[run.run_id] = row
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
    assert list(trials[0].by_split) == list(splits)
    assert len(trials[1].by_split) < 12
    assert len(runner.done) == 12 + len(trials[1].by_split)


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
    assert trial.by_place == {
        "cora_ml": pytest.approx(0.4),
        "cora_ml data.structure_noise=0.5": pytest.approx(0.5),
        "pubmed": pytest.approx(0.2),
        "pubmed data.structure_noise=0.5": pytest.approx(0.3),
    }


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
    assert [(trial.state, trial.score, trial.why) for trial in trials] == [
        ("complete", pytest.approx(0.8), ""),
        ("failed", None, "it diverged."),
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


# What was interrupted ------------------------------------------------------------------------


THREE = Space(
    {"model.lr": [0.1, 0.2, 0.3]}, start=({"model.lr": 0.2}, {"model.lr": 0.1}, {"model.lr": 0.3})
)


def interrupted(storage: Path, at: int, error: type[BaseException] = KeyboardInterrupt) -> None:
    """A search over `THREE` that ends within a trial: in its second split."""

    def score(options: dict[str, Any], split: str) -> float:
        if options["model.lr"] == THREE.start[at]["model.lr"] and split == "val1":
            raise error
        return float(options["model.lr"])

    with pytest.raises(error):
        tuner(THREE, score)[0].search(storage, 3)


def stored(storage: Path) -> list[tuple[str, Any]]:
    search = optuna.load_study(study_name="pamt", storage=f"sqlite:///{storage}")
    return [(trial.state.name, trial.params.get("model.lr")) for trial in search.trials]


# Optuna marks a trial as failed on Ctrl-C; it knows nothing of a kill, here SystemExit.
@pytest.mark.parametrize(("error", "state"), [(KeyboardInterrupt, "FAIL"), (SystemExit, "RUNNING")])
def test_an_interrupted_trial_is_done_again_and_does_not_count(
    error: type[BaseException], state: str, tmp_path: Path
) -> None:
    storage = tmp_path / "s.sqlite3"
    interrupted(storage, 0, error)
    assert stored(storage)[0] == (state, 0.2)
    search, runner = tuner(THREE, lambda o, s: float(o["model.lr"]))
    trials = search.search(storage, 3)
    found: list[Any] = [(trial.state, trial.choice["model.lr"], trial.score) for trial in trials]
    assert found == [
        ("complete", 0.3, pytest.approx(0.3)),
        ("complete", 0.2, pytest.approx(0.2)),
        ("complete", 0.1, pytest.approx(0.1)),
    ]
    assert len(runner.done) == 3 * 3
    assert search.search(storage, 3) == trials  # and is not done a third time
    assert len(runner.done) == 3 * 3
    assert len(stored(storage)) == 4


def test_the_first_choice_is_scored_to_the_end_even_after_better_ones(tmp_path: Path) -> None:
    splits = tuple(f"val{number}" for number in range(12))
    space = Space({"a": [1, 2, 3]}, start=({"a": 1}, {"a": 3}, {"a": 2}))

    def score(options: dict[str, Any], split: str) -> float:
        if not seen:
            seen.append(options)
            raise KeyboardInterrupt
        return float(options["a"]) / 10

    seen: list[Any] = []
    search, _ = tuner(space, score, splits)
    with pytest.raises(KeyboardInterrupt):
        search.search(tmp_path / "s.sqlite3", 3)
    trials = search.search(tmp_path / "s.sqlite3", 3)
    assert [(t.choice["a"], t.state, t.number) for t in trials] == [
        (3, "complete", 1),
        (1, "complete", 3),  # done again, after the one that is better on every split
        (2, "pruned", 2),
    ]


def test_a_trial_that_is_interrupted_twice_is_still_done(tmp_path: Path) -> None:
    storage = tmp_path / "s.sqlite3"
    interrupted(storage, 2)
    interrupted(storage, 2)
    trials = tuner(THREE, lambda o, s: float(o["model.lr"]))[0].search(storage, 3)
    assert sorted(trial.score or 0.0 for trial in trials) == pytest.approx([0.1, 0.2, 0.3])
    assert [state for state, _ in stored(storage)].count("FAIL") == 2


def test_a_trial_that_was_interrupted_before_it_chose_is_not_lost(tmp_path: Path) -> None:
    storage = tmp_path / "s.sqlite3"
    interrupted(storage, 0)
    search = optuna.load_study(study_name="pamt", storage=f"sqlite:///{storage}")
    search.ask()  # takes the second choice out of the queue
    trials = tuner(THREE, lambda o, s: float(o["model.lr"]))[0].search(storage, 3)
    assert sorted(trial.score or 0.0 for trial in trials) == pytest.approx([0.1, 0.2, 0.3])


def test_a_trial_that_was_killed_with_nothing_chosen_does_not_count(tmp_path: Path) -> None:
    storage = tmp_path / "s.sqlite3"
    search, _ = tuner(LINE, near_a_third)
    search.search(storage, 1)
    optuna.load_study(study_name="pamt", storage=f"sqlite:///{storage}").ask()
    trials = search.search(storage, 2)
    assert sorted(trial.number for trial in trials) == [0, 2]
    assert all(trial.choice for trial in trials)


def test_a_trial_that_failed_is_done_again_only_if_asked(tmp_path: Path) -> None:
    storage = tmp_path / "s.sqlite3"
    tuner(THREE, lambda o, s: 0.5 if o["model.lr"] > 0.1 else -1.0)[0].search(storage, 3)
    search, runner = tuner(THREE, lambda o, s: 0.5)
    assert [trial.state for trial in search.search(storage, 3)].count("failed") == 1
    assert runner.done == []
    search.retry = True
    assert [trial.state for trial in search.search(storage, 3)] == ["complete"] * 3
    assert {options_of(run)["model.lr"] for run in runner.done} == {0.1}
    assert len(search.search(storage, 3)) == 3


def test_a_resumed_search_does_not_draw_the_same_choices_again(tmp_path: Path) -> None:
    storage = tmp_path / "s.sqlite3"
    drawn = []
    for number in (1, 2, 3):
        search, runner = tuner(LINE, near_a_third)
        search.search(storage, number)
        drawn.append(options_of(runner.done[0])["model.lr"])
    assert len(set(drawn)) == 3


def test_a_search_that_another_process_is_at_is_left_alone(tmp_path: Path) -> None:
    storage = tmp_path / "s.sqlite3"
    interrupted(storage, 0, SystemExit)
    search, runner = tuner(THREE, lambda o, s: 0.5)
    with FileLock(tmp_path / "s.sqlite3.lock"):
        with pytest.raises(InputError, match=r"another `pamt tune` is at the search in"):
            search.search(storage, 3)
        assert stored(storage)[0][0] == "RUNNING"
        assert runner.done == []
    assert len(search.search(storage, 3)) == 3


def test_a_search_of_an_earlier_version_can_be_gone_on_with(tmp_path: Path) -> None:
    """Version 72b9ef8 kept these attributes, and no reason of a failure."""
    storage = tmp_path / "s.sqlite3"
    search = optuna.create_study(
        study_name="pamt", storage=f"sqlite:///{storage}", direction="maximize"
    )
    question = {
        "args": ["--trainer.max_epochs", "9"],
        "splits": ["val0", "val1", "val2"],
        "inits": [0],
        "datasets": [],
        "conditions": [{}],
        "space": {"model.lr": [0.1, 0.2, 0.3]},
    }
    search.set_user_attr("question", question)
    for choice in THREE.start:
        search.enqueue_trial(dict(choice))
    done = search.ask()
    assert done.suggest_categorical("model.lr", [0.1, 0.2, 0.3]) == 0.2
    for step in range(3):
        done.report(0.9, step)
    search.tell(done, 0.9)
    search.ask().suggest_categorical("model.lr", [0.1, 0.2, 0.3])  # and then a kill
    trials = tuner(THREE, lambda o, s: float(o["model.lr"]))[0].search(storage, 3)
    found: list[Any] = [(trial.choice["model.lr"], trial.score) for trial in trials]
    assert found == [
        (0.2, pytest.approx(0.9)),
        (0.3, pytest.approx(0.3)),
        (0.1, pytest.approx(0.1)),
    ]


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


# What is left behind -------------------------------------------------------------------------


def scored(number: int, *values: float, state: str = "complete", **choice: Value) -> Trial:
    by_split = {f"val{split}": value for split, value in enumerate(values)}
    return Trial(number, choice, state, by_split)


def test_a_best_choice_that_wins_every_split_is_shown_to_be_better() -> None:
    best = scored(7, *(0.8 + 0.01 * n for n in range(6)), lr=0.1)
    first = scored(0, *(0.75 + 0.011 * n for n in range(6)), lr=0.5)
    difference, shown, caveat = verdict(best, first)
    assert difference == (
        "Trial 7 minus the first choice (trial 0): +4.75 points, 95 % interval +4.62 to +4.88, "
        "on 6 common splits: better."
    )
    assert shown == "It was shown to be better than lr 0.5."
    assert "flattered by the splits it was chosen on" in caveat


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ((0.81, 0.79, 0.81, 0.79, 0.82, 0.76), "on 6 common splits: tie."),
        ((0.70, 0.70, 0.70), "on 3 common splits: too few splits."),
        ((0.70,), "– points, 95 % interval – to –, on 1 common split: too few splits."),
    ],
)
def test_a_best_choice_that_is_not_shown_to_be_better_says_so(
    first: tuple[float, ...], words: str
) -> None:
    difference, shown, _ = verdict(scored(7, *[0.8] * 6), scored(2, *first, lr=0.5))
    assert difference.endswith(words)
    assert shown == "It was not shown to be better than lr 0.5."


def test_a_first_choice_that_stays_the_best_is_not_compared_with_itself() -> None:
    assert verdict(scored(0, 0.8, 0.7), scored(0, 0.8, 0.7)) == [
        "The first choice (trial 0) is the best: none was found above it."
    ]


def test_the_best_is_compared_with_the_first_choice_of_the_space() -> None:
    trials = [scored(4, 0.9, a=3), scored(3, 0.8, a=1), scored(1, 0.7, a=2), scored(0, a=1)]
    assert tuner(Space({"a": [1, 2, 3]}), near_a_third)[0].first_choice(trials).number == 1
    space = Space({"a": [1, 2, 3]}, start=({"a": 1},))
    assert tuner(space, near_a_third)[0].first_choice(trials).number == 3


@pytest.mark.parametrize(
    ("datasets", "typed", "model"),
    [
        (("cora_ml", "pubmed"), [], "PAMTModule"),
        (("cora_ml", "citeseer"), ["--model", "PAMT_plus"], "PAMTPlusModule"),
        (("cora_ml", "pubmed"), ["--model", "GAT", "--model.num_heads=4"], "GATModule"),
        (("citeseer",), ["--model", "PAMT_0"], "PAMTModule"),
        ((), ["--config", "configs/pubmed.yaml", "--model", "GAT"], "GATModule"),
        ((), ["--data.dataset", "Cora-ML", "--model.momentum", "0.5"], "PAMTModule"),
    ],
)
def test_the_choice_laid_over_a_data_sets_file_is_the_model_that_was_scored(
    datasets: tuple[str, ...],
    typed: list[str],
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    choice: dict[str, Value] = {"model.lr": 0.0123, "stopping.patience": 7}
    space = Space({"model.lr": [0.0123], "stopping.patience": [7]}, datasets)
    configure = FitParser().configuration
    file = tmp_path / "best.yaml"
    write_choice(file, as_config(space, typed, choice, configure), ["Chosen by: us"])
    assert file.read_text().startswith("# Chosen by: us\n")
    for place in space.places():
        expected = configure(space.args(place, typed, choice))
        name = place.dataset or ("cora_ml" if "Cora-ML" in typed else "pubmed")
        data = ["--config", f"configs/{name}.yaml"]
        found = parsed([*data, "--config", str(file)], capsys)
        assert found["model"]["class_path"] == f"pamt_lightning.{model}"
        assert found["model"] == expected["model"]
        assert found["stopping"]["patience"] == 7


def test_the_choice_holds_what_was_typed_even_where_it_says_nothing_new() -> None:
    space = Space({"model.lr": [0.05]}, ("cora_ml",))
    typed = ["--model.hidden_dim", "128"]  # as in the file of Cora_ML, not in others
    config = as_config(space, typed, {"model.lr": 0.05}, FitParser().configuration)
    assert config == {
        "model": {
            "class_path": "pamt_lightning.PAMTModule",
            "init_args": {"hidden_dim": 128, "lr": 0.05},
        }
    }


def test_values_of_one_data_set_stand_below_its_name() -> None:
    space = Space({"model.dropout": [0.5]}, ("cora_ml", "pubmed"))
    config = as_config(space, ["--model", "GAT"], {"model.dropout": 0.5}, FitParser().configuration)
    own = {"num_output_heads": 8, "lr": 0.01, "weight_decay": 0.001}
    assert config["by_dataset"] == {"pubmed": {"model": {"init_args": own}}}


def test_all_trials_are_written_down(tmp_path: Path) -> None:
    places = {"cora_ml": 0.6, "cora_ml data.structure_noise=0.5": 0.4}
    trials = [
        Trial(1, {"a": 1}, "complete", {"val0": 0.4, "val1": 0.6}, places),
        Trial(0, {"a": 2}, "failed", {}, dict.fromkeys(places, float("nan")), "it diverged."),
    ]
    write_trials(tmp_path / "t.csv", trials)
    rows = list(csv.reader((tmp_path / "t.csv").read_text().splitlines()))
    assert rows == [
        ["trial", "state", "score", "splits", *places, "a", "why"],
        ["1", "complete", "0.5", "2", "0.6", "0.4", "1", ""],
        ["0", "failed", "", "0", "", "", "2", "it diverged."],
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
    text = best.read_text()
    assert "# Chosen by: pamt tune" in text
    assert yaml.safe_load(text)["model"]["class_path"] == "pamt_lightning.PAMTModule"
    worth = re.search(r"^(The first choice .*|It was not shown to be better .*)$", out, re.M)
    assert worth
    assert f"# {worth[0]}\n" in text
    rows = (tmp_path / "search" / "runs.jsonl").read_text().splitlines()
    assert 2 <= len(rows) <= 4  # one choice on two splits, or both
    assert tune(space, tmp_path, "--trials", "2", "--seeds", "0,1", *SMALL) == 0
    assert (tmp_path / "search" / "runs.jsonl").read_text().splitlines() == rows


@pytest.mark.usefixtures("no_search")
def test_tune_refuses_test_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = {"space": {"model.lr": [0.01, 0.1]}}
    for seeds in ("test5", "7"):
        args = ("--seeds", seeds, "--config", "configs/cora_ml.yaml")
        assert tune(space, tmp_path, *args) == 2
        assert "must be published validation seeds" in capsys.readouterr().err
    assert not (tmp_path / "search").exists()


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake that is not seen must not cost hours."""
    monkeypatch.setattr(Tuner, "search", lambda *_: pytest.fail("it was searched"))


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(
    ("space", "args", "words"),
    [
        ({}, ["--data.split_seed", "val0"], "`pamt tune` takes no --data.split_seed: use --seeds."),
        ({}, ["--data.noise_seed=3"], "`pamt tune` takes no --data.noise_seed: it follows the sp"),
        ({"conditions": [{"data.split_seed": "test0"}]}, [], "takes no --data.split_seed: use"),
        ({"conditions": [{"data.noise_seed": 1}]}, [], "takes no --data.noise_seed: it follows"),
        ({"conditions": [{"data.split": "random"}]}, [], "takes no --data.split: all choices"),
        ({"space": {"data.train": [5, 20]}}, [], "takes no --data.train: all choices are trained"),
        ({"space": {"data.val": [100, 500]}}, [], "takes no --data.val: all choices"),
        ({"conditions": [{"data.num_known": 2500}]}, [], "takes no --data.num_known: all choices"),
        (
            {"datasets": ["cora_ml"]},
            ["--data.num_known", "2500"],
            "on cora_ml must leave its published test nodes alone, got `num_known`=2500: leave",
        ),
        (
            {"datasets": ["cora_ml"]},
            ["--data.split", "random", "--seeds", "0,1"],
            "on cora_ml must leave its published test nodes alone, got `split`='random': leave",
        ),
        (
            {},
            ["--data.dataset", "cora_ml", "--data.split_path", "mine", "--seeds", "val0,"],
            "on cora_ml must leave its published test nodes alone, got `split`='given': leave",
        ),
        ({"conditions": [{"data.dataset": "pubmed"}]}, [], "takes no --data.dataset: that is"),
        ({"space": {"seed_everything": [0, 1]}}, [], "takes no --seed_everything: use --inits."),
        ({"space": {"ckpt_path": ["last"]}}, [], "takes no --ckpt_path."),
        ({"space": {"run_dir": ["a"]}}, [], "takes no --run_dir."),
        ({"space": {"model": ["GAT", "GCN"]}}, [], "takes no --model: a search is for one method"),
        ({"datasets": ["cora_ml"]}, ["--config", "configs/pubmed.yaml"], "names its data sets"),
        ({"datasets": ["cora_ml"]}, ["--data.dataset", "pubmed"], "names its data sets (cora_ml)"),
        ({}, ["--trials", "0"], "`trials` must be 1 or more, got 0."),
        ({}, ["--inits", "0"], "`inits` must be a whole number of at least 1, got 0."),
    ],
)
def test_tune_refuses_what_a_search_sets_itself_or_would_overrule(
    space: dict[str, Any],
    args: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tune({"space": {"model.lr": [0.01, 0.1]}} | space, tmp_path, *args) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not (tmp_path / "search").exists()


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"space": {"model.lrr": [0.01, 0.1]}}, "Option 'lrr' is not accepted. Did you mean 'lr'?"),
        (
            {"space": {"model.lr": [0.01, 0.1]}, "conditions": [{}, {"data.structure_nois": 0.5}]},
            "--data.structure_nois 0.5. Did you mean 'structure_noise'?",
        ),
        (
            {"space": {"model.lr": [0.01, 0.1], "model.representation": ["cosine", "cosin"]}},
            "cosin",
        ),
        ({"space": {"model.lr": [0.01, 0.1, 0.2, "fast"]}}, "lr: expected a float, got fast"),
    ],
)
def test_a_misspelt_option_is_told_before_anything_is_stored(
    space: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(space, tmp_path, "--seeds", "0,1", *SMALL) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert line.startswith(f"pamt tune: error: {tmp_path / 'space.yaml'}: ")
    assert not (tmp_path / "search").exists()


@pytest.mark.usefixtures("no_search")
def test_what_is_typed_wrong_is_not_the_fault_of_the_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = {"space": {"model.lr": [0.1]}}
    assert tune(space, tmp_path, "--seeds", "0,1", "--model.alph", "0.1") == 2
    told = "pamt tune: error: Option 'alph' is not accepted. Did you mean 'alpha'?\n"
    assert capsys.readouterr().err == told


def test_without_optuna_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert tune({"space": {"model.lr": [0.1]}}, tmp_path, "--seeds", "0,1", *SMALL) == 2
    assert "`pamt tune` needs Optuna" in capsys.readouterr().err
    assert not (tmp_path / "search").exists()


@pytest.mark.usefixtures("no_search")
def test_a_shipped_space_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # It was read if its data sets are known, and these are then refused.
    args = ["--space", "configs/spaces/pamt.yaml", "--config", "configs/pubmed.yaml"]
    assert main(["tune", *args]) == 2
    assert "names its data sets (cora_ml, citeseer, pubmed)" in capsys.readouterr().err
    assert main(["tune", "--space", "configs/spaces/pmat.yaml"]) == 2
    assert "Did you mean configs/spaces/pamt.yaml?" in capsys.readouterr().err


def test_a_search_lies_in_a_folder_named_after_its_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(_: Tuner, storage: Path, trials: int) -> list[Trial]:
        raise InputError(f"{storage.as_posix()}, {trials} trials")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Tuner, "search", search)
    Path("mine.yaml").write_text("space: {model.lr: [0.1]}")
    with pytest.raises(InputError, match=r"^lightning_logs/tune/mine/optuna\.sqlite3, 50 trials$"):
        tune_command.run(["--space", "mine.yaml", "--jobs", "1", "--seeds", "0", *SMALL])


def test_the_help_of_tune_says_what_holds_for_tune(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tune", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "validation splits, such as val8; default val6" in text
    assert "where results go; default lightning_logs/tune/SPACE" in text
    assert "default 50" in text
