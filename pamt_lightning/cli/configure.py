"""From config files and command-line options to a `RunConfig`, through LightningCLI's parser."""

from __future__ import annotations

import sys
from argparse import ArgumentError
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, get_type_hints

import pytorch_lightning as pl
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from pamt_lightning.cli.choices import Choices
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import InputError, did_you_mean, error_context
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.methods.registry import Method
from pamt_lightning.training.config import (
    BY_RUN,
    TRAINER_DEFAULTS,
    RunConfig,
    arguments,
    import_class,
    require_option,
)
from pamt_lightning.training.layers import Layer, Resolved, dataset_file, nested, resolve
from pamt_lightning.training.quiet import silence_lightning
from pamt_lightning.training.stopping import BestStopping

AddOptions = Callable[[LightningArgumentParser], None]


class FitCLI(LightningCLI):
    """The options of `pamt fit` for one class of models; it parses and leaves building to `run`."""

    def __init__(
        self, class_path: str, command: str, description: str, add_options: AddOptions | None
    ) -> None:
        model_class = import_class(class_path)
        if not issubclass(model_class, NodeClassificationModule):
            raise InputError(f"{class_path} is not a subclass of NodeClassificationModule.")
        self.add_options = add_options
        self.classes: dict[str, type[Any]] = {
            "data": GraphDataModule,
            "model": model_class,
            "stopping": BestStopping,
            "trainer": pl.Trainer,
        }
        silence_lightning()
        super().__init__(
            model_class=model_class,
            datamodule_class=GraphDataModule,
            save_config_callback=None,
            auto_configure_optimizers=False,
            parser_kwargs={
                "prog": f"pamt {command}",
                "usage": f"pamt {command} [options]",
                "description": description,
                "exit_on_error": False,
                "allow_abbrev": False,
            },
            args=[],
            run=False,
        )

    # LightningCLI's hooks ----------------------------------------------------------------------

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """A parser without LightningCLI's ``--config``: the files are read before."""
        return LightningArgumentParser(**kwargs)

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """The options that come before data and model."""
        config = "A config file; later files override earlier ones."
        parser.add_argument("-c", "--config", metavar="FILE", help=config)
        if self.add_options is not None:
            self.add_options(parser)
        seed = "Seed of initialisation and training."
        parser.add_argument("--seed_everything", type=int, default=0, help=seed)
        shown = "Print all options as YAML and exit."
        parser.add_argument("--print_config", action="store_true", help=shown)

    def add_core_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Data and model first: that is what people look for in ``--help``."""
        for section, cls in self.classes.items():
            parser.add_class_arguments(cls, section, skip=BY_RUN, fail_untyped=False)
        parser.set_defaults({f"trainer.{name}": value for name, value in TRAINER_DEFAULTS.items()})

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Nothing yet; for False, LightningCLI sets no seed."""
        self.config = {**parser.get_defaults().as_dict(), "seed_everything": False}

    def instantiate_classes(self) -> None:
        """Nothing: `run` builds what it needs from the configuration."""

    # Parsing -----------------------------------------------------------------------------------

    def parse(
        self, resolved: Resolved, args: Sequence[str] = (), options: Mapping[str, Any] = {}
    ) -> tuple[RunConfig, Any]:
        """The run that files and options describe, and the values of all options of the command.

        ``args`` of the command line override the files, ``options`` by name override both. An
        `InputError` names the option that is unknown or wrong, and the file it is in.
        """
        merged = resolved.merged()
        # A config file may hold options of `pamt fit` that this command does not have.
        others = {name: merged.pop(name) for name in merged.keys() - self.config.keys()}
        parsed = self._parse_object(merged, resolved.layers)
        if args:
            parsed = self._parse_args(list(args), parsed)
        if options:
            layer = Layer("", nested(options))
            parsed = self._parse_object(layer.content, [layer], parsed)
        return RunConfig.from_sections(resolved.model, {**others, **parsed.as_dict()}), parsed

    def _parse_object(
        self, content: Mapping[str, Any], layers: Sequence[Layer], base: Any = None
    ) -> Any:
        try:
            return self.parser.parse_object(dict(content), base)
        except ArgumentError as error:
            for layer in layers:
                with error_context(layer.source):
                    for name, value in _options(layer.content):
                        if name.partition(".")[0] in self.config:
                            one = nested({name: value})
                            self._check(name, value, partial(self.parser.parse_object, one))
            raise InputError(_one_line(error)) from None

    def _parse_args(self, args: list[str], base: Any) -> Any:
        try:
            return self.parser.parse_args(args, base.clone())
        except ArgumentError as error:
            for option in _split(args):
                name, _, value = option[0].partition("=")
                text = " ".join([value, *option[1:]]).strip()
                self._check(name, text, partial(self.parser.parse_args, option, base.clone()))
            raise InputError(_one_line(error)) from None

    def _check(self, option: str, value: object, parse: Callable[[], Any]) -> None:
        """Refuse one option if there is none of that name, or if its value is wrong."""
        name = option.removeprefix("--")
        section, _, rest = name.partition(".")
        cls = self.classes.get(section)
        if cls and rest:
            require_option(cls, option, rest.split(".")[0].rstrip("+"))
        elif section not in self.config:
            known = [f"--{each}" for each in self.config]
            known += [f"--{s}.{each}" for s, c in self.classes.items() for each in arguments(c)]
            raise InputError(f"there is no option {option}.{did_you_mean(f'--{name}', known)}")
        try:
            parse()
        except ArgumentError as error:
            hint = _type_hint(cls, rest) if cls else None
            wrong = f" must be {hint}, got {value!r}." if hint else f": {_one_line(error)}"
            raise InputError(f"{name}{wrong}") from None


class Configurator:
    """Makes run configurations from files and options; one parser for each class of models."""

    def __init__(
        self, command: str = "fit", description: str = "", add_options: AddOptions | None = None
    ) -> None:
        self.command = command
        self.cli_of = cache(lambda path: FitCLI(path, command, description, add_options))

    def __call__(
        self, files: Sequence[str], method: str | None = None, options: Mapping[str, Any] = {}
    ) -> RunConfig:
        """A run from config files, a method, and options such as ``{"model.alpha": 0.1}``."""
        resolved = resolve(files, method, nested(options).get("data"))
        return self.cli_of(resolved.model.class_path).parse(resolved, (), options)[0]

    def read(self, choices: Choices, resolved: Resolved) -> tuple[RunConfig, Any] | None:
        """The run on a command line and the values of all options; None if it is only printed."""
        if choices.help == "model":
            _print_model_help(resolved.model)
            return None
        cli = self.cli_of(resolved.model.class_path)
        if choices.help:
            cli.parser.print_help()
            return None
        config, options = cli.parse(resolved, choices.args)
        for note in resolved.notes:
            print(f"pamt {self.command}: note: {note}", file=sys.stderr)
        if choices.print_config:
            print(config.to_yaml(), end="")
            return None
        return config, options


@dataclass(frozen=True)
class FitOptions:
    """The options of `pamt fit` inside a command that makes many runs."""

    choices: Choices
    config: RunConfig
    configurator: Configurator

    @classmethod
    def parse(cls, command: str, args: Sequence[str]) -> FitOptions:
        """Read a command line; ``--help`` raises SystemExit."""
        choices, configurator = Choices.read(args), Configurator(command)
        found = configurator.read(choices, choices.resolve())
        if found is None:
            raise SystemExit(0)
        return cls(choices, found[0], configurator)

    def configure(self, options: Mapping[str, Any], dataset: str | None = None) -> RunConfig:
        """The same run with other options, on the data set if one is given."""
        files = (*(() if dataset is None else (dataset_file(dataset),)), *self.choices.files)
        data = {**self.choices.data, **nested(options).get("data", {})}
        resolved = resolve(files, self.choices.model, data)
        # Parsed for each run: `--option+=value` extends the list of that run's files.
        cli = self.configurator.cli_of(resolved.model.class_path)
        return cli.parse(resolved, self.choices.args, options)[0]


def _print_model_help(model: Method) -> None:
    usage = f"pamt fit --model {model.name} [options]"
    parser = LightningArgumentParser(usage=usage, description="", add_help=False)
    cls = import_class(model.class_path)
    parser.add_class_arguments(cls, "model", skip=BY_RUN, fail_untyped=False)
    parser.print_help()


def _options(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The options of all sections with their values."""
    for section, values in content.items():
        if isinstance(values, Mapping):
            yield from ((f"{section}.{name}", value) for name, value in values.items())
        else:
            yield section, values


def _split(args: Sequence[str]) -> list[list[str]]:
    """Each option with its values."""
    found: list[list[str]] = []
    for arg in args:
        if arg.startswith("--") or not found:
            found.append([arg])
        else:
            found[-1].append(arg)
    return found


def _type_hint(cls: type[Any], name: str) -> str | None:
    """The type of an argument as users read it."""
    for base in cls.__mro__:
        hints = get_type_hints(vars(base).get("__init__", object))
        if name in hints:
            hint = hints[name]
            return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    return None


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith((".", "?")) else f"{text}."
