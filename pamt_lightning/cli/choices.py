"""What is read from a command line before torch is loaded: config files, model, data, checkpoint.

A missing config file, an unknown method or data set is reported at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.training.layers import Layer, ModelName, Resolved, resolve


@dataclass(frozen=True)
class Choices:
    """The choices on a command line.

    Attributes:
        files: Config files.
        model: The model that ``--model`` names.
        data: ``dataset`` or ``path``, if given.
        ckpt_path: A checkpoint, its folder, or ``last``.
        print_config: Whether the configuration is to be printed.
        shows_help: Whether ``--help`` is given.
        help_of: The model whose options are to be listed.
        words: The other options.
    """

    files: tuple[str, ...]
    model: str | None
    data: dict[str, Any]
    ckpt_path: str | None
    print_config: bool
    shows_help: bool
    help_of: str | None
    words: tuple[str, ...]

    @classmethod
    def read(cls, args: Sequence[str]) -> Choices:
        """Take the choices out of the words that follow a command."""
        parser = Parser(add_help=False)
        parser.add_argument("-c", "--config", action="append", default=[])
        parser.add_argument("--model", "--model.class_path", dest="model")
        parser.add_argument("--model.help", dest="help_of", nargs="?", const="")
        parser.add_argument("--data.dataset", dest="dataset", default=argparse.SUPPRESS)
        parser.add_argument("--data.path", dest="path", default=argparse.SUPPRESS)
        parser.add_argument("--ckpt_path")
        parser.add_argument("--print_config", action="store_true")
        parser.add_argument("-h", "--help", action="store_true")
        found, words = parser.parse_known_args(list(args))
        given = {name: value for name, value in vars(found).items() if name in ("dataset", "path")}
        return cls(
            files=tuple(found.config),
            model=found.model,
            data={name: None if value == "null" else value for name, value in given.items()},
            ckpt_path=found.ckpt_path,
            print_config=found.print_config,
            shows_help=found.help,
            help_of=(found.help_of or found.model or "PAMT") if found.help_of is not None else None,
            words=tuple(words),
        )

    def resolve(self, base: Layer | None = None) -> Resolved:
        """Combine the config files; ``base`` is what a checkpoint was trained with."""
        if self.help_of is not None:
            return Resolved(ModelName.parse(self.help_of), ())
        return resolve(self.files, self.model, self.data, base)

    @property
    def names_data(self) -> bool:
        """Whether the command line or one of its config files chooses data."""
        sections = [layer.content.get("data", {}) for layer in resolve(self.files).layers]
        return bool(self.data) or any({"dataset", "path"} & set(section) for section in sections)

    @property
    def options(self) -> dict[str, Any]:
        """The choice of data as options."""
        return {f"data.{name}": value for name, value in self.data.items()}
