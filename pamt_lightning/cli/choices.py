"""What is read from a command line before torch is loaded: config files, model, data, checkpoint.

A missing config file, an unknown method or data set is reported at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.methods.registry import DEFAULT
from pamt_lightning.training.layers import Layer, Resolved, find_model, read_layer, resolve

_DATA = ("dataset", "path")


@dataclass(frozen=True)
class Choices:
    """The choices on a command line."""

    files: tuple[str, ...]  # config files
    model: str | None  # that `--model` or `--model.help` names
    data: dict[str, Any]  # `dataset` or `path`, if given
    ckpt_path: str | None  # a checkpoint, its folder, or `last`
    print_config: bool
    help: Literal["command", "model"] | None  # whose options are to be listed
    args: tuple[str, ...]  # the other arguments, and those of `data`

    @classmethod
    def read(cls, args: Sequence[str]) -> Choices:
        """Take the choices out of the arguments that follow a command."""
        parser = Parser(add_help=False)
        parser.add_argument("-c", "--config", action="append", default=[])
        parser.add_argument("--model", "--model.class_path", dest="model")
        parser.add_argument("--model.help", dest="help_of", nargs="?", const="")
        for name in _DATA:
            parser.add_argument(f"--data.{name}", dest=name, default=argparse.SUPPRESS)
        parser.add_argument("--ckpt_path")
        parser.add_argument("--print_config", action="store_true")
        parser.add_argument("-h", "--help", action="store_true")
        found, others = parser.parse_known_args(list(args))
        data = {name: value for name, value in vars(found).items() if name in _DATA}
        return cls(
            files=tuple(found.config),
            model=found.help_of or found.model,
            data={name: None if value == "null" else value for name, value in data.items()},
            ckpt_path=found.ckpt_path,
            print_config=found.print_config,
            help="model" if found.help_of is not None else "command" if found.help else None,
            args=(*others, *(f"--data.{name}={value}" for name, value in data.items())),
        )

    def resolve(self, base: Layer | None = None) -> Resolved:
        """Combine the config files; ``base`` is what a checkpoint was trained with."""
        if self.help == "model":
            return Resolved(find_model(self.model or DEFAULT.name))
        return resolve(self.files, self.model, self.data, base)

    @property
    def names_data(self) -> bool:
        """Whether the command line or one of its config files chooses data."""
        sections = [self.data, *(read_layer(file).content.get("data", {}) for file in self.files)]
        return any(name in section for section in sections for name in _DATA)
