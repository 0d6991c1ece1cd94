"""Studies as YAML files: read, checked, and changed by what is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pamt_lightning.cli.config_layers import find_config, load
from pamt_lightning.data.published.registry import get_spec
from pamt_lightning.errors import InputError
from pamt_lightning.methods.registry import config_folder, find_method, unknown_method
from pamt_lightning.spelling import did_you_mean
from pamt_lightning.studies.outcome import Value
from pamt_lightning.studies.seeds import split_seeds
from pamt_lightning.studies.study import Study, Sweep

_KEYS = {
    *("title", "description", "datasets", "methods", "seeds", "inits", "sweeps", "reference"),
    *("options", "split_options"),
}
_SWEEP_KEYS = {"option", "values", "symbol", "reference"}
_FILES = (".yaml", ".yml")


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
    """A study by name or file; what is given besides takes the place of what the file says."""
    path = _study_file(name)
    content = load(str(path), path, "what the study consists of: datasets:, methods: and more")
    for key in content:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS)
            raise InputError(f"{path} has no key {key!r}.{hint} Keys: {', '.join(sorted(_KEYS))}.")
    given = {"datasets": datasets, "methods": methods, "seeds": seeds, "inits": inits}
    typed = {key: value for key, value in given.items() if value is not None}
    for key, value in typed.items():
        with told_of(f"--{key}"):
            _CHECKS[key]({key: value}, Path())
    with told_of(str(path)):
        study = _study(path.stem, content | typed, path.parent, others=methods is not None)
    if reference is not None:
        with told_of("--reference"):
            first, *further = _references(reference, study.methods, Path())
        study = replace(study, reference=first, further_references=tuple(further))
    said = [(key, value) for key, value in (*typed.items(), ("reference", reference)) if value]
    return replace(study, source=str(path), narrowed=" ".join(_typed(*each) for each in said))


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


@contextmanager
def told_of(source: str) -> Iterator[None]:
    """Lead errors with the file or option that they are about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _typed(key: str, value: object) -> str:
    return f"--{key} {','.join(value) if isinstance(value, (list, tuple)) else value}"


def _study(name: str, content: Mapping[str, Any], folder: Path, *, others: bool) -> Study:
    """The study; with ``others`` the methods are not those that the file's reference is from."""
    method_names = _methods(content, folder)
    asked = content.get("reference", method_names[0])
    references = _references(asked, () if others else method_names, folder)
    references = tuple(name for name in references if name in method_names) or method_names[:1]
    options = content.get("options", {})
    if not isinstance(options, dict):
        raise InputError(f"`options` must hold options and their values, got {options!r}.")
    sweeps = content.get("sweeps", [])
    if not isinstance(sweeps, list):
        raise InputError(f"`sweeps` must be a list, got {sweeps!r}.")
    swept = tuple(_sweep(value) for value in sweeps)
    _check_once("sweeps", [sweep.option for sweep in swept])
    return Study(
        name=name,
        title=str(content.get("title", name)),
        description=" ".join(str(content.get("description", "")).split()),
        datasets=_datasets(content, folder),
        methods=method_names,
        splits=_splits(content, folder),
        inits=_inits(content, folder),
        sweeps=swept,
        reference=references[0],
        further_references=references[1:],
        options=options,
        split_options=_names(content, "split_options", str, needed=False),
    )


# Each key of a file by itself, so that a typed value is checked as one and not as the file's.


def _datasets(content: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    return _names(content, "datasets", lambda name: dataset_name(name, folder))


def _methods(content: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    return _names(content, "methods", lambda name: method_name(name, folder))


def _splits(content: Mapping[str, Any], _: Path) -> tuple[str, ...]:
    return split_seeds(content.get("seeds", "test20"))


def _inits(content: Mapping[str, Any], _: Path) -> tuple[int, ...]:
    return tuple(range(check_inits(content.get("inits", 1))))


_CHECKS = {"datasets": _datasets, "methods": _methods, "seeds": _splits, "inits": _inits}


def _references(asked: Any, methods: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The methods that others are compared with: some of ``methods``, if there are any."""
    asked = asked.split(",") if isinstance(asked, str) else asked
    found = _names({"reference": asked}, "reference", lambda name: method_name(name, folder))
    if methods and (left := [name for name in found if name not in methods]):
        raise InputError(
            f"`reference` must be one of the methods ({', '.join(methods)}), got {left[0]!r}."
        )
    return found


def check_inits(inits: Any) -> int:
    """How many initialisations there are to be."""
    if isinstance(inits, bool) or not isinstance(inits, int) or inits < 1:
        raise InputError(f"`inits` must be a whole number of at least 1, got {inits!r}.")
    return inits


def dataset_name(value: str, folder: Path = Path()) -> str:
    """The name of a data set as the registry writes it, or a config file, here or in a folder."""
    return _config_beside(value, folder) if value.endswith(_FILES) else get_spec(value).name


def _config_beside(value: str, folder: Path) -> str:
    """A config file from where we are, else from the folder of the file that names it."""
    for path in (Path(value), folder / value):
        if path.is_file():
            return value if path == Path(value) else str(path)
    find_config(value)  # shipped, or the error that lists what there is
    return value


def method_name(value: str, folder: Path = Path()) -> str:
    """The name of a method as `pamt methods` writes it, or a config file, here or in a folder."""
    if value.endswith(_FILES):
        return _config_beside(value, folder)
    method = find_method(value)
    if method is None:
        raise unknown_method(value)
    return method.name


def _names(
    content: Mapping[str, Any], key: str, spelled: Callable[[str], str], needed: bool = True
) -> tuple[str, ...]:
    value = content.get(key, [])
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, (list, tuple)) or (needed and not found):
        raise InputError(f"`{key}` must be a list of names, got {value!r}.")
    names = tuple(spelled(str(name)) for name in found)
    _check_once(key, names)
    return names


def _check_once(key: str, names: Sequence[Value]) -> None:
    if len(set(names)) < len(names):
        raise InputError(f"`{key}` must name each once, got {', '.join(map(str, names))}.")


def _sweep(value: Any) -> Sweep:
    if not isinstance(value, dict) or not {"option", "values"} <= set(value):
        raise InputError(f"a sweep needs `option` and `values`, got {value!r}.")
    if unknown := set(value) - _SWEEP_KEYS:
        name = unknown.pop()
        hint = did_you_mean(name, _SWEEP_KEYS)
        raise InputError(
            f"a sweep has no key {name!r}.{hint} Keys: {', '.join(sorted(_SWEEP_KEYS))}."
        )
    values: list[Value] = value["values"]
    if not isinstance(values, list) or not values:
        raise InputError(f"`values` of the sweep of {value['option']} must be a list.")
    if any(isinstance(each, (list, dict)) for each in values):
        raise InputError(f"`values` of the sweep of {value['option']} must be numbers or words.")
    _check_once(f"values` of the sweep of `{value['option']}", values)
    reference = value.get("reference")
    named = reference.values() if isinstance(reference, dict) else [reference]
    if left := [each for each in named if each is not None and each not in values]:
        raise InputError(
            f"`reference` of the sweep of {value['option']} must be one of its values, "
            f"got {left[0]!r}."
        )
    return Sweep(str(value["option"]), tuple(values), str(value.get("symbol", "")), reference)
