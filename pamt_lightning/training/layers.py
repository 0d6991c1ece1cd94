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

from pamt_lightning.data.published.registry import get_spec
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
_HOLDS = "sections such as data: and model:"
_ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class ModelName:
    """The model that a file or an option names.

    Attributes:
        name: The name of the method in results.
        class_path: Its class.
        method: Its entry in the registry; none for a class from elsewhere.
    """

    name: str
    class_path: str
    method: Method | None

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """A method by name, or a class by its path.

        >>> ModelName.parse("pamt-0").name, ModelName.parse("my_package.MyModule").name
        ('PAMT_0', 'My')
        """
        method = find_method(text) or method_of_class(text)
        if method is not None:
            return cls(method.name, method.class_path, method)
        if text.endswith(_ENDINGS):
            raise InputError(f"{text} is a file, not a method; config files go to --config.")
        if "." not in text:
            raise unknown_method(text)
        return cls(text.rpartition(".")[2].removesuffix("Module"), text, None)


@dataclass
class Layer:
    """Sections of a configuration; ``model`` holds the arguments of the class.

    Attributes:
        source: The file, for messages.
        content: The sections, without ``by_dataset``.
        model: The model that the sections are for; none if they are for any.
        is_named: Whether this very layer names the model.
        with_file: Whether it names the model as a whole (``model: GAT``), file included.
        by_dataset: Sections for single data sets.
    """

    source: str
    content: dict[str, Any]
    model: ModelName | None = None
    is_named: bool = False
    with_file: bool = False
    by_dataset: dict[str, Layer] = field(default_factory=dict)


@dataclass(frozen=True)
class Resolved:
    """The result of combining config files and the chosen model.

    Attributes:
        model: The model.
        layers: The files in the order in which they override each other, the last one wins.
        notes: What the user wrote and does not get.
    """

    model: ModelName
    layers: tuple[Layer, ...]
    notes: tuple[str, ...] = ()

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
    """Combine config files.

    Args:
        files: Config files; ``configs/…`` means a shipped one if there is none here.
        model: The model that was chosen on the command line.
        data: ``dataset`` or ``path`` from the command line.
        base: What a checkpoint was trained with; it lies below the files.
    """
    chosen = None if model is None else ModelName.parse(model)
    given = [read_layer(file) for file in files]
    below: list[Layer] = []
    above: list[Layer] = []
    if chosen is not None and chosen.method is not None and chosen.method.file is not None:
        file = read_layer(str(chosen.method.file))
        (above if chosen.method.is_variant else below).append(file)
    layers = [*below, *([base] if base else []), *given, *above]
    dataset = _dataset_in_use([*layers, Layer("", {"data": dict(data or {})})])
    parts = [part for layer in layers for part in _expand(layer, dataset)]
    named = [(part.source, part.model) for part in parts if part.is_named and part.model]
    source, decided = named[-1] if named else ("", ModelName.parse(DEFAULT.name))
    if chosen is not None:
        source, decided = f"--model {model}", chosen
    if base is not None and base.model and base.model.class_path != decided.class_path:
        raise InputError(
            f"{source} asks for {decided.name}, the checkpoint is of {base.model.name}: leave that "
            "out, or name another checkpoint."
        )
    notes = _keep_one_model(parts, decided, chosen is not None)
    return Resolved(decided, tuple(parts), tuple(notes))


def read_layer(name: str) -> Layer:
    """The layer of a config file."""
    path = find_config(name)
    content = read_yaml(path, _HOLDS, name)
    by_dataset = content.get(BY_DATASET)
    parts = by_dataset.values() if isinstance(by_dataset, dict) else ()
    for sections in (content, *(part for part in parts if isinstance(part, dict))):
        for key, value in sections.items():
            if isinstance(value, str) and value.endswith(_ENDINGS):
                with error_context(f"{name}: {key}"):  # a section in its own file
                    sections[key] = read_yaml(path.parent / value, "the options of a section")
    return make_layer(name, content)


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
        layer.by_dataset[name] = _checked(where, part)
        if {"dataset", "path"} & set(layer.by_dataset[name].content.get("data", {})):
            raise InputError(f"{where} cannot choose other data.")
        layer.by_dataset[name].model = layer.by_dataset[name].model or layer.model
    return layer


def _checked(source: str, sections: Mapping[str, Any]) -> Layer:
    for key in sections:
        if key == "ckpt_path":
            raise InputError(f"{source}: `ckpt_path` belongs on the command line.")
        if key not in SECTIONS:
            hint = did_you_mean(key, SECTIONS)
            known = ", ".join((*SECTIONS, BY_DATASET))
            raise InputError(f"{source} has no section {key!r} (known: {known}).{hint}")
    for key in ("data", "stopping", "trainer"):
        if not isinstance(sections.get(key, {}), dict):
            raise InputError(f"{source}: {key} must hold options, got {sections[key]!r}.")
    layer = Layer(source, dict(sections))
    section = layer.content.pop("model", None)
    if isinstance(section, str):
        section, layer.with_file = {"class_path": section}, True
    if section is not None:
        if not isinstance(section, dict) or set(section) - {"class_path", "init_args"}:
            raise InputError(
                f"{source}: model must be a method's name, or hold class_path and init_args, "
                f"got {section!r}."
            )
        if named := section.get("class_path"):
            with error_context(source):
                layer.model, layer.is_named = ModelName.parse(str(named)), True
        layer.content["model"] = dict(section.get("init_args") or {})
    return layer


def _expand(layer: Layer, dataset: str | None) -> list[Layer]:
    """A layer, above it what it holds for the data set, below it the file of its method."""
    parts = []
    if layer.with_file and layer.model and layer.model.method and layer.model.method.file:
        parts += _expand(read_layer(str(layer.model.method.file)), dataset)
        for part in parts:
            part.is_named = False  # the file that calls the method names it
    parts.append(layer)
    if dataset in layer.by_dataset:
        parts.append(layer.by_dataset[dataset])
    return parts


def _dataset_in_use(layers: Sequence[Layer]) -> str | None:
    """The published data set that the layers select; none for the user's own graph."""
    choice: dict[str, Any] = {}
    for layer in layers:
        choice |= layer.content.get("data", {})
    if choice.get("path") is not None:
        return None
    return get_spec(str(choice.get("dataset") or "synthetic")).name


def _keep_one_model(layers: Sequence[Layer], decided: ModelName, by_option: bool) -> list[str]:
    """Drop model values for other classes; a note unless they are those of the default method."""
    notes = []
    for layer in layers:
        if layer.model is None or layer.model.class_path == decided.class_path:
            continue
        if layer.is_named and layer.model.class_path != DEFAULT.class_path:
            why = f"--model {decided.name}" if by_option else f"a later file names {decided.name}"
            notes.append(f"the model section of {layer.source} is not used: {why}.")
        layer.content = {k: v for k, v in layer.content.items() if k != "model"}
    return notes


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
