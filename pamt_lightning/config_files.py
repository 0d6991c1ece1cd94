"""Config files on the command line, made plain before the parser sees them.

Three things the parser cannot do by itself: a section ``by_dataset`` that counts for one data set,
methods by name (``--model GAT``), and a change of class that takes no value along from the class
before. Each file becomes a *layer*; layers are laid over each other, and what is typed over them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pamt_lightning.data.registry import get_spec
from pamt_lightning.errors import InputError
from pamt_lightning.methods import DEFAULT_CLASS, find_method, shipped_path, unknown_method

BY_DATASET = "by_dataset"
_CONFIG = ("--config", "-c")
_MODEL = ("--model", "--model.class_path")


@dataclass
class Layer:
    """Sections of a configuration.

    Attributes:
        source: Where they come from, for messages.
        content: The sections.
        file: The file that says just this; none once anything was changed.
    """

    source: str
    content: dict[str, Any]
    file: Path | None = None

    def as_option(self) -> list[str]:
        """The layer as the parser takes it."""
        # YAML, not JSON: numbers such as 1e-3 and .inf are read again as the file had them.
        text = (
            str(self.file)
            if self.file
            else yaml.safe_dump(
                self.content, default_flow_style=True, sort_keys=False, width=float("inf")
            ).strip()
        )
        return ["--config", text]


def plain_arguments(
    args: list[str], sections: Collection[str], class_names: Collection[str], trained: bool
) -> tuple[list[str], str]:
    """The command line with plain config files first, and the class of the model.

    Args:
        args: What was typed after the command; a checkpoint's own configuration comes first.
        sections: Top-level keys that a config may have.
        class_names: Classes that may be named without their module.
        trained: Whether the model is that of a checkpoint.
    """
    named, rest = _taken(args, _CONFIG)
    chosen, rest = _taken(rest, _MODEL)
    layers = [_read(value) for value in named]
    layers += [_model_layer(value, class_names, trained) for value in chosen]
    for layer in layers:
        _check_sections(layer.source, layer.content, {*sections, BY_DATASET})
    dataset = _dataset_in_use([layer.content for layer in layers], rest)
    layers = [part for layer in layers for part in _parts(layer, sections, dataset)]
    class_path = _keep_one_class(layers, trained)
    # The class first: whatever else is the default would leave its values behind.
    first = Layer("", {"model": {"class_path": class_path}})
    options = [word for layer in (first, *layers) for word in layer.as_option()]
    return [*options, *_help_by_name(rest, class_names)], class_path


def names_data(args: list[str]) -> bool:
    """Whether the command line, or a config file on it, says which data to use."""
    named, rest = _taken(args, _CONFIG)
    return any(re.match(r"--data(\.dataset|\.path)?(=|$)", arg) for arg in rest) or any(
        {"dataset", "path"} & set(_section(_read(value).content.get("data"))) for value in named
    )


def option_value(args: list[str], option: str) -> str | None:
    """The value that ``args`` give to an option, before anything is parsed; the last one counts."""
    values, _ = _taken(args, (option,))
    return values[-1] if values else None


def _taken(args: Iterable[str], options: Collection[str]) -> tuple[list[str], list[str]]:
    """The values of some options, and the arguments that are left."""
    values: list[str] = []
    rest: list[str] = []
    waiting = False
    for word in args:
        option, equals, value = word.partition("=")
        if waiting and not word.startswith("--"):
            rest.pop()
            values.append(word)
            waiting = False
            continue
        waiting = option in options and not equals  # without a value it is left to the parser
        if option in options and equals:
            values.append(value)
        else:
            rest.append(word)
    return values, rest


# Reading -------------------------------------------------------------------------------------


def _read(value: str) -> Layer:
    """The layer that ``--config value`` means."""
    # A value in braces is a config by itself: what a checkpoint was trained with.
    if value.startswith("{"):
        return Layer("--config", _load("--config", value))
    path = Path(value)
    if not path.is_file():
        shipped = shipped_path(value)
        if shipped is None or not shipped.is_file():
            # Neither here nor shipped: what there is in its folder, here or shipped.
            folder = path.parent if path.parent.is_dir() or shipped is None else shipped.parent
            nearby = sorted(str(path.with_name(p.name)) for p in folder.glob("*.yaml"))
            hint = f" In that folder: {', '.join(nearby)}." if nearby else ""
            raise InputError(f"there is no config file {value}.{hint}")
        path = shipped
    content = _load(value, path)
    for key in {"data", "model"} & set(content):  # `model: other.yaml`, as seen from this file
        content[key] = _section(content[key], path.parent) or content[key]
    return Layer(value, content, path)


def _load(source: str, text: str | Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text if isinstance(text, str) else text.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        told = re.sub(r"\s+", " ", str(error)).replace('in "<unicode string>", ', "at ")
        raise InputError(f"{source} is not valid YAML: {told}") from None
    if not isinstance(content, dict):
        raise InputError(f"{source} must hold sections such as data: and model:.")
    return content


def _section(value: object, folder: Path = Path()) -> dict[str, Any]:
    """A section that is written out, in braces or in a file of its own; empty if it is neither."""
    if isinstance(value, str) and value.startswith("{"):
        value = _load(value, value)
    elif isinstance(value, str) and value.endswith((".yaml", ".yml", ".json")):
        file = folder / value
        value = _load(str(file), file) if file.is_file() else None
    return value if isinstance(value, dict) else {}


def _check_sections(source: str, content: dict[str, Any], sections: Collection[str]) -> None:
    """Find what is wrong with a config while the name of its file is still known."""
    if "ckpt_path" in content:
        raise InputError(f"{source}: `ckpt_path` belongs on the command line, not in a config.")
    for key in content:
        if key not in sections:
            close = difflib.get_close_matches(str(key), sections, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            known = ", ".join(sorted(sections))
            raise InputError(f"{source} has no section {key!r} (known: {known}).{hint}")


# One data set --------------------------------------------------------------------------------


def _dataset_in_use(contents: list[dict[str, Any]], typed: list[str]) -> str | None:
    """The data set that all of the command line comes to; none for a graph of one's own."""
    choice: dict[str, Any] = {}
    values, _ = _taken(typed, ("--data",))
    for content in (*contents, *({"data": value} for value in values)):
        choice |= _section(content.get("data"))
    for key in ("dataset", "path"):
        if (value := option_value(typed, f"--data.{key}")) is not None:
            choice[key] = None if value == "null" else value
    if choice.get("path") is not None:
        return None
    try:
        return get_spec(str(choice.get("dataset") or "synthetic")).name
    except InputError:
        return None  # the data module says so, with the names it knows


def _parts(layer: Layer, sections: Collection[str], dataset: str | None) -> list[Layer]:
    """A layer, and over it what it says on the data set in use."""
    if BY_DATASET not in layer.content:
        return [layer]
    content = dict(layer.content)
    by_dataset = content.pop(BY_DATASET)
    if not isinstance(by_dataset, dict):
        raise InputError(
            f"{layer.source}: {BY_DATASET} must hold data sets and their sections, "
            f"got {by_dataset!r}."
        )
    found = [Layer(layer.source, content)]
    for key, part in by_dataset.items():
        source = f"{layer.source}: {BY_DATASET}.{key}"
        try:
            name = get_spec(str(key)).name
        except InputError as error:
            raise InputError(f"{source}: {error}") from None
        if not isinstance(part, dict):
            raise InputError(f"{source} must hold sections such as model:, got {part!r}.")
        _check_sections(source, part, sections)
        if {"dataset", "path"} & set(_section(part.get("data"))):
            raise InputError(f"{source} cannot choose other data.")
        if name == dataset:
            found.append(Layer(source, part))
    return found


# One model -----------------------------------------------------------------------------------


def _model_layer(value: str, class_names: Collection[str], trained: bool) -> Layer:
    """The layer that ``--model value`` means: a method's file, a class, or a section."""
    source = f"--model {value}"
    if (method := find_method(value)) is not None:
        if trained:
            raise InputError(f"`{source}` is for a new run: the checkpoint says which model it is.")
        if method.file is not None:
            return _read(str(method.file))
        return Layer(source, {"model": {"class_path": DEFAULT_CLASS}})
    if section := _section(value):
        return Layer(source, {"model": section})
    return Layer(source, {"model": {"class_path": _class_path(value, class_names)}})


def _class_path(name: str, class_names: Collection[str]) -> str:
    if "." not in name and name not in class_names:
        raise unknown_method(name)
    return name


def _help_by_name(args: list[str], class_names: Collection[str]) -> list[str]:
    """Let ``--model.help`` know methods by name."""
    values, rest = _taken(args, ("--model.help",))
    for value in values:
        method = find_method(value)
        shown = method.class_path() if method else _class_path(value, class_names)
        rest.append(f"--model.help={shown}")
    return rest


def _keep_one_class(layers: list[Layer], trained: bool) -> str:
    """Drop what was meant for another class than the one that is named last.

    The parser would keep every value whose name the new class knows too: PAMT's learning rate for
    a GAT.
    """
    class_path = DEFAULT_CLASS
    for number, layer in enumerate(layers):
        model = layer.content.get("model")
        named = model if isinstance(model, str) else _section(model).get("class_path")
        if named is None or _same_class(str(named), class_path):
            continue
        if trained and number > 0:  # the first is the checkpoint's own
            raise InputError(f"{layer.source} asks for {named}, the checkpoint is of {class_path}.")
        for earlier in layers[:number]:
            if "model" in earlier.content:
                earlier.content = {k: v for k, v in earlier.content.items() if k != "model"}
                earlier.file = None
        class_path = str(named)
    return class_path


def _same_class(one: str, other: str) -> bool:
    """Whether two names mean one class: the package's are known by more than one path."""
    (home, _, name), (other_home, _, other_name) = one.rpartition("."), other.rpartition(".")
    ours = all(path.split(".")[0] == __package__ for path in (one, other))
    return name == other_name and (ours or home == other_home or not (home and other_home))
