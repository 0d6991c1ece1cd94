from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest

from pamt_lightning.cli.configure import FitOptions
from pamt_lightning.cli.study import typed_names
from pamt_lightning.errors import InputError
from pamt_lightning.studies.results import Results
from pamt_lightning.studies.runner import Runner
from pamt_lightning.studies.runs import Options
from pamt_lightning.studies.space import Space
from pamt_lightning.studies.study import Study, Value
from pamt_lightning.studies.tune import (
    HELD_OUT,
    STORAGE,
    Trial,
    TrialFailedError,
    Tuner,
    best_config,
    check_seeds,
    score_of,
    verdict,
    write_choice,
    write_trials,
)
from pamt_lightning.training.config import RunConfig
from tests.studies.small_runs import FakeExecutor, made_up_config

Score = Callable[[dict[str, Any], str], float]


class ScoringExecutor(FakeExecutor):
    """Scores runs by a function of their options instead of training."""

    def __init__(self, score: Score) -> None:
        super().__init__(self._score)
        self.score = score
        self.done: list[dict[str, Any]] = []  # the options of each run

    def _score(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        options = payload["config"]["model"]["init_args"]
        self.done.append(options)
        score = self.score(options, payload["split_seed"])
        if score < 0:
            raise InputError("it diverged.")
        return {"metrics": {"test_acc": score, "val_acc": 0.0}, "tested_on": HELD_OUT}


def typed(options: Options, dataset: str | None) -> RunConfig:
    """A command line that sets ``model.epochs``."""
    return made_up_config(epochs=9, dataset=dataset).with_options(options)


def tuner(
    folder: Path,
    space: Space,
    score: Score,
    splits: tuple[str, ...] = ("val0", "val1", "val2"),
    retry: bool = False,
) -> tuple[Tuner, ScoringExecutor]:
    executor = ScoringExecutor(score)
    study = Study("t", "t", space.datasets, ("tuned",), splits)
    runner = Runner(Results(folder), executor, quiet=True)
    return Tuner(space, typed, study, runner, retry=retry), executor


LINE = Space({"model.lr": {"low": 0.0, "high": 1.0}})
MASK = Space({"model.mask": [True, False]}, start=({"model.mask": True}, {"model.mask": False}))


def near_a_third(options: dict[str, Any], split: str) -> float:
    return 0.9 - abs(float(options["lr"]) - 0.3) + 0.001 * int(split[3:])


def learning_rate(options: dict[str, Any], split: str) -> float:
    return float(options["lr"])


def test_the_search_finds_a_good_choice_and_lists_it_first(tmp_path: Path) -> None:
    search, executor = tuner(tmp_path, LINE, near_a_third)
    trials = search.search(25)
    assert sorted(trial.number for trial in trials) == list(range(25))
    assert trials[0].state == "complete"
    value = trials[0].choice["model.lr"]
    assert isinstance(value, float)
    assert abs(value - 0.3) < 0.1
    assert trials[0].score == pytest.approx(0.901 - abs(value - 0.3))
    complete = [trial.score for trial in trials if trial.state == "complete"]
    assert complete == sorted(complete, key=lambda score: -(score or 0.0))
    # What was tried is what is listed, after the options of the command line.
    assert {run["lr"] for run in executor.done} == {trial.choice["model.lr"] for trial in trials}
    assert all(run["epochs"] == 9 for run in executor.done)
    assert search.scored_on() == HELD_OUT


def test_a_choice_that_is_worse_on_every_split_is_stopped_early(tmp_path: Path) -> None:
    splits = tuple(f"val{number}" for number in range(12))
    search, executor = tuner(tmp_path, MASK, lambda o, s: 0.8 if o["mask"] else 0.5, splits)
    trials = search.search(2)
    shown = [(trial.state, trial.choice["model.mask"]) for trial in trials]
    assert shown == [("complete", True), ("pruned", False)]
    assert list(trials[0].by_split) == list(splits)
    assert len(trials[1].by_split) < 12
    assert len(executor.done) == 12 + len(trials[1].by_split)


def test_one_choice_is_scored_on_all_data_sets_under_all_conditions(tmp_path: Path) -> None:
    space = Space(LINE.options, ("cora_ml", "pubmed"), ({}, {"model.noise": 0.1}))

    def score(options: dict[str, Any], split: str) -> float:
        of_data = {"cora_ml": 0.4, "pubmed": 0.2}[options["dataset"]]
        return float(of_data + options.get("noise", 0.0) + 0.02 * int(split[3:]))

    search, executor = tuner(tmp_path, space, score, ("val0", "val1"))
    (trial,) = search.search(1)
    assert trial.score == pytest.approx((0.2 + 0.3 + 0.4 + 0.5) / 4 + 0.01)
    assert trial.by_split["val1"] == pytest.approx(0.37)
    assert len(executor.done) == 8
    assert trial.by_place == {
        "cora_ml": pytest.approx(0.41),
        "cora_ml model.noise=0.1": pytest.approx(0.51),
        "pubmed": pytest.approx(0.21),
        "pubmed model.noise=0.1": pytest.approx(0.31),
    }


def test_a_failed_trial_does_not_end_the_search_and_is_repeated_only_if_asked(
    tmp_path: Path,
) -> None:
    search, _ = tuner(tmp_path, MASK, lambda o, s: -1.0 if o["mask"] else 0.8)
    trials = search.search(2)
    assert [(trial.state, trial.score, trial.why) for trial in trials] == [
        ("complete", pytest.approx(0.8), ""),
        ("failed", None, "it diverged."),
    ]
    search, executor = tuner(tmp_path, MASK, lambda o, s: 0.5)
    assert [trial.state for trial in search.search(2)] == ["complete", "failed"]
    assert executor.done == []
    search, executor = tuner(tmp_path, MASK, lambda o, s: 0.5, retry=True)
    assert [trial.state for trial in search.search(2)] == ["complete"] * 2
    assert [run["mask"] for run in executor.done] == [True] * 3
    assert len(search.search(2)) == 2


# Resuming ----------------------------------------------------------------------------------------


THREE = Space(
    {"model.lr": [0.1, 0.2, 0.3]}, start=({"model.lr": 0.2}, {"model.lr": 0.1}, {"model.lr": 0.3})
)


def interrupted(folder: Path, at: int) -> None:
    """A search over `THREE` that ends within a trial: in its second split."""

    def score(options: dict[str, Any], split: str) -> float:
        if options["lr"] == THREE.start[at]["model.lr"] and split == "val1":
            raise KeyboardInterrupt
        return float(options["lr"])

    with pytest.raises(KeyboardInterrupt):
        tuner(folder, THREE, score)[0].search(3)


def load(folder: Path) -> optuna.Study:
    return optuna.load_study(study_name="pamt", storage=f"sqlite:///{folder / STORAGE}")


def stored(folder: Path) -> list[tuple[str, Any]]:
    return [(trial.state.name, trial.params.get("model.lr")) for trial in load(folder).trials]


def test_a_search_is_resumed(tmp_path: Path) -> None:
    tuner(tmp_path, LINE, near_a_third)[0].search(3)
    search, executor = tuner(tmp_path, LINE, near_a_third)
    assert len(search.search(5)) == 5
    assert len({run["lr"] for run in executor.done}) == 2  # and not the same choices again
    search, executor = tuner(tmp_path, LINE, near_a_third)
    assert len(search.search(5)) == 5
    assert executor.done == []


def test_a_search_with_another_question_is_not_resumed(tmp_path: Path) -> None:
    tuner(tmp_path, LINE, near_a_third)[0].search(1)
    wider, _ = tuner(tmp_path, Space({"model.lr": {"low": 0.0, "high": 2.0}}), near_a_third)
    splits, _ = tuner(tmp_path, LINE, near_a_third, ("val4",))
    options, _ = tuner(tmp_path, LINE, near_a_third)
    options.typed = lambda more, dataset: typed({"model.epochs": 8, **more}, dataset)
    for search, difference in (
        (wider, r"space\.model\.lr\.high: 1\.0, now 2\.0"),
        (splits, r"splits: \['val0', .*'val4'"),
        (options, r"model\.epochs: 9, now 8"),
    ):
        with pytest.raises(InputError, match=difference):
            search.search(2)


def test_an_interrupted_trial_is_repeated_and_does_not_count(tmp_path: Path) -> None:
    interrupted(tmp_path, 0)
    assert stored(tmp_path)[0] == ("RUNNING", 0.2)
    search, executor = tuner(tmp_path, THREE, learning_rate)
    trials = search.search(3)
    assert {trial.state for trial in trials} == {"complete"}
    assert [trial.choice["model.lr"] for trial in trials] == [0.3, 0.2, 0.1]
    assert [trial.score for trial in trials] == pytest.approx([0.3, 0.2, 0.1])
    assert len(executor.done) == 3 * 3 - 1  # the split that was finished is not repeated
    assert search.search(3) == trials
    assert len(executor.done) == 3 * 3 - 1
    assert len(stored(tmp_path)) == 4


def test_the_first_choice_is_scored_on_all_splits_even_after_better_ones(tmp_path: Path) -> None:
    splits = tuple(f"val{number}" for number in range(12))
    space = Space({"model.a": [1, 2, 3]}, start=({"model.a": 1}, {"model.a": 3}, {"model.a": 2}))
    seen: list[Any] = []

    def score(options: dict[str, Any], split: str) -> float:
        if not seen:
            seen.append(options)
            raise KeyboardInterrupt
        return float(options["a"]) / 10

    search, _ = tuner(tmp_path, space, score, splits)
    with pytest.raises(KeyboardInterrupt):
        search.search(3)
    trials = search.search(3)
    assert [(t.choice["model.a"], t.state, t.number) for t in trials] == [
        (3, "complete", 1),
        (1, "complete", 3),  # repeated, after the one that is better on every split
        (2, "pruned", 2),
    ]


@pytest.mark.parametrize("asks", [False, True], ids=["twice", "after it left the queue"])
def test_a_trial_that_is_interrupted_again_is_still_finished(asks: bool, tmp_path: Path) -> None:
    interrupted(tmp_path, 2)
    if asks:
        load(tmp_path).ask()
    else:
        interrupted(tmp_path, 2)
    trials = tuner(tmp_path, THREE, learning_rate)[0].search(3)
    assert sorted(trial.score or 0.0 for trial in trials) == pytest.approx([0.1, 0.2, 0.3])
    assert [state for state, _ in stored(tmp_path)].count("FAIL") == 2


def test_a_trial_that_was_killed_before_it_chose_does_not_count(tmp_path: Path) -> None:
    search, _ = tuner(tmp_path, LINE, near_a_third)
    search.search(1)
    load(tmp_path).ask()
    trials = search.search(2)
    assert sorted(trial.number for trial in trials) == [0, 2]
    assert all(trial.choice for trial in trials)


def test_a_search_of_another_process_is_left_alone(tmp_path: Path) -> None:
    interrupted(tmp_path, 0)
    search, executor = tuner(tmp_path, THREE, lambda o, s: 0.5)
    other = Results(tmp_path)
    assert other.claim("search")
    with pytest.raises(InputError, match=f"another `pamt tune` .*{tmp_path}"):
        search.search(3)
    assert stored(tmp_path)[0][0] == "RUNNING"
    assert executor.done == []
    other.release("search")
    assert len(search.search(3)) == 3


# What is chosen on -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeds", "published", "wrong"),
    [
        *((["test0"], True, "test0"), (["val0", "test3"], True, "test3")),
        *((["2144199730"], True, "2144199730"), (["val0", "5"], True, "5")),
        *((["0", "test1"], False, "test1"), (["0", "1", "val3"], False, None)),
        (["val0", "val3"], True, None),
    ],
)
def test_test_seeds_are_refused_and_other_seeds_only_for_own_data(
    seeds: list[str], published: bool, wrong: str | None
) -> None:
    if wrong is None:
        check_seeds(seeds, published)
    else:
        with pytest.raises(InputError, match=f"published validation seeds .* got '{wrong}'"):
            check_seeds(seeds, published)


def test_the_accuracy_on_test_nodes_is_never_the_score() -> None:
    metrics = {"test_acc": 0.9, "val_acc": 0.7}
    assert score_of({"tested_on": HELD_OUT, "metrics": metrics}) == 0.9
    assert score_of({"tested_on": "known nodes left over", "metrics": metrics}) == 0.9
    assert score_of({"tested_on": "test nodes", "metrics": metrics}) == 0.7
    assert score_of({"metrics": metrics}) == 0.7
    with pytest.raises(TrialFailedError, match="has no val_acc"):
        score_of({"id": "x", "tested_on": "test nodes", "metrics": {"test_acc": 0.9}})


# What is left behind -----------------------------------------------------------------------------


def scored(number: int, *values: float, state: str = "complete", **choice: Value) -> Trial:
    by_split = {f"val{split}": value for split, value in enumerate(values)}
    return Trial(number, choice, state, by_split)


@pytest.mark.parametrize(
    ("first", "facts", "is_better"),
    [
        (
            tuple(0.75 + 0.011 * n - 0.01 * n for n in range(6)),
            ["+4.75 points", "+4.62 to +4.88", "6 common splits: better"],
            True,
        ),
        ((0.81, 0.79, 0.81, 0.79, 0.82, 0.76), ["6 common splits: tie"], False),
        ((0.70,), ["– points", "1 common split: too few splits"], False),
    ],
)
def test_the_best_choice_is_compared_with_the_first(
    first: tuple[float, ...], facts: list[str], is_better: bool
) -> None:
    best = scored(7, *[0.8] * 6, lr=0.1)
    difference, shown, _ = verdict(best, scored(2, *first, lr=0.5))
    assert all(fact in difference for fact in ("Trial 7", "trial 2", *facts)), difference
    assert ("not shown" not in shown) is is_better
    assert "lr 0.5" in shown
    (line,) = verdict(best, best)
    assert "trial 7) is the best" in line


def test_the_first_choice_is_that_of_the_space_else_the_first_trial(tmp_path: Path) -> None:
    trials = [scored(4, 0.9, a=3), scored(3, 0.8, a=1), scored(1, 0.7, a=2), scored(0, a=1)]
    plain, _ = tuner(tmp_path, Space({"a": [1, 2, 3]}), near_a_third)
    assert plain.first_choice(trials).number == 1
    started, _ = tuner(tmp_path, Space({"a": [1, 2, 3]}, start=({"a": 1},)), near_a_third)
    assert started.first_choice(trials).number == 3


def best(space: Space, choice: dict[str, Value], *args: str) -> tuple[FitOptions, dict[str, Any]]:
    typed = FitOptions.parse("tune", args)
    return typed, best_config(space, typed.configure, choice, typed_names(args))


@pytest.mark.parametrize(
    ("datasets", "args"),
    [
        (("cora_ml", "pubmed"), []),
        (("cora_ml", "citeseer"), ["--model", "PAMT_plus"]),
        (("cora_ml", "pubmed"), ["--model", "GAT", "--model.num_heads=4"]),
        (("citeseer",), ["--model", "PAMT_0"]),
        ((), ["--config", "configs/pubmed.yaml", "--model", "GAT"]),
        ((), ["--data.dataset", "Cora-ML", "--model.momentum", "0.5"]),
    ],
)
def test_the_best_choice_after_a_data_sets_file_is_the_model_that_was_scored(
    datasets: tuple[str, ...], args: list[str], tmp_path: Path
) -> None:
    choice: dict[str, Value] = {"model.lr": 0.0123, "stopping.patience": 7}
    typed, content = best(Space({}, datasets), choice, *args)
    write_choice(tmp_path / "best.yaml", content, ["Chosen by: us"])
    assert (tmp_path / "best.yaml").read_text().startswith("# Chosen by: us\n")
    for dataset in datasets or (None,):
        expected = typed.configure(choice, dataset)
        name = dataset or ("cora_ml" if "Cora-ML" in args else "pubmed")
        found = typed.configurator([f"configs/{name}.yaml", str(tmp_path / "best.yaml")])
        assert (found.model, found.method) == (expected.model, expected.method)
        assert found.stopping["patience"] == 7


def test_the_best_choice_holds_typed_values_even_where_they_change_nothing() -> None:
    # As in the file of Cora_ML, not in others.
    typed = ("--model.hidden_dim", "128")
    _, content = best(Space({}, ("cora_ml",)), {"model.lr": 0.05}, *typed)
    init_args = {"hidden_dim": 128, "lr": 0.05}
    assert content == {"model": {"class_path": "PAMT", "init_args": init_args}}


def test_all_trials_are_written_to_a_table(tmp_path: Path) -> None:
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
