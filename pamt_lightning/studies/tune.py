"""Search for good options with Optuna, on validation seeds only."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from tqdm import tqdm

from pamt_lightning.data.published.registry import DEFAULT_DATASET, get_spec
from pamt_lightning.errors import InputError
from pamt_lightning.files import write_whole
from pamt_lightning.studies.report.tables import VERDICTS, points
from pamt_lightning.studies.runner import Runner
from pamt_lightning.studies.runs import Run, result_affecting
from pamt_lightning.studies.seeds import is_for_choosing
from pamt_lightning.studies.space import Choice, Space, Typed, require_optuna
from pamt_lightning.studies.statistics import compare
from pamt_lightning.studies.study import Study, Value
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.layers import nested

STORAGE = "optuna.sqlite3"
HELD_OUT = "held-out nodes"  # what a published validation seed is scored on
_HELD_OUT = (HELD_OUT, "known nodes left over")  # the second in results of earlier versions
_CLAIM = "search"
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
# User attributes of a trial: why it failed, the trial that it repeats, its scores by place.
_REASON, _REPEATS, _SCORES = "reason", "repeats", "scores"


@dataclass
class Trial:
    """One choice and its scores.

    Attributes:
        state: ``complete``, ``pruned`` or ``failed``.
        by_split: Mean accuracy over data sets and conditions, for each split it was scored on.
        by_place: Mean accuracy over these splits, for each data set under each condition.
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
    """Scores choices; Optuna makes them. The search is stored beside the results of its runs.

    ``study`` holds the splits and initialisations; with ``retry``, failed trials are repeated.
    """

    space: Space
    typed: Typed
    study: Study
    runner: Runner
    threads: int = 1
    retry: bool = False

    def search(self, trials: int) -> list[Trial]:
        """Search until there are so many trials, those of earlier calls included; best first."""
        results = self.runner.results
        # A trial that runs in one process looks interrupted to another.
        if not results.claim(_CLAIM):
            raise InputError(
                f"another `pamt tune` works on the search in {results.folder}: wait for it, or "
                "give another --folder."
            )
        try:
            search = self._open(results.folder)
            self._repeat_interrupted(search)
            done = len(_counted(search))
            with tqdm(total=trials, initial=min(done, trials), desc="trials", disable=None) as bar:
                for _ in range(trials - done):
                    self._try(search)
                    if any(trial.state.name == "COMPLETE" for trial in search.trials):
                        bar.set_postfix_str(f"best {100 * search.best_value:.2f}", refresh=False)
                    bar.update(1)
            return self._trials(search)
        finally:
            results.release(_CLAIM)

    def first_choice(self, trials: Sequence[Trial]) -> Trial:
        """What the best is compared with: the first of `start`, else the first trial."""
        scored = sorted((t for t in trials if t.by_split), key=lambda t: t.number)
        return next((t for t in scored if self._is_start(t.choice)), scored[0])

    def scored_on(self) -> str:
        """The nodes that choices were scored on."""
        rows = self.runner.results.rows().values()
        return " or ".join(sorted({_nodes(row) for row in rows if "metrics" in row})) or "no nodes"

    def _is_start(self, choice: Choice) -> bool:
        return any(self.space.choice(s).items() <= choice.items() for s in self.space.start[:1])

    def _open(self, folder: Path) -> Any:
        """The stored search, or a new one."""
        optuna = require_optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        search = optuna.create_study(
            study_name="pamt",
            storage=f"sqlite:///{folder / STORAGE}",
            direction="maximize",
            load_if_exists=True,
            # Compares with the best trial on the same splits.
            pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1),
        )
        self._check_same_question(search, folder)
        # A sampler that starts again with the same seed would draw the same choices.
        search.sampler = optuna.samplers.TPESampler(seed=len(search.trials), n_startup_trials=10)
        if not search.trials:
            for choice in self.space.start:
                search.enqueue_trial(dict(choice))
        return search

    def _check_same_question(self, search: Any, folder: Path) -> None:
        """A stored search is resumed only if it asks the same."""
        dataset, condition = next(iter(self.space.places().values()))
        question = {
            "splits": list(self.study.splits),
            "inits": list(self.study.inits),
            "datasets": list(self.space.datasets),
            "conditions": [dict(condition) for condition in self.space.conditions],
            "space": dict(self.space.options),
            **result_affecting(self.typed(condition, dataset)),
        }
        old = search.user_attrs.get("question")
        if old is None:
            search.set_user_attr("question", question)
            return
        before, now = (pd.json_normalize(each).to_dict("records")[0] for each in (old, question))
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                raise InputError(
                    f"the search in {folder} had another {name}: {before.get(name)}, now "
                    f"{now.get(name)}. Give another --folder for a new search."
                )

    def _repeat_interrupted(self, search: Any) -> None:
        """Queue interrupted trials once more; their finished splits cost nothing."""
        fail = require_optuna().trial.TrialState.FAIL
        for trial in search.trials:
            if trial.state.name == "RUNNING":  # this process has the claim, so that one is dead
                search.tell(trial.number, state=fail)
        for trial in _not_repeated(search):
            params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
            if params and (_is_interrupted(trial) or (self.retry and trial.state == fail)):
                search.enqueue_trial(params, user_attrs={_REPEATS: trial.number})

    def _try(self, search: Any) -> None:
        """Score the next choice split by split, unless it is clearly worse than the best."""
        states = require_optuna().trial.TrialState
        trial = search.ask(self.space.distributions())
        choice = self.space.choice(trial.params)
        runs = self.space.runs(self.typed, choice, self.study, self.threads)
        by_place: dict[str, list[float]] = {place: [] for place in self.space.places()}
        means: list[float] = []
        for step, split in enumerate(self.study.splits):
            # The choice that the best is compared with is scored on all splits.
            if step and not self._is_start(choice) and trial.should_prune():
                search.tell(trial, state=states.PRUNED)
                return
            try:
                scores = self._scores([run for run in runs if run.split_seed == split])
            except TrialFailedError as error:
                trial.set_user_attr(_REASON, str(error))
                search.tell(trial, state=states.FAIL)
                return
            for place, score in scores:
                by_place[place].append(score)
            trial.set_user_attr(_SCORES, by_place)
            means.append(_mean([score for _, score in scores]))
            trial.report(means[-1], step)
        search.tell(trial, _mean(means))

    def _scores(self, runs: Sequence[Run]) -> list[tuple[str, float]]:
        """The place and the score of each run."""
        failed = self.runner.run(runs, retry=self.retry)
        if failed:
            raise TrialFailedError(next(iter(failed.values())))
        rows = self.runner.results.rows()
        return [(run.cell.dataset, score_of(rows[run.run_id])) for run in runs]

    def _trials(self, search: Any) -> list[Trial]:
        """All trials: complete ones by score, then pruned and failed ones."""
        splits, places, order = self.study.splits, self.space.places(), [*_STATES.values()]
        found = [
            Trial(
                trial.number,
                self.space.choice(trial.params),
                _STATES[trial.state.name],
                {splits[k]: value for k, value in sorted(trial.intermediate_values.items())},
                {name: _mean(trial.user_attrs.get(_SCORES, {}).get(name, [])) for name in places},
                str(trial.user_attrs.get(_REASON, "")),
            )
            for trial in _counted(search)
        ]
        return sorted(found, key=lambda t: (order.index(t.state), -(t.score or 0.0), t.number))


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


def _is_interrupted(trial: Any) -> bool:
    """Whether a trial was interrupted: one that failed by itself has a reason."""
    return trial.state.name == "FAIL" and _REASON not in trial.user_attrs


def _not_repeated(search: Any) -> list[Any]:
    """The trials that no later one repeats."""
    repeated = {trial.user_attrs.get(_REPEATS) for trial in search.trials}
    return [trial for trial in search.trials if trial.number not in repeated]


def _counted(search: Any) -> list[Any]:
    """The finished trials, without those that were interrupted or repeated."""
    trials = _not_repeated(search)
    return [t for t in trials if t.state.is_finished() and not _is_interrupted(t)]


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
    space: Space, typed: Typed, choice: Choice, typed_names: Collection[str]
) -> dict[str, Any]:
    """A config file that, after that of a data set, gives the model that was scored.

    It names the method and holds the values of the model that were chosen or typed, or that differ
    from the data set's file: the method's own file is not read then.
    """
    names = [name.split(".") for name in (*choice, *typed_names)]
    needed = {parts[1] for parts in names if parts[0] == "model" and len(parts) > 1}
    models: dict[str | None, dict[str, Any]] = {}
    for dataset in space.datasets or (None,):
        config = typed(choice, dataset)
        model, data = config.model, config.data
        name = None if data.get("path") else get_spec(data.get("dataset") or DEFAULT_DATASET).name
        own = RunConfig.create(dataset=dataset or name)
        if own.model["class_path"] != model["class_path"]:  # nothing of the file is used
            own = RunConfig(config.method, {**model, "init_args": {}})
        usual = own.complete().model["init_args"]
        models[name] = dict(model["init_args"])
        needed |= {key for key, value in models[name].items() if usual.get(key, ...) != value}
    # Values that differ between data sets stand below their names; own data have none.
    common = models.get(None, next(iter(models.values())))
    content = nested({k: v for k, v in choice.items() if not k.startswith("model.")})
    content["model"] = {
        "class_path": config.to_dict()["model"]["class_path"],
        "init_args": {key: value for key, value in common.items() if key in needed},
    }
    for name, values in models.items():
        others = {k: v for k, v in values.items() if k in needed and common[k] != v}
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
