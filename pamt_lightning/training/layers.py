"""Config files, combined. Nothing here imports torch, so that wrong names are reported at once.

Later files override earlier ones. ``--model NAME`` decides the class of the model wherever it
stands, and without it the last file that names one; model values meant for another class are
left out. The file of a method lies below all others, since it holds its values for single data
sets; that of a variant of PAMT lies above them. Command-line options override all files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pamt_lightning.data.published.registry import DEFAULT_DATASET, get_spec
from pamt_lightning.errors import InputError, did_you_mean, error_context
from pamt_lightning.files import read_yaml
from pamt_lightning.methods.registry import (
    DEFAULT,
    Method,
    find_config,
    find_method,
    method_of_class,
    unknown_method,
)

BY_DATASET = "by_dataset"
SECTIONS = ("data", "model", "stopping", "trainer", "seed_everything", "test_after_fit", "run_dir")
_ENDINGS = (".yaml", ".yml", ".json")


def find_model(text: str) -> Method:
    """A method by name, or a class by its path.

    >>> find_model("pamt-0").name, find_model("my_package.MyModule").name
    ('PAMT_0', 'My')
    """
    method = find_method(text) or method_of_class(text)
    if method is not None:
        return method
    if text.endswith(_ENDINGS):
        raise InputError(f"{text} is a file, not a method; config files go to --config.")
    if "." not in text:
        raise unknown_method(text)
    return Method(text.rpartition(".")[2].removesuffix("Module"), text, "not of this package")


@dataclass
class Layer:
    """Sections of a configuration."""

    source: str  # the file, for messages
    content: dict[str, Any]  # `model` holds the arguments of the class
    model: Method | None = None  # that `content` is for; none if it is for any
    below: Layer | None = None  # the method's own file, if it is named as a whole: `model: GAT`
    by_dataset: dict[str, Layer] = field(default_factory=dict)

    def parts(self, dataset: str | None) -> list[Layer]:
        """The method's file, the layer itself, and what it holds for the data set."""
        below = self.below.parts(dataset) if self.below else []
        above = self.by_dataset.get(dataset or "")
        return [*below, self, *(above.parts(dataset) if above else [])]


@dataclass(frozen=True)
class Resolved:
    """The result of combining config files and the chosen model."""

    model: Method
    layers: tuple[Layer, ...] = ()  # the last one wins
    notes: tuple[str, ...] = ()  # what the user wrote and does not get

    def merged(self) -> dict[str, Any]:
        """All sections; ``model`` holds the arguments of the class."""
        content: dict[str, Any] = {}
        for layer in self.layers:
            merge(content, layer.content)
        return content


def resolve(
    files: Sequence[str],
    model: str | None = None,
    data: Mapping[str, Any] | None = None,
    base: Layer | None = None,
) -> Resolved:
    """Combine config files, below them ``base``: what a checkpoint was trained with.

    ``model`` and ``data`` are what the command line chooses.
    """
    chosen = None if model is None else find_model(model)
    given = [read_layer(file) for file in files]
    layers = [*([base] if base else []), *given]
    if chosen and chosen.file:
        place = len(layers) if chosen.is_variant else 0
        layers.insert(place, read_layer(str(chosen.file)))
    dataset = _dataset_in_use([*(layer.content.get("data", {}) for layer in layers), data or {}])
    parts = [part for layer in layers for part in layer.parts(dataset)]
    named = [(part.source, part.model) for part in parts if part.model]
    source, decided = named[-1] if named else ("", DEFAULT)
    if chosen:
        source, decided = f"--model {model}", chosen
    if base and base.model and base.model.class_path != decided.class_path:
        raise InputError(
            f"{source} asks for {decided.name}, the checkpoint is of {base.model.name}: leave that "
            "out, or name another checkpoint."
        )
    for part in parts:
        if part.model and part.model.class_path != decided.class_path:
            part.content.pop("model", None)
    why = f"--model {decided.name}" if chosen else f"a later file names {decided.name}"
    used = (decided.class_path, DEFAULT.class_path)  # values of the default method need no note
    notes = [
        f"the model section of {layer.source} is not used: {why}."
        for layer in given
        if layer.model and layer.model.class_path not in used
    ]
    return Resolved(decided, tuple(parts), tuple(notes))


def read_layer(name: str) -> Layer:
    """The layer of a config file."""
    return make_layer(name, read_yaml(find_config(name), "sections such as data: and model:", name))


def make_layer(source: str, content: Mapping[str, Any]) -> Layer:
    """A checked layer from the sections of a file or a checkpoint."""
    sections = dict(content)
    by_dataset = sections.pop(BY_DATASET, {})
    layer = _checked(source, sections)
    if not isinstance(by_dataset, dict):
        raise InputError(f"{source}: {BY_DATASET} must map data sets to sections: {by_dataset!r}.")
    for key, part in by_dataset.items():
        where = f"{source}: {BY_DATASET}.{key}"
        with error_context(where):
            name = get_spec(str(key)).name
        if not isinstance(part, dict):
            raise InputError(f"{where} must hold sections such as model:, got {part!r}.")
        inner = layer.by_dataset[name] = _checked(where, part)
        if {"dataset", "path"} & inner.content.get("data", {}).keys():
            raise InputError(f"{where} cannot choose other data.")
        inner.model = inner.model or layer.model
    return layer


def _checked(source: str, sections: Mapping[str, Any]) -> Layer:
    for key, value in sections.items():
        if key == "ckpt_path":
            raise InputError(f"{source}: `ckpt_path` belongs on the command line.")
        if key not in SECTIONS:
            hint = did_you_mean(key, SECTIONS)
            known = ", ".join((*SECTIONS, BY_DATASET))
            raise InputError(f"{source} has no section {key!r} (known: {known}).{hint}")
        if key in ("data", "stopping", "trainer") and not isinstance(value, dict):
            raise InputError(f"{source}: {key} must hold options, got {value!r}.")
    layer = Layer(source, dict(sections))
    section = layer.content.pop("model", None)
    if section is None:
        return layer
    is_whole = isinstance(section, str)
    section = {"class_path": section} if is_whole else section
    if not isinstance(section, dict) or section.keys() - {"class_path", "init_args"}:
        raise InputError(
            f"{source}: model must be a method's name, or hold class_path and init_args, "
            f"got {section!r}."
        )
    if named := section.get("class_path"):
        with error_context(source):
            layer.model = find_model(str(named))
        if is_whole and layer.model.file:
            layer.below = read_layer(str(layer.model.file))
    layer.content["model"] = dict(section.get("init_args") or {})
    return layer


def _dataset_in_use(sections: Sequence[Mapping[str, Any]]) -> str | None:
    """The data set that the data sections select; none for the user's own graph."""
    choice = dict(item for section in sections for item in section.items())
    if choice.get("path") is not None:
        return None
    return get_spec(str(choice.get("dataset") or DEFAULT_DATASET)).name


def merge(content: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Put values over others in place; mappings are merged, all else is replaced."""
    for key, value in over.items():
        if isinstance(value, Mapping) and "class_path" not in value:
            inner = content.get(key)
            content[key] = dict(inner) if isinstance(inner, Mapping) else {}
            merge(content[key], value)
        else:
            content[key] = deepcopy(value)


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with dotted names as sections.

    >>> nested({"data.train": 5, "data.synthetic.seed": 1, "seed_everything": 0})
    {'data': {'train': 5, 'synthetic': {'seed': 1}}, 'seed_everything': 0}
    """
    content: dict[str, Any] = {}
    for name, value in options.items():
        *sections, last = name.split(".")
        place = content
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return content


def dataset_file(dataset: str) -> str:
    """The config file of a data set by name, or the file itself."""
    return dataset if Path(dataset).suffix in _ENDINGS else f"configs/{get_spec(dataset).name}.yaml"
