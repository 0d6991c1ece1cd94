"""Search for good options with Optuna, on validation seeds only."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from filelock import FileLock, Timeout
from tqdm import tqdm

from pamt_lightning.data.published.registry import get_spec
from pamt_lightning.errors import InputError
from pamt_lightning.files import write_whole
from pamt_lightning.studies.outcome import Value
from pamt_lightning.studies.report.tables import VERDICTS, points
from pamt_lightning.studies.runner import Runner
from pamt_lightning.studies.runs import Configure, Run, result_affecting
from pamt_lightning.studies.seeds import is_for_choosing
from pamt_lightning.studies.space import Choice, Place, Space, Typed
from pamt_lightning.studies.statistics import compare
from pamt_lightning.studies.study import Study
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.layers import dataset_file, nested

HELD_OUT = "held-out nodes"  # what a published validation seed is scored on
_HELD_OUT = (HELD_OUT, "known nodes left over")  # the second in results of earlier versions
# User attributes of a trial: why it failed, the number of the trial that it repeats, and its
# scores by place.
_REASON, _REPEATS, _SCORES = "reason", "repeats", "scores"


@dataclass
class Trial:
    """One choice and its scores.

    Attributes:
        number: Counts from 0.
        choice: Value by option.
        state: ``complete``, ``pruned`` or ``failed``.
        by_split: Mean accuracy over data sets and conditions, for each split it was scored on.
        by_place: Mean accuracy over these splits, for each data set under each condition.
        why: Why it failed.
    """

    number: int
    choice: dict[str, Value]
    state: str
    by_split: dict[str, float] = field(default_factory=dict)
    by_place: dict[str, float] = field(default_factory=dict)
    why: str = ""

    @property
    def score(self) -> float | None:
        """Mean over the splits; None if there are none."""
        return _mean(list(self.by_split.values())) if self.by_split else None


class TrialFailedError(Exception):
    """A run of a trial failed; the search continues."""


@dataclass
class Tuner:
    """Scores choices; Optuna makes them.

    Attributes:
        space: What is searched.
        typed: The configuration of the command line.
        study: Splits and initialisations.
        runner: What computes the runs.
        threads: Threads of each run.
        retry: Whether trials that failed are repeated.
    """

    space: Space
    typed: Typed
    study: Study
    runner: Runner
    threads: int = 1
    retry: bool = False

    def search(self, storage: Path, trials: int, seed: int = 0) -> list[Trial]:
        """Search until there are so many trials, those of earlier calls included; best first."""
        optuna = require_optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage.parent.mkdir(parents=True, exist_ok=True)
        with _only_search(storage):
            search = optuna.create_study(
                study_name="pamt",
                storage=f"sqlite:///{storage}",
                direction="maximize",
                load_if_exists=True,
                # Compares with the best trial on the same splits.
                pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1),
            )
            self._check_same_question(search, storage.parent)
            # A sampler that starts again with the same seed would draw the same choices.
            search.sampler = optuna.samplers.TPESampler(
                seed=seed + len(search.trials), n_startup_trials=10
            )
            if not search.trials:
                for choice in self.space.start:
                    search.enqueue_trial(dict(choice))
            self._repeat_interrupted(search)
            self._optimize(search, trials)
            return self._trials(search)

    def first_choice(self, trials: Sequence[Trial]) -> Trial:
        """What the best is compared with: the first of `start`, else the first trial."""
        scored = sorted((t for t in trials if t.by_split), key=lambda t: t.number)
        start = self.space.choice(self.space.start[0]) if self.space.start else {}
        same = [t for t in scored if start.items() <= t.choice.items()]
        return (same or scored)[0]

    def scored_on(self) -> str:
        """The nodes that choices were scored on."""
        rows = self.runner.results.rows().values()
        return " or ".join(sorted({_nodes(row) for row in rows if "metrics" in row})) or "no nodes"

    def _repeat_interrupted(self, search: Any) -> None:
        """Queue interrupted trials once more; their finished splits cost nothing."""
        fail = require_optuna().trial.TrialState.FAIL
        for trial in search.trials:
            if trial.state.name == "RUNNING":  # this process has the lock, so that one is dead
                search.tell(trial.number, state=fail)
        repeated = _repeated(search)
        for trial in search.trials:
            wanted = _is_interrupted(trial) or (self.retry and trial.state == fail)
            params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
            if wanted and params and trial.number not in repeated:
                search.enqueue_trial(params, user_attrs={_REPEATS: trial.number})

    def _optimize(self, search: Any, trials: int) -> None:
        finished = len(_finished(search))
        with tqdm(total=trials, initial=min(finished, trials), desc="trials", disable=None) as bar:
            for _ in range(trials - finished):
                search.optimize(self._objective, n_trials=1, catch=(TrialFailedError,))
                if any(trial.state.name == "COMPLETE" for trial in search.trials):
                    bar.set_postfix_str(f"best {100 * search.best_value:.2f}", refresh=False)
                bar.update(1)

    def _trials(self, search: Any) -> list[Trial]:
        """All trials: complete ones by score, then pruned and failed ones."""
        found = []
        for trial in _finished(search):
            state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
            steps = sorted(trial.intermediate_values.items())
            scores = trial.user_attrs.get(_SCORES, {})
            found.append(
                Trial(
                    number=trial.number,
                    choice=self.space.choice(trial.params),
                    state=state,
                    by_split={self.study.splits[step]: value for step, value in steps},
                    by_place={
                        place.label(): _mean(scores.get(place.label(), []))
                        for place in self.space.places()
                    },
                    why=str(trial.user_attrs.get(_REASON, "")),
                )
            )
        order = {"complete": 0, "pruned": 1, "failed": 2}
        return sorted(found, key=lambda t: (order[t.state], -(t.score or 0.0), t.number))

    def _check_same_question(self, search: Any, folder: Path) -> None:
        """A stored search is resumed only if it asks the same."""
        question = {
            "splits": list(self.study.splits),
            "inits": list(self.study.inits),
            "datasets": list(self.space.datasets),
            "conditions": [dict(condition) for condition in self.space.conditions],
            "space": dict(self.space.options),
            **result_affecting(self.space.places()[0].configure(self.typed, {})),
        }
        old = search.user_attrs.get("question")
        if old is None:
            search.set_user_attr("question", question)
            return
        before, now = _flat(old), _flat(question)
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise InputError(
                    f"the search in {folder} had another {name}: {before.get(name)}, now "
                    f"{now.get(name)}. Give another --folder for a new search."
                )

    def _objective(self, trial: Any) -> float:
        choice = self.space.suggest(trial)
        runs = self.space.runs(self.typed, choice, self.study, self.threads)
        # The choice that the best is compared with is scored on all splits.
        start = self.space.choice(self.space.start[0]) if self.space.start else None
        by_place: dict[str, list[float]] = {}
        means = []
        for step, split in enumerate(self.study.splits):
            try:
                scores = self._scores([run for run in runs if run.split_seed == split])
            except TrialFailedError as error:
                trial.set_user_attr(_REASON, str(error))
                raise
            for label, score in scores:
                by_place.setdefault(label, []).append(score)
            trial.set_user_attr(_SCORES, by_place)
            means.append(_mean([score for _, score in scores]))
            trial.report(means[-1], step)
            is_last = step + 1 == len(self.study.splits)
            if not is_last and choice != start and trial.should_prune():
                raise require_optuna().TrialPruned
        return _mean(means)

    def _scores(self, runs: Sequence[Run]) -> list[tuple[str, float]]:
        """The label of the place and the score of each run."""
        tally = self.runner.run(runs, retry=self.retry)
        if tally.failed:
            raise TrialFailedError(next(iter(tally.failed.values())))
        rows = self.runner.results.rows()
        return [(run.cell.dataset, score_of(rows[run.run_id])) for run in runs]


def check_seeds(seeds: Sequence[str], published: bool) -> None:
    """Refuse to choose options on the splits that results are reported on."""
    for seed in seeds:
        if seed.startswith("test") or (published and not is_for_choosing(seed)):
            raise InputError(
                f"`seeds` must be published validation seeds (val0 to val19), got {seed!r}: "
                "options that are chosen on test seeds cannot be reported on them."
            )


def score_of(row: Mapping[str, Any]) -> float:
    """The accuracy that a choice is judged by, never that on test nodes.

    With a published validation seed it is the accuracy on held-out nodes, which are used neither
    for training nor for early stopping; for other splits that on the validation nodes.
    """
    name = "test_acc" if _nodes(row) == HELD_OUT else "val_acc"
    score = row.get("metrics", {}).get(name, math.nan)
    if math.isnan(score):
        raise TrialFailedError(f"the run {row.get('id')} has no {name}.")
    return float(score)


def _nodes(row: Mapping[str, Any]) -> str:
    return HELD_OUT if row.get("tested_on") in _HELD_OUT else "validation nodes"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted names."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


# Optuna ------------------------------------------------------------------------------------------


def require_optuna() -> Any:
    """The package Optuna, or the error that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise InputError(
            "`pamt tune` needs Optuna, the extra `tune`: in the project's folder, "
            'pip install -c constraints.txt -e ".[tune]".'
        ) from None
    # The pruner has been marked as experimental since 2024; users can do nothing about it.
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


@contextmanager
def _only_search(storage: Path) -> Iterator[None]:
    """Hold the search: a trial that runs in one process looks interrupted to another."""
    lock = FileLock(storage.with_name(f"{storage.name}.lock"), blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"another `pamt tune` works on the search in {storage.parent}: wait for it, or give "
            "another --folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _is_interrupted(trial: Any) -> bool:
    """Whether a trial was interrupted: one that failed by itself has a reason."""
    return trial.state.name == "FAIL" and _REASON not in trial.user_attrs


def _repeated(search: Any) -> set[int]:
    """Numbers of the trials that later ones repeat."""
    return {trial.user_attrs[_REPEATS] for trial in search.trials if _REPEATS in trial.user_attrs}


def _finished(search: Any) -> list[Any]:
    """The trials that count."""
    repeated = _repeated(search)
    return [
        trial
        for trial in search.trials
        if trial.state.is_finished() and not _is_interrupted(trial) and trial.number not in repeated
    ]


# What a search leaves ----------------------------------------------------------------------------


def verdict(best: Trial, first: Trial) -> list[str]:
    """Whether the best choice is better than the first, on the splits that both were scored on."""
    if best.number == first.number:
        return [f"The first choice (trial {first.number}) is the best: none scored higher."]
    found = compare(best.by_split, first.by_split)
    negation = "" if found.verdict == "better" else "not "
    word = VERDICTS["too few" if found.verdict == "unknown" else found.verdict]
    splits = "split" if found.count == 1 else "splits"
    return [
        f"Trial {best.number} minus the first choice (trial {first.number}): "
        f"{points(found.difference)} points, 95 % interval {points(found.low)} to "
        f"{points(found.high)}, on {found.count} common {splits}: {word}.",
        f"It was {negation}shown to be better than {shown(first.choice)}.",
        "The best of several scores too high on the splits it was chosen on; check it on others.",
    ]


def shown(choice: Choice) -> str:
    """A choice in one line."""
    return ", ".join(f"{name} {value}" for name, value in choice.items())


def best_config(
    space: Space, typed: Typed, choice: Choice, typed_names: Collection[str], configure: Configure
) -> dict[str, Any]:
    """A config file that, after that of a data set, gives the model that was scored.

    It names the method and holds the values of the model that were chosen or typed, or that differ
    from the data set's file: the method's own file is not read then.

    Args:
        space: What was searched.
        typed: The configuration of the command line.
        choice: The choice.
        typed_names: Names of the options on the command line.
        configure: From config files, a method and options to a configuration.
    """
    names = (name.split(".") for name in (*choice, *typed_names))
    needed = {parts[-1] for parts in names if parts[0] == "model" and len(parts) > 1}
    models: dict[str | None, dict[str, Any]] = {}
    class_path = ""
    for dataset in space.datasets or (None,):
        config = Place(dataset, {}).configure(typed, choice)
        values = dict(config.model["init_args"])
        class_path = config.to_dict()["model"]["class_path"]
        name = None if config.data.get("path") else config.data.get("dataset") or "synthetic"
        file = dataset or name
        own = configure([] if file is None else [dataset_file(file)], None, {})
        if own.model["class_path"] != config.model["class_path"]:  # nothing of the file is used
            model = {"class_path": config.model["class_path"], "init_args": {}}
            own = RunConfig(config.method, model).complete()
        defaults = own.model["init_args"]
        needed |= {key for key, value in values.items() if defaults.get(key, ...) != value}
        models[name if name is None else get_spec(name).name] = values
    # Values that differ between data sets stand below their names; own data have none.
    usual = models.get(None, next(iter(models.values())))
    content = nested({k: v for k, v in choice.items() if not k.startswith("model.")})
    init_args = {key: value for key, value in usual.items() if key in needed}
    content["model"] = {"class_path": class_path, "init_args": init_args}
    for name, values in models.items():
        others = {key: values[key] for key in values if key in needed and usual[key] != values[key]}
        if name is not None and others:
            content.setdefault("by_dataset", {})[name] = {"model": {"init_args": others}}
    return content


def write_choice(path: Path, content: Mapping[str, Any], comments: Sequence[str]) -> None:
    """Write a choice as a config file that starts with comments."""
    text = "".join(f"# {line}\n" for line in comments) + yaml.safe_dump(content, sort_keys=False)
    write_whole(path, lambda file: file.write(text))


def write_trials(path: Path, trials: Sequence[Trial]) -> None:
    """Write all trials as CSV: score, accuracy in each place, choice."""
    rows = [
        {
            **{"trial": trial.number, "state": trial.state, "score": trial.score},
            "splits": len(trial.by_split),
            **trial.by_place,
            **trial.choice,
            "why": trial.why,
        }
        for trial in trials
    ]
    # Objects, so that whole numbers stay whole in a column with gaps.
    table = pd.DataFrame(rows, dtype=object)
    write_whole(path, lambda file: table.to_csv(file, index=False))
