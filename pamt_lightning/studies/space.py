"""What `pamt tune` searches: options and their values, and what a choice is scored on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pamt_lightning.cli.config_layers import find_config, load
from pamt_lightning.errors import InputError
from pamt_lightning.spelling import did_you_mean
from pamt_lightning.studies.expand import Configure, Run, config_file, expand_cells, option_args
from pamt_lightning.studies.outcome import Cell, Value
from pamt_lightning.studies.study import Study
from pamt_lightning.studies.study_files import dataset_name

_RANGE_KEYS = {"low", "high", "log", "step"}
_SPACE_KEYS = {"space", "datasets", "conditions", "start"}

Choice = Mapping[str, Value]


class Place(NamedTuple):
    """One data set under one condition; no data set is the one that is typed."""

    dataset: str | None
    condition: Choice

    def label(self) -> str:
        """How it is called at the head of a column."""
        options = [f"{name}={value}" for name, value in self.condition.items()]
        return " ".join([self.dataset or "typed data", *options])


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
    conditions: tuple[Choice, ...] = ({},)
    start: tuple[Choice, ...] = ()

    def named(self) -> set[str]:
        """All options that the file names."""
        return {name for part in (self.options, *self.conditions, *self.start) for name in part}

    def places(self) -> list[Place]:
        """Each data set under each condition."""
        datasets: tuple[str | None, ...] = self.datasets or (None,)
        return [Place(dataset, each) for dataset in datasets for each in self.conditions]

    def args(self, place: Place, typed: Sequence[str], choice: Choice) -> list[str]:
        """What would be typed after `pamt fit` for a choice in one place, but for the seeds."""
        data = [] if place.dataset is None else ["--config", config_file(place.dataset)]
        return [*data, *typed, *option_args(place.condition), *option_args(choice)]

    def runs(
        self,
        typed: Sequence[str],
        choice: Choice,
        study: Study,
        configure: Configure,
        threads: int = 1,
    ) -> list[Run]:
        """The runs that a choice is scored by."""
        cells = [
            (Cell(place.dataset or "the typed data", "the method"), self.args(place, typed, choice))
            for place in self.places()
        ]
        return expand_cells(cells, study, configure, threads)

    def samples(self) -> list[dict[str, Value]]:
        """Few choices in which every listed value and both ends of every range occur."""
        ends = {
            name: values if isinstance(values, list) else [values["low"], values["high"]]
            for name, values in self.options.items()
        }
        most = max(len(values) for values in ends.values())
        return [
            {name: values[min(number, len(values) - 1)] for name, values in ends.items()}
            for number in range(most)
        ]

    def suggest(self, trial: Any) -> dict[str, Value]:
        """The choice that an Optuna trial makes."""
        for name, values in self.options.items():
            if isinstance(values, list):
                trial.suggest_categorical(name, values)
                continue
            low, high, step = values["low"], values["high"], values.get("step")
            log = bool(values.get("log", False))
            if isinstance(low, int) and isinstance(high, int):
                trial.suggest_int(name, low, high, step=step or 1, log=log)
            else:
                trial.suggest_float(name, low, high, step=step, log=log)
        return self.choice(trial.params)

    def choice(self, params: Choice) -> dict[str, Value]:
        """A choice as it is tried and written down, from what Optuna keeps of it."""
        return {
            # Four digits are more than a search can tell apart, and can be read and typed.
            name: float(f"{params[name]:.4g}")
            if isinstance(params[name], float) and not isinstance(values, list)
            else params[name]
            for name, values in self.options.items()
            if name in params
        }


def read_space(name: str) -> Space:
    """A space from its YAML file, here or shipped."""
    path = find_config(name, "space file")
    content = load(name, path, "what is searched: space: and more")
    if unknown := set(content) - _SPACE_KEYS:
        key, keys = unknown.pop(), ", ".join(sorted(_SPACE_KEYS))
        raise InputError(
            f"{name} has no key {key!r}.{did_you_mean(key, _SPACE_KEYS)} Keys: {keys}."
        )
    options = content.get("space")
    if not isinstance(options, dict) or not options:
        raise InputError(
            f"{name}: `space` must hold options and what they may be, got {options!r}."
        )
    for option, values in options.items():
        _check_choices(f"{name}: {option}", values)
    start = _list_of(name, content, "start", dict)
    for choice in start:
        _check_start(name, choice, options)
    conditions = _list_of(name, content, "conditions", dict) or [{}]
    given = content.get("datasets", [])
    listed = _list_of(name, {"datasets": [given] if isinstance(given, str) else given}, "datasets")
    try:
        datasets = tuple(dataset_name(each, path.parent) for each in listed)
    except InputError as error:
        raise InputError(f"{name}: `datasets`: {error}") from None
    if len(set(datasets)) < len(datasets):
        raise InputError(f"{name}: `datasets` must name each once, got {', '.join(datasets)}.")
    return Space(options, datasets, tuple(conditions), tuple(start))


def _list_of(name: str, content: Mapping[str, Any], key: str, kind: type[Any] = str) -> list[Any]:
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
        of = "options and their values" if kind is dict else "names"
        raise InputError(f"{name}: `{key}` must be a list of {of}, got {value!r}.")
    return value


def _check_start(name: str, choice: Choice, options: Mapping[str, Any]) -> None:
    for option, value in choice.items():
        if option not in options:
            raise InputError(f"{name}: `start` may hold options of `space` only, got {choice!r}.")
        values = options[option]
        if isinstance(values, list):
            fits = value in values
        else:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            fits = is_number and values["low"] <= value <= values["high"]
        if not fits:
            raise InputError(f"{name}: `start` has {option} {value!r}, `space` only {values}.")


def _check_choices(where: str, values: Any) -> None:
    if isinstance(values, list) and values:
        if any(isinstance(value, list | dict) for value in values):
            raise InputError(f"{where}: choices must be numbers or words, got {values!r}.")
        return
    if not isinstance(values, dict) or not {"low", "high"} <= set(values) <= _RANGE_KEYS:
        raise InputError(
            f"{where} must be a list of choices or a range such as {{low: 0.001, high: 0.1, "
            f"log: true}}, got {values!r}."
        )
    low, high, step = values["low"], values["high"], values.get("step", 1)
    numbers = [low, high, step] if "step" in values else [low, high]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise InputError(f"{where}: `low`, `high` and `step` must be numbers, got {numbers}.")
    if not low < high:
        raise InputError(f"{where}: `low` must be below `high`, got {[low, high]}.")
    if step <= 0:
        raise InputError(f"{where}: `step` must be above 0, got {step}.")
    if values.get("log") and (low <= 0 or "step" in values):
        raise InputError(f"{where}: `log` needs `low` above 0 and no `step`, got {values!r}.")
