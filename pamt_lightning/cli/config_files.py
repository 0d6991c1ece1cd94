"""The config files and methods of a command line, made plain before the parser sees them.

The rule: ``--model NAME`` decides the class, wherever it stands, and without it the class that a
config file names last; model sections for another class are left out, those for this class or for
no class are laid over each other in order. The file of the method lies below them, since it holds
its defaults, but that of a variant of PAMT lies over them, since it takes one thing away. What is
typed (``--model.lr``) wins over all. A checkpoint keeps its class, and outside ``fit`` its values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pamt_lightning.cli.config_layers import (
    Layer,
    as_section,
    class_called,
    make_layer,
    parts,
    read_content,
    read_layer,
)
from pamt_lightning.data.published.registry import get_spec
from pamt_lightning.errors import InputError
from pamt_lightning.methods.registry import DEFAULT_CLASS, find_method

_CONFIG = ("--config", "-c")
_MODEL = ("--model", "--model.class_path")


class Plain(NamedTuple):
    """A command line that the parser understands."""

    args: list[str]
    class_path: str  # of the model
    notes: list[str]  # what the user wrote and does not get
    sources: dict[str, str]  # where the last word on an option comes from, by its bare name


@dataclass
class Trained:
    """What a checkpoint was trained with: a config, as ``--config`` takes it."""

    config: str
    keeps_values: bool  # also over the config files; else other values are refused later


@dataclass
class _Choice:
    """What the ``--model`` options come to."""

    source: str = ""
    class_path: str | None = None
    below: list[Layer] = field(default_factory=list)
    above: list[Layer] = field(default_factory=list)
    typed: list[Layer] = field(default_factory=list)


def plain_arguments(
    args: list[str],
    sections: Collection[str],
    class_names: Collection[str],
    trained: Trained | None = None,
    ignored: Collection[str] = (),
) -> Plain:
    """The command line with plain config files first.

    Args:
        args: What was typed after the command.
        sections: Top-level keys that a config may have.
        class_names: Classes that may be named without their module.
        trained: What the checkpoint was trained with, if the model is that of one.
        ignored: Keys that only other commands know.
    """
    configs, rest = _taken(args, _CONFIG)
    models, rest = _taken(rest, _MODEL)
    files = [read_layer(value, class_names) for value in configs]
    choice = _choice(models, class_names)
    start = [read_layer(trained.config, class_names)] if trained else []
    groups = (choice.below, start, files, choice.above, choice.typed)
    dataset = _dataset_in_use([layer.content for group in groups for layer in group], rest)
    known = {*sections, *ignored}
    below, start, files, above, typed = (
        [part for layer in group for part in parts(layer, known, class_names, dataset)]
        for group in groups
    )
    decider, class_path = _deciding(choice, files)
    if start:
        own = next((layer.class_path for layer in start if layer.class_path), DEFAULT_CLASS)
        if decider and not _same_class(class_path, own):
            asked, held = (path.rpartition(".")[2] for path in (class_path, own))
            raise InputError(
                f"{decider} asks for {asked}, the checkpoint is of {held}: leave that out, or name "
                f"another checkpoint."
            )
        class_path = own
    layers = [*below, *start, *files, *above, *typed]
    later = "" if choice.class_path else ", which comes later,"
    notes = _keep_one_class(layers, class_path, f"{decider}{later}")
    if trained and trained.keeps_values:
        for layer in (*below, *files, *above):
            layer.drop({"model"})
    for layer in layers:
        layer.drop(ignored)
    # The class first: whatever else is the default would leave its values behind.
    first = Layer("", {"model": {"class_path": class_path}})
    options = [word for layer in (first, *layers) if layer.content for word in layer.as_option()]
    sources = {name: layer.source for layer in layers for name in _names(layer.content)}
    words = [*options, *_help_by_name(rest, class_names, class_path)]
    return Plain(words, class_path, notes, sources)


def _names(content: Any) -> Iterator[str]:
    """All keys of a section and of those within it."""
    if isinstance(content, Mapping):
        for name, inner in content.items():
            yield str(name)
            yield from _names(inner)


def names_data(args: list[str]) -> bool:
    """Whether the command line, or a config file on it, says which data to use."""
    named, rest = _taken(args, _CONFIG)
    return any(re.match(r"--data(\.dataset|\.path)?(=|$)", arg) for arg in rest) or any(
        {"dataset", "path"} & set(as_section(read_content(value)[0].get("data"))) for value in named
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
        if word[:2] in options and option not in options:  # -cfile.yaml
            option, equals, value = word[:2], "=", word[2:]
        waiting = option in options and not equals  # without a value it is left to the parser
        if option in options and equals:
            values.append(value)
        else:
            rest.append(word)
    return values, rest


def _dataset_in_use(contents: list[dict[str, Any]], typed: list[str]) -> str | None:
    """The data set that all of the command line comes to; none for a graph of one's own."""
    choice: dict[str, Any] = {}
    values, _ = _taken(typed, ("--data",))
    for content in (*contents, *({"data": value} for value in values)):
        choice |= as_section(content.get("data"))
    for key in ("dataset", "path"):
        if (value := option_value(typed, f"--data.{key}")) is not None:
            choice[key] = None if value == "null" else value
    if choice.get("path") is not None:
        return None
    try:
        return get_spec(str(choice.get("dataset") or "synthetic")).name
    except InputError:
        return None  # the data module says so, with the names it knows


# One model -----------------------------------------------------------------------------------


def _choice(values: list[str], class_names: Collection[str]) -> _Choice:
    """Of the options that name a model the last one counts; values without a class all do."""
    choice, typed = _Choice(), []
    for value in values:
        source, section = f"--model {value}", as_section(value)
        if (method := find_method(value)) is not None:
            choice = _Choice(source, method.class_path())
            if method.file is not None:
                variant = _same_class(method.class_path(), DEFAULT_CLASS)
                file = read_layer(str(method.file), class_names)
                (choice.above if variant else choice.below).append(file)
        elif "model" in section or (not section and value.endswith((".yaml", ".yml"))):
            raise InputError(f"`{source}`: --model takes a method by name, files go to --config.")
        elif section:
            layer = make_layer(source, {"model": section}, class_names)
            if layer.class_path is None:
                typed.append(layer)
            else:
                choice = _Choice(source, layer.class_path, typed=[layer])
        else:
            choice = _Choice(source, class_called(value, class_names))
    choice.typed += typed
    return choice


def _deciding(choice: _Choice, files: list[Layer]) -> tuple[str, str]:
    """What decides the class of the model, and the class."""
    if choice.class_path is not None:
        return choice.source, choice.class_path
    named = [(layer.source, layer.class_path) for layer in files if layer.names_class]
    source, class_path = named[-1] if named else ("", None)
    return source, class_path or DEFAULT_CLASS


def _keep_one_class(layers: list[Layer], class_path: str, decider: str) -> list[str]:
    """Drop what was meant for another class; says so unless it is PAMT's.

    The parser would keep every value whose name the new class knows too: PAMT's learning rate for
    a GAT. The files of the data sets name PAMT as the rule, which any other method replaces.
    """
    notes = []
    for layer in layers:
        if layer.class_path is None or _same_class(layer.class_path, class_path):
            continue
        if layer.names_class and not _same_class(layer.class_path, DEFAULT_CLASS):
            notes.append(
                f"the model section of {layer.source} is not used: {decider} names another "
                f"model ({class_path.rpartition('.')[2]})."
            )
        layer.drop({"model"})
    return notes


def _same_class(one: str, other: str) -> bool:
    """Whether two names mean one class: the package's are known by more than one path."""
    (home, _, name), (other_home, _, other_name) = one.rpartition("."), other.rpartition(".")
    ours = all(path.split(".")[0] == "pamt_lightning" for path in (one, other))
    return name == other_name and (ours or home == other_home or not (home and other_home))


def _help_by_name(args: list[str], class_names: Collection[str], class_path: str) -> list[str]:
    """Let ``--model.help`` know methods by name, and by itself mean the class in use."""
    values, rest = _taken(args, ("--model.help",))
    shown = [class_called(value, class_names) for value in values]
    if "--model.help" in rest:
        rest.remove("--model.help")
        shown.append(class_path)
    return [*rest, *(f"--model.help={name}" for name in shown)]
