"""What `pamt tune` searches: options and their values, and what a choice is scored on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from pamt_lightning.data.published.registry import get_spec
from pamt_lightning.errors import InputError, error_context
from pamt_lightning.files import read_yaml
from pamt_lightning.methods.registry import find_config
from pamt_lightning.studies.runs import Options, Run, expand_cells
from pamt_lightning.studies.study import Cell, Study, Value, check_keys, names_of
from pamt_lightning.training.config import RunConfig

_RANGE_KEYS = {"low", "high", "log", "step"}
_SPACE_KEYS = {"space", "datasets", "conditions", "start"}

Choice = Mapping[str, Value]
# The command line as a function of options that override it and of a data set below it.
Typed = Callable[[Options, str | None], RunConfig]


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


@dataclass(frozen=True)
class Space:
    """What is searched, and on what it is scored.

    Attributes:
        options: By option, a list of choices or a range (``low``, ``high``, ``log``, ``step``).
        datasets: Those that one choice is to serve; none leaves that to the command line.
        conditions: Options under each of which every data set is scored, such as noise.
        start: Choices to try first.
    """

    options: Mapping[str, list[Value] | dict[str, float | bool]]
    datasets: tuple[str, ...] = ()
    conditions: tuple[Choice, ...] = ({},)
    start: tuple[Choice, ...] = ()

    def option_names(self) -> set[str]:
        """All options that the space sets."""
        return {name for part in (self.options, *self.conditions, *self.start) for name in part}

    def places(self) -> dict[str, tuple[str | None, Choice]]:
        """Each data set under each condition, by its name in tables."""
        found: dict[str, tuple[str | None, Choice]] = {}
        for dataset, condition in product(self.datasets or (None,), self.conditions):
            options = [f"{name}={value}" for name, value in condition.items()]
            found[" ".join([dataset or "data", *options])] = dataset, condition
        return found

    def runs(self, typed: Typed, choice: Choice, study: Study, threads: int = 1) -> list[Run]:
        """The runs that a choice is scored by; their cells are named after the places."""
        places = self.places()

        def configure(cell: Cell, more: Options) -> RunConfig:
            dataset, condition = places[cell.dataset]
            return typed({**condition, **choice, **more}, dataset)

        return expand_cells(study, [Cell(name, "tuned") for name in places], configure, threads)

    def samples(self) -> list[dict[str, Value]]:
        """Few choices that contain every listed value and both ends of every range."""
        ends = {
            name: values if isinstance(values, list) else [values["low"], values["high"]]
            for name, values in self.options.items()
        }
        return [
            {name: values[min(number, len(values) - 1)] for name, values in ends.items()}
            for number in range(max(map(len, ends.values())))
        ]

    def distributions(self) -> dict[str, Any]:
        """The options as Optuna takes them."""
        return {name: _distribution(values) for name, values in self.options.items()}

    def choice(self, params: Choice) -> dict[str, Value]:
        """A choice as it is tried and written, from the parameters of an Optuna trial."""
        found = {name: params[name] for name in self.options if name in params}
        for name, value in found.items():
            if isinstance(value, float) and not isinstance(self.options[name], list):
                found[name] = float(f"{value:.4g}")  # more than a search can distinguish
        return found


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
                _distribution(values)
        start = _choices("start", content.get("start", []))
        for choice in start:
            _check_start(choice, options)
        conditions = _choices("conditions", content.get("conditions", [{}])) or ({},)
        datasets: tuple[str, ...] = ()
        if (listed := content.get("datasets", [])) != []:
            datasets = names_of("datasets", listed, lambda each: get_spec(each).name, path.parent)
    return Space(options, datasets, conditions, start)


def _choices(key: str, value: Any) -> tuple[Choice, ...]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InputError(f"`{key}` must be a list of mappings from options to values: {value!r}.")
    return tuple(value)


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


def _distribution(values: Any) -> Any:
    """The values of an option as Optuna takes them; it checks ranges."""
    kinds = require_optuna().distributions
    if isinstance(values, list) and values:
        if any(isinstance(value, list | dict) for value in values):
            raise InputError(f"choices must be numbers or strings, got {values!r}.")
        return kinds.CategoricalDistribution(values)
    if not isinstance(values, dict) or not {"low", "high"} <= set(values) <= _RANGE_KEYS:
        raise InputError(
            "there must be a list of choices or a range such as {low: 0.001, high: 0.1, "
            f"log: true}}, got {values!r}."
        )
    low, high, step = values["low"], values["high"], values.get("step", 1)
    if not all(map(_is_number, (low, high, step))):
        raise InputError(f"`low`, `high` and `step` must be numbers, got {values!r}.")
    whole = all(isinstance(each, int) for each in (low, high, step))
    try:
        return (kinds.IntDistribution if whole else kinds.FloatDistribution)(**values)
    except ValueError as error:
        raise InputError(str(error)) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
