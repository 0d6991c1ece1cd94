"""Search for good options, on the validation seeds alone."""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from pamt_lightning.config_layers import load
from pamt_lightning.errors import InputError
from pamt_lightning.experiments.expand import (
    Configure,
    Run,
    config_file,
    expand_cells,
    option_args,
)
from pamt_lightning.experiments.outcome import Cell, Value
from pamt_lightning.experiments.runner import Runner
from pamt_lightning.experiments.seeds import is_for_choosing
from pamt_lightning.experiments.study import Study
from pamt_lightning.experiments.study_files import dataset_name
from pamt_lightning.runs import write_whole

_RANGE_KEYS = {"low", "high", "log", "step"}
_SPACE_KEYS = {"space", "datasets", "conditions", "start"}
_LEFT_OVER = "known nodes left over"  # what a published validation seed is scored on


@dataclass(frozen=True)
class Space:
    """What is searched, and on what it is scored.

    Attributes:
        options: By option, a list of choices or a range (``low``, ``high``, ``log``, ``step``).
        datasets: Data sets that one choice is to serve; none leaves that to the command line.
        conditions: Options under each of which every data set is scored, such as noise.
        start: Choices to try first, such as the paper's values.
    """

    options: Mapping[str, list[Value] | dict[str, float | bool]]
    datasets: tuple[str, ...] = ()
    conditions: tuple[Mapping[str, Value], ...] = ({},)
    start: tuple[Mapping[str, Value], ...] = ()


@dataclass
class Trial:
    """One choice and what it came to.

    Attributes:
        number: Counts from 0.
        choice: Value by option.
        score: Mean accuracy over data sets, conditions and splits; none if it failed.
        splits: On how many splits it was scored before it was clear that others are better.
        state: How it ended: ``complete``, ``pruned`` or ``failed``.
    """

    number: int
    choice: dict[str, Value]
    score: float | None
    splits: int
    state: str


def read_space(path: Path) -> Space:
    """A space from its YAML file."""
    if not path.is_file():
        raise InputError(f"there is no file {path} with a space to search.")
    content = load(str(path), path)
    if unknown := set(content) - _SPACE_KEYS:
        keys = ", ".join(sorted(_SPACE_KEYS))
        raise InputError(f"{path} has no key {unknown.pop()!r}. Keys: {keys}.")
    options = content.get("space")
    if not isinstance(options, dict) or not options:
        raise InputError(
            f"{path}: `space` must hold options and what they may be, got {options!r}."
        )
    for name, values in options.items():
        _check_choices(f"{path}: {name}", values)
    start = tuple(content.get("start", ()))
    for choice in start:
        if not isinstance(choice, dict) or set(choice) - set(options):
            raise InputError(f"{path}: `start` may hold options of `space` only, got {choice!r}.")
    conditions = tuple(content.get("conditions", ({},)))
    if not conditions or not all(isinstance(condition, dict) for condition in conditions):
        raise InputError(f"{path}: `conditions` must be a list of options, got {conditions!r}.")
    datasets = tuple(dataset_name(str(name)) for name in content.get("datasets", ()))
    return Space(options, datasets, conditions, start)


def check_seeds(seeds: Sequence[str], published: bool) -> None:
    """Refuse to choose on what results are reported on."""
    for seed in seeds:
        if seed.startswith("test") or (published and not is_for_choosing(seed)):
            raise InputError(
                f"`seeds` must be published validation seeds (val0 to val19) to choose on, got "
                f"{seed!r}: what is chosen on test seeds cannot be reported on them."
            )


@dataclass
class Tuner:
    """Scores choices; Optuna makes them.

    Attributes:
        space: What is searched.
        args: What is typed after `pamt fit` for all trials.
        study: Splits and initialisations.
        configure: From arguments to configuration.
        runner: What does the runs.
        threads: Threads of each run.
    """

    space: Space
    args: list[str]
    study: Study
    configure: Configure
    runner: Runner
    threads: int = 1
    trials: list[Trial] = field(default_factory=list)

    def search(self, storage: Path, trials: int, seed: int = 0) -> list[Trial]:
        """Go on until there are so many trials; the best comes first."""
        optuna = _optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage.parent.mkdir(parents=True, exist_ok=True)
        search = optuna.create_study(
            study_name="pamt",
            storage=f"sqlite:///{storage}",
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=10),
            # Made for this: is the best trial better on the same splits so far?
            pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1),
        )
        self._check_same_question(search)
        if not search.trials:
            for choice in self.space.start:
                search.enqueue_trial(dict(choice))
        finished = sum(t.state.is_finished() for t in search.trials)
        with tqdm(total=trials, initial=min(finished, trials), desc="trials", disable=None) as bar:
            for _ in range(trials - finished):
                search.optimize(self._objective, n_trials=1, catch=(TrialFailedError,))
                if _complete(search):
                    bar.set_postfix_str(f"best {100 * search.best_value:.2f}", refresh=False)
                bar.update(1)
        return self.listed(search)

    def listed(self, search: Any) -> list[Trial]:
        """All trials: finished ones by score, then pruned and failed ones."""
        found = []
        for trial in search.trials:
            if not trial.state.is_finished():
                continue
            values = list(trial.intermediate_values.values())
            score = sum(values) / len(values) if values else None
            state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
            choice = {name: _rounded(value) for name, value in trial.params.items()}
            found.append(Trial(trial.number, choice, score, len(values), state))
        order = {"complete": 0, "pruned": 1, "failed": 2}
        return sorted(found, key=lambda t: (order[t.state], -(t.score or 0.0)))

    def _check_same_question(self, search: Any) -> None:
        """A stored search goes on only if it asks the same."""
        question = {
            "args": self.args,
            "splits": list(self.study.splits),
            "inits": list(self.study.inits),
            "datasets": list(self.space.datasets),
            "conditions": [dict(condition) for condition in self.space.conditions],
            "space": dict(self.space.options),
        }
        old = search.user_attrs.get("question")
        if old is None:
            search.set_user_attr("question", question)
        elif old != question:
            changed = next(key for key in question if question[key] != old.get(key))
            raise InputError(
                f"the search stored here had other {changed}: {old.get(changed)}, now "
                f"{question[changed]}. Name another --folder for a new search."
            )

    def _objective(self, trial: Any) -> float:
        optuna = _optuna()
        choice = {name: self._suggest(trial, name) for name in self.space.options}
        scores = []
        for step, runs in enumerate(self.steps(choice)):
            score = self._score(runs)
            scores.append(score)
            trial.report(score, step)
            if step + 1 < len(self.study.splits) and trial.should_prune():
                raise optuna.TrialPruned
        return sum(scores) / len(scores)

    def steps(self, choice: Mapping[str, Value]) -> Iterator[list[Run]]:
        """The runs of a choice, split by split."""
        datasets: tuple[str | None, ...] = self.space.datasets or (None,)
        cells = []
        for dataset in datasets:
            for condition in self.space.conditions:
                data = [] if dataset is None else ["--config", config_file(dataset)]
                args = [*data, *self.args, *option_args(condition), *option_args(choice)]
                cells.append((Cell(dataset or "", "tuned"), args))
        runs = expand_cells(cells, self.study, self.configure, self.threads)
        for split in self.study.splits:
            yield [run for run in runs if run.split_seed == split]

    def _score(self, runs: list[Run]) -> float:
        tally = self.runner.run(runs, retry=False)
        if tally.failed:
            raise TrialFailedError(next(iter(tally.failed.values())))
        rows = self.runner.store.rows()
        return sum(score_of(rows[run.run_id]) for run in runs) / len(runs)

    def _suggest(self, trial: Any, name: str) -> Value:
        values = self.space.options[name]
        if isinstance(values, list):
            chosen: Value = trial.suggest_categorical(name, values)
            return chosen
        low, high, log = values["low"], values["high"], bool(values.get("log", False))
        step: Any = values.get("step")
        if isinstance(low, int) and isinstance(high, int):
            whole: int = trial.suggest_int(name, low, high, step=step or 1, log=log)
            return whole
        return _rounded(trial.suggest_float(name, low, high, step=step, log=log))


class TrialFailedError(Exception):
    """A run of a trial failed; the search goes on."""


def score_of(row: Mapping[str, Any]) -> float:
    """What a choice is judged by: never the accuracy on test nodes.

    With a published validation seed it is the accuracy on the known nodes that are used neither for
    training nor for stopping; for other splits the accuracy on the stopping nodes.
    """
    name = "test_acc" if row.get("tested_on") == _LEFT_OVER else "val_acc"
    score = row.get("metrics", {}).get(name, math.nan)
    if math.isnan(score):
        raise TrialFailedError(f"the run {row.get('id')} has no {name}.")
    return float(score)


def write_choice(path: Path, trial: Trial, source: Sequence[str]) -> None:
    """The best choice as a config file, to be laid over that of a data set."""
    content: dict[str, Any] = {}
    for name, value in trial.choice.items():
        keys = name.split(".")
        if keys[0] == "model" and len(keys) > 1 and keys[1] != "init_args":
            keys.insert(1, "init_args")
        place = content
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = value
    text = "".join(f"# {line}\n" for line in source) + yaml.safe_dump(content, sort_keys=False)
    write_whole(path, lambda file: print(text, end="", file=file))


def write_trials(path: Path, trials: Sequence[Trial]) -> None:
    """All trials as CSV."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.choice))

    def write(file: Any) -> None:
        writer = csv.writer(file)
        writer.writerow(["trial", "state", "score", "splits", *names])
        for trial in trials:
            values = [trial.choice.get(name) for name in names]
            writer.writerow([trial.number, trial.state, trial.score, trial.splits, *values])

    write_whole(path, write)


def _rounded(value: Value) -> Value:
    # Four digits are more than a search can tell apart, and can be read and typed.
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _complete(search: Any) -> bool:
    return any(trial.state.name == "COMPLETE" for trial in search.trials)


def _check_choices(where: str, values: Any) -> None:
    if isinstance(values, list) and values:
        return
    if not isinstance(values, dict) or not {"low", "high"} <= set(values) <= _RANGE_KEYS:
        raise InputError(
            f"{where} must be a list of choices or a range such as {{low: 0.001, high: 0.1, "
            f"log: true}}, got {values!r}."
        )
    numbers = [values["low"], values["high"]]
    if not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
        raise InputError(f"{where}: `low` and `high` must be numbers, got {numbers}.")
    if not values["low"] < values["high"]:
        raise InputError(f"{where}: `low` must be below `high`, got {numbers}.")


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError("`pamt tune` needs Optuna: pip install 'pamt-lightning[tune]'.") from None
    # The pruner is marked as experimental since 2024; users can do nothing about it.
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
