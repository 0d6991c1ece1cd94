"""Search for good options, on the validation seeds alone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tqdm import tqdm

from pamt_lightning.errors import InputError
from pamt_lightning.studies.expand import Configure, Run
from pamt_lightning.studies.outcome import Value
from pamt_lightning.studies.runner import Runner
from pamt_lightning.studies.seeds import is_for_choosing
from pamt_lightning.studies.space import Space
from pamt_lightning.studies.study import Study

_LEFT_OVER = "known nodes left over"  # what a published validation seed is scored on
# What we note on a trial: why it failed, and the number of the trial that it is done for again.
_REASON, _AGAIN = "reason", "again"


@dataclass
class Trial:
    """One choice and what it came to.

    Attributes:
        number: Counts from 0.
        choice: Value by option.
        state: How it ended: ``complete``, ``pruned`` or ``failed``.
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
        """Mean over the splits; none if there are none."""
        values = self.by_split.values()
        return sum(values) / len(values) if values else None


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
        retry: Whether trials that failed are done again.
    """

    space: Space
    args: list[str]
    study: Study
    configure: Configure
    runner: Runner
    threads: int = 1
    retry: bool = False

    def search(self, storage: Path, trials: int, seed: int = 0) -> list[Trial]:
        """Go on until there are so many trials; the best comes first."""
        optuna = require_optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage.parent.mkdir(parents=True, exist_ok=True)
        with _alone(storage):
            search = optuna.create_study(
                study_name="pamt",
                storage=f"sqlite:///{storage}",
                direction="maximize",
                load_if_exists=True,
                # Made for this: is the best trial better on the same splits so far?
                pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1),
            )
            self._check_same_question(search, storage.parent)
            # A sampler that starts anew with the same seed would draw the same choices again.
            search.sampler = optuna.samplers.TPESampler(
                seed=seed + len(search.trials), n_startup_trials=10
            )
            if not search.trials:
                for choice in self.space.start:
                    search.enqueue_trial(dict(choice))
            self._take_up(search)
            self._optimize(search, trials)
            return self.listed(search)

    def _take_up(self, search: Any) -> None:
        """Queue what was interrupted once more: splits that were finished cost nothing."""
        fail = require_optuna().trial.TrialState.FAIL
        for trial in search.trials:
            if trial.state.name == "RUNNING":  # we hold the lock, so its process is dead
                search.tell(trial.number, state=fail)
        done_again = _done_again(search)
        for trial in search.trials:
            wanted = _is_interrupted(trial) or (self.retry and trial.state == fail)
            params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
            if wanted and params and trial.number not in done_again:
                search.enqueue_trial(params, user_attrs={_AGAIN: trial.number})

    def _optimize(self, search: Any, trials: int) -> None:
        finished = len(_finished(search))
        with tqdm(total=trials, initial=min(finished, trials), desc="trials", disable=None) as bar:
            for _ in range(trials - finished):
                search.optimize(self._objective, n_trials=1, catch=(TrialFailedError,))
                if any(trial.state.name == "COMPLETE" for trial in search.trials):
                    bar.set_postfix_str(f"best {100 * search.best_value:.2f}", refresh=False)
                bar.update(1)

    def listed(self, search: Any) -> list[Trial]:
        """All trials: finished ones by score, then pruned and failed ones."""
        scores = self._scores_in_store()
        found = []
        for trial in _finished(search):
            state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
            steps = sorted(trial.intermediate_values.items())
            by_split = {self.study.splits[step]: value for step, value in steps}
            choice = self.space.choice(trial.params)
            by_place = {}
            for place in self.space.places():
                args = tuple(self.space.args(place, self.args, choice))
                values = [v for key, v in scores.items() if key[0] == args and key[1] in by_split]
                by_place[place.label()] = sum(values) / len(values) if values else math.nan
            why = str(trial.user_attrs.get(_REASON, ""))
            found.append(Trial(trial.number, choice, state, by_split, by_place, why))
        order = {"complete": 0, "pruned": 1, "failed": 2}
        return sorted(found, key=lambda t: (order[t.state], -(t.score or 0.0), t.number))

    def first_choice(self, trials: Sequence[Trial]) -> Trial:
        """What the best is to be compared with: the first of `start`, else the first trial."""
        scored = sorted((t for t in trials if t.by_split), key=lambda t: t.number)
        start = self.space.choice(self.space.start[0]) if self.space.start else {}
        same = [t for t in scored if start.items() <= t.choice.items()]
        return (same or scored)[0]

    def scored_on(self) -> str:
        """The nodes that choices were scored on, in words."""
        found = {_nodes(row) for row in self.runner.store.rows().values() if "metrics" in row}
        return " or ".join(sorted(found)) or "nodes of no run"

    def _scores_in_store(self) -> dict[tuple[tuple[str, ...], str, int], float]:
        """Scores by arguments, split and initialisation.

        Not by the names of the runs: these change with the code, and the trials are to be shown as
        they were scored.
        """
        found = {}
        for row in self.runner.store.rows().values():
            if row.get("error") is None:
                args = tuple(row["args"])
                key = (args[: args.index("--data.split_seed")], row["split_seed"], row["init_seed"])
                with suppress(TrialFailedError):
                    found[key] = score_of(row)
        return found

    def _check_same_question(self, search: Any, folder: Path) -> None:
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
                f"the search in {folder} had other {changed}: {old.get(changed)}, now "
                f"{question[changed]}. Name another --folder for a new search."
            )

    def _objective(self, trial: Any) -> float:
        choice = self.space.suggest(trial)
        runs = self.space.runs(self.args, choice, self.study, self.configure, self.threads)
        # What the best is compared with is scored to the end, also if others were scored before it.
        start = self.space.choice(self.space.start[0]) if self.space.start else None
        scores = []
        for step, split in enumerate(self.study.splits):
            try:
                score = self._score([run for run in runs if run.split_seed == split])
            except TrialFailedError as error:
                trial.set_user_attr(_REASON, str(error))
                raise
            scores.append(score)
            trial.report(score, step)
            is_last = step + 1 == len(self.study.splits)
            if not is_last and choice != start and trial.should_prune():
                raise require_optuna().TrialPruned
        return sum(scores) / len(scores)

    def _score(self, runs: list[Run]) -> float:
        tally = self.runner.run(runs, retry=self.retry)
        if tally.failed:
            raise TrialFailedError(next(iter(tally.failed.values())))
        rows = self.runner.store.rows()
        return sum(score_of(rows[run.run_id]) for run in runs) / len(runs)


class TrialFailedError(Exception):
    """A run of a trial failed; the search goes on."""


def score_of(row: Mapping[str, Any]) -> float:
    """What a choice is judged by: never the accuracy on test nodes.

    With a published validation seed it is the accuracy on the known nodes that are used neither for
    training nor for stopping; for other splits the accuracy on the stopping nodes.
    """
    name = "test_acc" if _nodes(row) == _LEFT_OVER else "val_acc"
    score = row.get("metrics", {}).get(name, math.nan)
    if math.isnan(score):
        raise TrialFailedError(f"the run {row.get('id')} has no {name}.")
    return float(score)


def _nodes(row: Mapping[str, Any]) -> str:
    return _LEFT_OVER if row.get("tested_on") == _LEFT_OVER else "stopping nodes"


@contextmanager
def _alone(storage: Path) -> Iterator[None]:
    """Hold the search: a trial that runs in one process looks interrupted to another."""
    lock = FileLock(storage.with_name(f"{storage.name}.lock"), blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"another `pamt tune` is at the search in {storage.parent}: wait for it, or name "
            "another --folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _is_interrupted(trial: Any) -> bool:
    """Whether a trial was broken off: one that failed by itself says why."""
    return trial.state.name == "FAIL" and _REASON not in trial.user_attrs


def _done_again(search: Any) -> set[int]:
    """Numbers of the trials that others have taken the place of."""
    return {trial.user_attrs[_AGAIN] for trial in search.trials if _AGAIN in trial.user_attrs}


def _finished(search: Any) -> list[Any]:
    """The trials that count."""
    out = _done_again(search)
    return [
        trial
        for trial in search.trials
        if trial.state.is_finished() and not _is_interrupted(trial) and trial.number not in out
    ]


def require_optuna() -> Any:
    """The package Optuna, or the error that says how to get it."""
    try:
        import optuna
    except ImportError:
        raise InputError(
            "`pamt tune` needs Optuna, the extra `tune`: in the project's folder, "
            'pip install -c constraints.txt -e ".[tune]".'
        ) from None
    # The pruner is marked as experimental since 2024; users can do nothing about it.
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
