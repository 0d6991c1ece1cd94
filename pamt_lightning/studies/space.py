"""What `pamt tune` searches: options and their values, and what a choice is scored on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pamt_lightning.errors import InputError, error_context
from pamt_lightning.files import read_yaml
from pamt_lightning.methods.registry import find_config
from pamt_lightning.studies.outcome import Cell, Value
from pamt_lightning.studies.runs import Options, Run, expand_cells
from pamt_lightning.studies.study import Study, check_keys, check_once, dataset_name
from pamt_lightning.training.config import RunConfig

_RANGE_KEYS = {"low", "high", "log", "step"}
_SPACE_KEYS = {"space", "datasets", "conditions", "start"}

Choice = Mapping[str, Value]
# The command line as a function of options that override it and of a data set below it.
Typed = Callable[[Options, str | None], RunConfig]


class Place(NamedTuple):
    """One data set under one condition; without a data set, the data of the command line."""

    dataset: str | None
    condition: Choice

    def label(self) -> str:
        """Its name in tables."""
        options = [f"{name}={value}" for name, value in self.condition.items()]
        return " ".join([self.dataset or "data", *options])

    def configure(self, typed: Typed, options: Options) -> RunConfig:
        """The configuration in this place; ``options`` override the command line."""
        return typed({**self.condition, **options}, self.dataset)


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

    def option_names(self) -> set[str]:
        """All options that the space sets."""
        return {name for part in (self.options, *self.conditions, *self.start) for name in part}

    def places(self) -> list[Place]:
        """Each data set under each condition."""
        datasets: tuple[str | None, ...] = self.datasets or (None,)
        return [Place(dataset, each) for dataset in datasets for each in self.conditions]

    def runs(self, typed: Typed, choice: Choice, study: Study, threads: int = 1) -> list[Run]:
        """The runs that a choice is scored by; their cells are named after the places."""
        places = {place.label(): place for place in self.places()}

        def configure(cell: Cell, more: Options) -> RunConfig:
            return places[cell.dataset].configure(typed, {**choice, **more})

        return expand_cells(study, [Cell(label, "tuned") for label in places], configure, threads)

    def samples(self) -> list[dict[str, Value]]:
        """Few choices that contain every listed value and both ends of every range."""
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
        """The choice of an Optuna trial."""
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
        """A choice as it is tried and written, from the parameters of an Optuna trial."""
        return {
            # Four digits are more than a search can distinguish.
            name: float(f"{params[name]:.4g}")
            if isinstance(params[name], float) and not isinstance(values, list)
            else params[name]
            for name, values in self.options.items()
            if name in params
        }


def read_space(name: str) -> Space:
    """Read a space from a YAML file, here or shipped."""
    path = find_config(name, "space file")
    content = read_yaml(path, "space: and other keys of a search", name)
    with error_context(name):
        check_keys(content, _SPACE_KEYS)
        options = content.get("space")
        if not isinstance(options, dict) or not options:
            raise InputError(f"`space` must map options to their values, got {options!r}.")
        for option, values in options.items():
            with error_context(option):
                _check_values(values)
        start = _list_of("start", content.get("start", []), dict)
        for choice in start:
            _check_start(choice, options)
        conditions = _list_of("conditions", content.get("conditions", [{}]), dict) or [{}]
        given = content.get("datasets", [])
        listed = _list_of("datasets", [given] if isinstance(given, str) else given, str)
        with error_context("`datasets`"):
            datasets = tuple(dataset_name(each, path.parent) for each in listed)
        check_once("datasets", datasets)
    return Space(options, datasets, tuple(conditions), tuple(start))


def _list_of(key: str, value: Any, kind: type[Any]) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
        what = "mappings from options to values" if kind is dict else "names"
        raise InputError(f"`{key}` must be a list of {what}, got {value!r}.")
    return value


def _check_start(choice: Choice, options: Mapping[str, Any]) -> None:
    for option, value in choice.items():
        if option not in options:
            raise InputError(f"`start` may hold options of `space` only, got {choice!r}.")
        values = options[option]
        if isinstance(values, list):
            fits = value in values
        else:
            fits = _is_number(value) and values["low"] <= value <= values["high"]
        if not fits:
            raise InputError(f"`start` has {option} {value!r}, `space` only {values}.")


def _check_values(values: Any) -> None:
    if isinstance(values, list) and values:
        if any(isinstance(value, list | dict) for value in values):
            raise InputError(f"choices must be numbers or words, got {values!r}.")
        return
    if not isinstance(values, dict) or not {"low", "high"} <= set(values) <= _RANGE_KEYS:
        raise InputError(
            "there must be a list of choices or a range such as {low: 0.001, high: 0.1, "
            f"log: true}}, got {values!r}."
        )
    low, high, step = values["low"], values["high"], values.get("step", 1)
    if not all(map(_is_number, (low, high, step))):
        raise InputError(f"`low`, `high` and `step` must be numbers, got {values!r}.")
    if not low < high:
        raise InputError(f"`low` must be below `high`, got {values!r}.")
    if step <= 0:
        raise InputError(f"`step` must be above 0, got {step}.")
    if values.get("log") and (low <= 0 or "step" in values):
        raise InputError(f"`log` needs `low` above 0 and no `step`, got {values!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
