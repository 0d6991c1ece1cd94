"""What a study is (data sets × methods × points × splits × initialisations), read from YAML."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pamt_lightning.data.published.registry import get_spec
from pamt_lightning.errors import InputError, did_you_mean, error_context, require_in
from pamt_lightning.files import read_yaml
from pamt_lightning.methods.registry import (
    DEFAULT,
    config_folder,
    find_config,
    find_method,
    unknown_method,
)
from pamt_lightning.studies.seeds import split_seeds

_DEFAULTS = {
    **{"description": "", "seeds": "test20", "inits": 1},
    **{"sweeps": [], "options": {}, "split_options": []},
}
_KEYS = {*_DEFAULTS, "title", "datasets", "methods", "reference"}
# What the command line may replace.
NARROWING = ("datasets", "methods", "seeds", "inits", "reference")
_SWEEP_KEYS = {"option", "values", "symbol", "reference"}
_FILES = (".yaml", ".yml")

TEST_NODES = "test nodes"
Value = str | int | float | bool | None


class Cell(NamedTuple):
    """What is averaged over: a method on a data set, in a sweep at one value of an option."""

    dataset: str
    method: str
    option: str | None = None
    value: Value = None


@dataclass(frozen=True)
class Sweep:
    """One option that is varied while all others stay as configured.

    Attributes:
        symbol: How it is written in tables and on axes, such as ``α``.
        reference: In a study of one method, the value that others are compared with; or such
            values by data set.
    """

    option: str
    values: tuple[Value, ...]
    symbol: str = ""
    reference: Value | Mapping[str, Value] = None

    def reference_for(self, dataset: str) -> Value:
        """The value that all others are compared with on a data set, or None."""
        if isinstance(self.reference, Mapping):
            return self.reference.get(dataset)
        return self.reference


@dataclass(frozen=True)
class Study:
    """A study.

    Attributes:
        datasets: Data sets by name (`configs/NAME.yaml`), or config files.
        methods: Methods by name (`pamt methods`), or config files that override the data set's.
        reference: The method that all others are compared with.
        options: Options that all runs share, such as ``{"trainer.max_epochs": 500}``.
        split_options: Options whose value is the number of the split (7 for ``test7``, the
            position in the list for a seed without a name), such as ``data.noise_seed``.
        further_references: Methods that all others are compared with in tables of their own.
        narrowed: The command-line options that replace values of the file.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    splits: tuple[str, ...]
    inits: tuple[int, ...] = (0,)
    description: str = ""
    sweeps: tuple[Sweep, ...] = ()
    reference: str = DEFAULT.name
    options: Mapping[str, Value] = field(default_factory=dict)
    split_options: tuple[str, ...] = ()
    further_references: tuple[str, ...] = ()
    source: str = ""
    narrowed: str = ""

    def reference_of(self, cell: Cell) -> Cell:
        """What a cell is compared with; itself if it is a reference."""
        if len(self.methods) > 1:
            return cell._replace(method=self.reference)
        for sweep in self.sweeps:
            if sweep.option == cell.option and sweep.reference_for(cell.dataset) is not None:
                return cell._replace(value=sweep.reference_for(cell.dataset))
        return cell

    def cells(self) -> list[Cell]:
        """All cells of the study, in the order of its file."""
        points: list[tuple[str | None, Value]] = [
            (sweep.option, value) for sweep in self.sweeps for value in sweep.values
        ] or [(None, None)]
        return [
            Cell(dataset, method, option, value)
            for option, value in points
            for dataset in self.datasets
            for method in self.methods
        ]

    def option_names(self) -> set[str]:
        """All options that the study sets."""
        return {*self.options, *self.split_options, *(sweep.option for sweep in self.sweeps)}


@dataclass(frozen=True)
class Outcome:
    """The result of one run, as statistics, tables and figures see it.

    Attributes:
        metrics: By name, accuracies as shares in [0, 1]; empty if it failed.
        error: Why it failed; none if it finished.
        tested_on: The nodes of its test accuracy; other than test nodes with validation seeds.
        chosen: The inference that the method chose by itself; none for other methods.
        views: The weight of each view in the pool of a method that pools; empty for other methods.
        other_version: Whether it was computed under another results version.
    """

    run_id: str
    cell: Cell
    split_seed: str
    init_seed: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    tested_on: str = TEST_NODES
    chosen: str | None = None
    views: Mapping[str, float] = field(default_factory=dict)
    other_version: bool = False


def studies() -> dict[str, Path]:
    """The studies that come with the package, by name."""
    return {file.stem: file for file in sorted((config_folder() / "studies").glob("*.yaml"))}


def read_study(name: str, **typed: Any) -> Study:
    """Read a study by name or file; arguments (`NARROWING`) replace the values of the file."""
    path = _study_file(name)
    content = read_yaml(path, "datasets:, methods: and other keys of a study")
    content = {**_DEFAULTS, "title": path.stem, **content, **typed}
    with error_context(str(path)):
        check_keys(content, _KEYS)
        for key, kind in (("options", dict), ("sweeps", list)):
            if not isinstance(content[key], kind):
                raise InputError(f"`{key}` must be a {kind.__name__}, got {content[key]!r}.")

    def read(key: str, reader: Callable[[Any], Any]) -> Any:
        with error_context(f"--{key}" if key in typed else str(path)):
            return reader(content.get(key))

    def names(key: str, canonical: Callable[[str], str]) -> tuple[str, ...]:
        folder = Path() if key in typed else path.parent
        found: tuple[str, ...] = read(key, lambda value: names_of(key, value, canonical, folder))
        return found

    chosen = names("methods", _method_name)
    wanted = names("reference", _method_name) if "reference" in content else chosen[:1]
    missing = [name for name in wanted if name not in chosen]
    # A reference of the file need not be among the methods of the command line.
    if missing and ("methods" not in typed or "reference" in typed):
        raise InputError(
            f"{'--reference' if 'reference' in typed else path}: `reference` must be one of the "
            f"methods ({', '.join(chosen)}), got {missing[0]!r}."
        )
    references = tuple(name for name in wanted if name in chosen) or chosen[:1]
    if references[0] != wanted[0] and len(chosen) > 1:
        print(
            f"pamt study: note: methods are compared with {references[0]}; {wanted[0]}, the "
            f"reference of {path}, is not among --methods.",
            file=sys.stderr,
        )
    return Study(
        name=path.stem,
        title=str(content["title"]),
        description=" ".join(str(content["description"]).split()),
        datasets=names("datasets", lambda name: get_spec(name).name),
        methods=chosen,
        splits=read("seeds", split_seeds),
        inits=read("inits", init_seeds),
        sweeps=read("sweeps", _sweeps),
        reference=references[0],
        further_references=references[1:],
        options=content["options"],
        split_options=() if content["split_options"] == [] else names("split_options", str),
        source=str(path),
        narrowed=" ".join(
            f"--{key} {','.join(value) if isinstance(value, list) else value}"
            for key, value in typed.items()
        ),
    )


def check_keys(content: Iterable[str], known: set[str]) -> None:
    """Refuse keys that are not known."""
    for key in content:
        if key not in known:
            hint = did_you_mean(key, known)
            raise InputError(f"there is no key {key!r}.{hint} Keys: {', '.join(sorted(known))}.")


def check_once(key: str, values: Sequence[Value]) -> None:
    """Refuse a list that holds a value twice."""
    if len(set(values)) < len(values):
        raise InputError(f"`{key}` must hold each value once, got {', '.join(map(str, values))}.")


def init_seeds(count: Any) -> tuple[int, ...]:
    """The seeds of so many initialisations."""
    require_in("[1, inf)", whole=True, inits=count)
    return tuple(range(count))


def names_of(
    key: str, value: Any, canonical: Callable[[str], str], folder: Path = Path()
) -> tuple[str, ...]:
    """A list of names as the registry spells them, or of config files, here or in ``folder``."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not listed:
        raise InputError(f"`{key}` must be a list of names, got {value!r}.")
    names = tuple(
        _config_file(name, folder) if name.endswith(_FILES) else canonical(name)
        for name in map(str, listed)
    )
    check_once(key, names)
    return names


def _method_name(value: str) -> str:
    method = find_method(value)
    if method is None:
        raise unknown_method(value)
    return method.name


def _config_file(value: str, folder: Path) -> str:
    if not Path(value).is_file() and (folder / value).is_file():
        return str(folder / value)
    find_config(value)  # or the error that lists what there is
    return value


def _study_file(name: str) -> Path:
    known = studies()
    if name in known or name.endswith(_FILES):
        return known.get(name) or find_config(name, "study file")
    raise InputError(
        f"there is no study {name!r}.{did_you_mean(name, known)} Studies: {', '.join(known)}, "
        "or a YAML file of your own."
    )


def _sweeps(value: list[Any]) -> tuple[Sweep, ...]:
    found = tuple(_sweep(each) for each in value)
    check_once("sweeps", [sweep.option for sweep in found])
    return found


def _sweep(value: Any) -> Sweep:
    if not isinstance(value, dict) or not {"option", "values"} <= set(value):
        raise InputError(f"a sweep needs `option` and `values`, got {value!r}.")
    option = str(value["option"])
    with error_context(f"sweep of {option}"):
        check_keys(value, _SWEEP_KEYS)
        values: list[Value] = value["values"]
        if not isinstance(values, list) or not values:
            raise InputError(f"`values` must be a list, got {values!r}.")
        if any(isinstance(each, (list, dict)) for each in values):
            raise InputError(f"`values` must be numbers or words, got {values!r}.")
        check_once("values", values)
        reference = value.get("reference")
        named = reference.values() if isinstance(reference, dict) else [reference]
        if missing := [each for each in named if each is not None and each not in values]:
            raise InputError(f"`reference` must be one of the values, got {missing[0]!r}.")
    return Sweep(option, tuple(values), str(value.get("symbol", "")), reference)
