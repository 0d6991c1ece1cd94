"""What a study is (data sets × methods × points × splits × initialisations), read from YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pamt_lightning.data.published.registry import get_spec
from pamt_lightning.errors import InputError, did_you_mean, error_context
from pamt_lightning.files import read_yaml
from pamt_lightning.methods.registry import (
    config_folder,
    find_config,
    find_method,
    unknown_method,
)
from pamt_lightning.studies.outcome import Cell, Value
from pamt_lightning.studies.seeds import split_seeds

_KEYS = {
    *("title", "description", "datasets", "methods", "seeds", "inits", "sweeps", "reference"),
    *("options", "split_options"),
}
_SWEEP_KEYS = {"option", "values", "symbol", "reference"}
_FILES = (".yaml", ".yml")


@dataclass(frozen=True)
class Sweep:
    """One option that is varied while all others stay as configured.

    Attributes:
        option: Its name, such as ``model.alpha``.
        values: The values it takes.
        symbol: How it is written in tables and on axes, such as ``α``.
        reference: In a study of one method, the value that all others are compared with, for all
            data sets or for each by name.
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
        name: Short name; also the name of its folder.
        title: Heading of tables and reports.
        datasets: Data sets by name (`configs/NAME.yaml`), or config files.
        methods: Methods by name (`pamt methods`), or config files that override the data set's.
        splits: Split seeds: names of published seeds, or numbers.
        inits: Seeds of initialisation.
        description: What it is for, in a few sentences.
        sweeps: Options to vary, one at a time; none gives one table.
        reference: The method that all others are compared with.
        options: Options that all runs share, such as ``{"trainer.max_epochs": 500}``.
        split_options: Options whose value is the number of the split (7 for ``test7``, the
            position in the list for a seed without a name), such as ``data.noise_seed``.
        further_references: Methods that all others are compared with in tables of their own.
        source: The file it was read from, if any.
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
    reference: str = "PAMT"
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


def studies() -> dict[str, Path]:
    """The studies that come with the package, by name."""
    return {file.stem: file for file in sorted((config_folder() / "studies").glob("*.yaml"))}


def read_study(
    name: str,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: str | None = None,
    inits: int | None = None,
    reference: str | None = None,
) -> Study:
    """Read a study by name or file; arguments replace the values of the file."""
    path = _study_file(name)
    content = read_yaml(path, "datasets:, methods: and other keys of a study")
    with error_context(str(path)):
        check_keys(content, _KEYS)
    given = {
        **{"datasets": datasets, "methods": methods, "seeds": seeds, "inits": inits},
        "reference": reference,
    }
    typed = {key: value for key, value in given.items() if value is not None}
    content = {**content, **typed}

    def read(key: str, parse: Callable[[Any, Path], Any], default: Any = None) -> Any:
        with error_context(f"--{key}" if key in typed else str(path)):
            return parse(content.get(key, default), Path() if key in typed else path.parent)

    chosen: tuple[str, ...] = read("methods", _methods)
    # A reference of the file need not be among the methods of the command line.
    allowed = () if "methods" in typed and reference is None else chosen
    references: tuple[str, ...] = read(
        "reference", lambda value, folder: _references(value, allowed, folder), chosen[0]
    )
    references = tuple(each for each in references if each in chosen) or chosen[:1]
    sweeps = read("sweeps", lambda value, _: _sweeps(value), [])
    return Study(
        name=path.stem,
        title=str(content.get("title", path.stem)),
        description=" ".join(str(content.get("description", "")).split()),
        datasets=read("datasets", _datasets),
        methods=chosen,
        splits=read("seeds", lambda value, _: split_seeds(value), "test20"),
        inits=read("inits", lambda value, _: init_seeds(value), 1),
        sweeps=sweeps,
        reference=references[0],
        further_references=references[1:],
        options=read("options", lambda value, _: _options(value), {}),
        split_options=read("split_options", lambda value, _: _split_options(value), []),
        source=str(path),
        narrowed=" ".join(f"--{key} {_as_typed(value)}" for key, value in typed.items()),
    )


def check_keys(content: Iterable[str], known: set[str], what: str = "") -> None:
    """Refuse keys that are not known."""
    for key in content:
        if key not in known:
            hint = did_you_mean(key, known)
            raise InputError(
                f"{what}there is no key {key!r}.{hint} Keys: {', '.join(sorted(known))}."
            )


def check_once(key: str, values: Sequence[Value]) -> None:
    """Refuse a list that holds a value twice."""
    if len(set(values)) < len(values):
        raise InputError(f"`{key}` must hold each value once, got {', '.join(map(str, values))}.")


def init_seeds(count: Any) -> tuple[int, ...]:
    """The seeds of so many initialisations."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"`inits` must be a whole number of at least 1, got {count!r}.")
    return tuple(range(count))


def dataset_name(value: str, folder: Path = Path()) -> str:
    """The name of a data set as in the registry, or a config file, here or in ``folder``."""
    return _config_file(value, folder) if value.endswith(_FILES) else get_spec(value).name


def method_name(value: str, folder: Path = Path()) -> str:
    """The name of a method as in the registry, or a config file, here or in ``folder``."""
    if value.endswith(_FILES):
        return _config_file(value, folder)
    method = find_method(value)
    if method is None:
        raise unknown_method(value)
    return method.name


def _config_file(value: str, folder: Path) -> str:
    for path in (Path(value), folder / value):
        if path.is_file():
            return value if path == Path(value) else str(path)
    find_config(value)  # one of the package, or the error that lists what there is
    return value


def _study_file(name: str) -> Path:
    if name.endswith(_FILES):
        if not Path(name).is_file():
            others = [str(file) for file in Path(name).parent.glob("*.y*ml")]
            raise InputError(f"there is no study file {name}.{did_you_mean(name, others)}")
        return Path(name)
    known = studies()
    if name not in known:
        raise InputError(
            f"there is no study {name!r}.{did_you_mean(name, known)} Studies: {', '.join(known)}, "
            "or a YAML file of your own."
        )
    return known[name]


def _as_typed(value: object) -> str:
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


# The keys of a file ------------------------------------------------------------------------------


def _datasets(value: Any, folder: Path) -> tuple[str, ...]:
    return _names("datasets", value, lambda name: dataset_name(name, folder))


def _methods(value: Any, folder: Path) -> tuple[str, ...]:
    return _names("methods", value, lambda name: method_name(name, folder))


def _references(value: Any, methods: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The methods that others are compared with; each one of ``methods`` unless that is empty."""
    listed = value.split(",") if isinstance(value, str) else value
    found = _names("reference", listed, lambda name: method_name(name, folder))
    if methods and (missing := [name for name in found if name not in methods]):
        raise InputError(
            f"`reference` must be one of the methods ({', '.join(methods)}), got {missing[0]!r}."
        )
    return found


def _options(value: Any) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise InputError(f"`options` must map options to values, got {value!r}.")
    return value


def _split_options(value: Any) -> tuple[str, ...]:
    return _names("split_options", value, str) if value != [] else ()


def _names(key: str, value: Any, canonical: Callable[[str], str]) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not listed:
        raise InputError(f"`{key}` must be a list of names, got {value!r}.")
    names = tuple(canonical(str(name)) for name in listed)
    check_once(key, names)
    return names


def _sweeps(value: Any) -> tuple[Sweep, ...]:
    if not isinstance(value, list):
        raise InputError(f"`sweeps` must be a list, got {value!r}.")
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
