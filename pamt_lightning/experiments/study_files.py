"""Studies as YAML files: read, checked, and changed by what is typed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pamt_lightning.config_layers import load
from pamt_lightning.data.registry import get_spec
from pamt_lightning.errors import InputError
from pamt_lightning.experiments.outcome import Value
from pamt_lightning.experiments.seeds import split_seeds
from pamt_lightning.experiments.study import Study, Sweep
from pamt_lightning.methods import config_folder, find_method, unknown_method

_KEYS = {
    *("title", "description", "datasets", "methods", "seeds", "inits", "sweeps", "reference"),
    *("options", "split_options"),
}
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
    path = Path(name) if name.endswith(_FILES) else studies().get(name)
    if path is None or not path.is_file():
        known = studies()
        close = difflib.get_close_matches(name, known, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(
            f"there is no study {name!r}.{hint} Studies: {', '.join(known)}, or a YAML file of "
            "your own."
        )
    content = load(str(path), path)
    for key in content:
        if key not in _KEYS:
            close = difflib.get_close_matches(str(key), _KEYS, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise InputError(f"{path} has no key {key!r}.{hint} Keys: {', '.join(sorted(_KEYS))}.")
    given = {"datasets": datasets, "methods": methods, "seeds": seeds, "inits": inits}
    content |= {key: value for key, value in given.items() if value is not None}
    try:
        return _study(path.stem, content, reference, others=methods is not None)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _study(name: str, content: Mapping[str, Any], reference: str | None, *, others: bool) -> Study:
    """The study; with ``others`` the methods are not those that the file's reference is from."""
    method_names = _names(content, "methods", method_name)
    asked = reference or content.get("reference", method_names[0])
    asked = asked.split(",") if isinstance(asked, str) else asked
    references = _names({"reference": asked}, "reference", method_name)
    if left := [name for name in references if name not in method_names]:
        if reference is not None or not others:
            raise InputError(
                f"`reference` must be one of the methods ({', '.join(method_names)}), "
                f"got {left[0]!r}."
            )
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
        datasets=_names(content, "datasets", dataset_name),
        methods=method_names,
        splits=split_seeds(content.get("seeds", "test20")),
        inits=tuple(range(check_inits(content.get("inits", 1)))),
        sweeps=swept,
        reference=references[0],
        further_references=references[1:],
        options=options,
        split_options=_names(content, "split_options", str, needed=False),
    )


def check_inits(inits: Any) -> int:
    """How many initialisations there are to be."""
    if isinstance(inits, bool) or not isinstance(inits, int) or inits < 1:
        raise InputError(f"`inits` must be a whole number of at least 1, got {inits!r}.")
    return inits


def dataset_name(value: str) -> str:
    """The name of a data set as the registry writes it, or a config file."""
    if value.endswith(_FILES):
        if not Path(value).is_file():
            raise InputError(f"there is no config file {value}.")
        return value
    return get_spec(value).name


def method_name(value: str) -> str:
    """The name of a method as `pamt methods` writes it, or a config file."""
    if value.endswith(_FILES):
        if not Path(value).is_file():
            raise InputError(f"there is no config file {value}.")
        return value
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
    if unknown := set(value) - {"option", "values", "symbol", "reference"}:
        raise InputError(
            f"a sweep has no key {unknown.pop()!r}: option, values, symbol, reference."
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
