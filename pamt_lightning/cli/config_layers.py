"""Config files as *layers*: read, checked, and with only what counts for one data set.

A layer may hold values for one data set below ``by_dataset:``, a section in a file of its own
(``trainer: tr.yaml``, found beside the config), and a method's name in place of a class.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pamt_lightning.data.published.registry import get_spec
from pamt_lightning.errors import InputError
from pamt_lightning.methods.registry import find_method, shipped_names, shipped_path, unknown_method
from pamt_lightning.spelling import did_you_mean

BY_DATASET = "by_dataset"
_ENDINGS = (".yaml", ".yml", ".json")


@dataclass
class Layer:
    """Sections of a configuration.

    Attributes:
        source: Where they come from, for messages.
        content: The sections.
        class_path: The class that its model section is for; none if it is for any.
        file: The file that says just this; none once anything was changed.
        method: The method that the file calls by name (``model: GAT``); its file lies below.
    """

    source: str
    content: dict[str, Any]
    class_path: str | None = None
    file: Path | None = None
    method: Layer | None = field(default=None, repr=False)

    @property
    def names_class(self) -> bool:
        """Whether the class is written here, and not in the file that this is a part of."""
        return "class_path" in as_section(self.content.get("model"))

    def drop(self, names: Collection[str]) -> None:
        """Take sections out."""
        if not set(names).isdisjoint(self.content):
            self.content = {k: v for k, v in self.content.items() if k not in names}
            self.file = None

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


def read_layer(value: str, class_names: Collection[str]) -> Layer:
    """The layer that ``--config value`` means."""
    content, file = read_content(value)
    return make_layer(value if file else "--config", content, class_names, file)


def read_content(value: str) -> tuple[dict[str, Any], Path | None]:
    """The sections that ``--config value`` means, and the file they stand in."""
    # A value in braces is a config by itself: what a checkpoint was trained with.
    if value.startswith("{"):
        return _written_out(load("--config", value), Path()), None
    file = find_config(value)
    return _written_out(load(value, file), file.parent), file


def make_layer(
    source: str, content: dict[str, Any], class_names: Collection[str], file: Path | None = None
) -> Layer:
    """A layer whose model is a class, by whatever name it is called."""
    layer = Layer(source, content, file=file)
    model = layer.content.get("model")
    if isinstance(model, str):
        if model.endswith(_ENDINGS):
            raise InputError(f"{source}: there is no file {model} with a model section.")
        if (method := find_method(model)) and method.file:
            layer.method = read_layer(str(method.file), class_names)
        model = {"class_path": model}
    named = as_section(model).get("class_path")
    if not isinstance(named, str):
        return layer
    try:
        layer.class_path = class_called(named, class_names)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    model = as_section(model) | {"class_path": layer.class_path}
    if model != layer.content["model"]:
        layer.content = {**layer.content, "model": model}
        layer.file = None
    return layer


def class_called(name: str, class_names: Collection[str]) -> str:
    """The class that a method or a class is called by."""
    if (method := find_method(name)) is not None:
        return method.class_path()
    if "." not in name and name not in class_names:
        raise unknown_method(name)
    return name


def find_config(value: str, what: str = "config file") -> Path:
    """The file of that name, here or shipped; ``what`` it is, for the error."""
    if Path(value).is_file():
        return Path(value)
    shipped = shipped_path(value)
    if shipped is not None and shipped.is_file():
        return shipped
    here = [file for file in sorted(Path(value).parent.glob("*.yaml")) if file.name[0] != "."]
    known = [*map(str, here), *shipped_names()]
    alike = [name for name in known if Path(name).name == Path(value).name]
    alike += difflib.get_close_matches(value, known, 1, 0.8)
    nearby = [name for name in known if Path(name).parent == Path(value).parent]
    hint = f" In that folder: {', '.join(nearby)}." if nearby else ""
    hint = f" Did you mean {alike[0]}?" if alike else hint
    raise InputError(f"there is no {what} {value}.{hint}")


def load(
    source: str, text: str | Path, holds: str = "sections such as data: and model:"
) -> dict[str, Any]:
    """Sections out of YAML; ``holds`` says what there should be if there are none."""
    try:
        content = yaml.safe_load(text if isinstance(text, str) else text.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror}.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{source}{where} is not valid YAML: {error.problem}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        told = re.sub(r"\s+", " ", str(error))
        raise InputError(f"{source} is not valid YAML: {told}") from None
    if not isinstance(content, dict):
        got = "nothing" if content is None else type(content).__name__
        raise InputError(f"{source} must hold {holds}, got {got}.")
    return content


def as_section(value: object, folder: Path = Path()) -> dict[str, Any]:
    """A section that is written out, in braces or in a file of its own; empty if it is neither."""
    if isinstance(value, str) and value.startswith("{"):
        value = load(value, value)
    elif isinstance(value, str) and value.endswith(_ENDINGS):
        file = folder / value
        value = load(str(file), file) if file.is_file() else None
    return value if isinstance(value, dict) else {}


def _written_out(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """With the sections that stand in files of their own: a rewritten layer has no folder."""
    found = {key: as_section(value, folder) or value for key, value in content.items()}
    if isinstance(by_dataset := found.get(BY_DATASET), dict):
        found[BY_DATASET] = {
            name: _written_out(part, folder) if isinstance(part, dict) else part
            for name, part in by_dataset.items()
        }
    return found


def check_sections(source: str, content: dict[str, Any], sections: Collection[str]) -> None:
    """Find what is wrong with a config while the name of its file is still known."""
    if "ckpt_path" in content:
        raise InputError(f"{source}: `ckpt_path` belongs on the command line, not in a config.")
    for key in content:
        if key not in sections:
            hint = did_you_mean(key, sections)
            known = ", ".join(sorted(sections))
            raise InputError(f"{source} has no section {key!r} (known: {known}).{hint}")


def parts(
    layer: Layer, known: Collection[str], class_names: Collection[str], dataset: str | None
) -> list[Layer]:
    """A layer, over it what it says on the data set in use, and under it the method it calls."""
    check_sections(layer.source, layer.content, {*known, BY_DATASET})
    found = parts(layer.method, known, class_names, dataset) if layer.method else []
    found.append(layer)
    if BY_DATASET not in layer.content:
        return found
    by_dataset = layer.content[BY_DATASET]
    layer.drop({BY_DATASET})
    if not isinstance(by_dataset, dict):
        raise InputError(
            f"{layer.source}: {BY_DATASET} must hold data sets and their sections, "
            f"got {by_dataset!r}."
        )
    for key, content in by_dataset.items():
        source = f"{layer.source}: {BY_DATASET}.{key}"
        try:
            name = get_spec(str(key)).name
        except InputError as error:
            raise InputError(f"{source}: {error}") from None
        if not isinstance(content, dict):
            raise InputError(f"{source} must hold sections such as model:, got {content!r}.")
        check_sections(source, content, known)
        part = make_layer(source, content, class_names)
        if {"dataset", "path"} & set(as_section(part.content.get("data"))):
            raise InputError(f"{source} cannot choose other data.")
        if name == dataset:
            part.class_path = part.class_path or layer.class_path
            found += parts(part, known, class_names, dataset)
    return found
