"""From config files and command-line options to a `RunConfig`, through LightningCLI's parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import pytorch_lightning as pl
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from pamt_lightning.cli.choices import Choices
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import InputError, did_you_mean, error_context
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.training.config import (
    SIZES,
    TRAINER_DEFAULTS,
    RunConfig,
    arguments,
    import_class,
)
from pamt_lightning.training.layers import Layer, Resolved, dataset_file, nested, resolve
from pamt_lightning.training.quiet import silence_lightning
from pamt_lightning.training.stopping import BestStopping

AddOptions = Callable[[LightningArgumentParser], None]


@dataclass(frozen=True)
class Request:
    """What the user wants, before any value is checked.

    Attributes:
        resolved: Model and config files.
        words: Options as words of the command line, over the files.
        options: Options as plain values, over both.
    """

    resolved: Resolved
    words: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


class FitCLI(LightningCLI):
    """The options of `pamt fit` for one method: it parses, and leaves building to `run`.

    Args:
        model_class: The class of the model; its arguments become ``--model.…`` options.
        command: The command, for messages and help.
        description: What the command does.
        add_options: Adds the options that only this command has.
    """

    def __init__(
        self,
        model_class: type[NodeClassificationModule],
        command: str = "fit",
        description: str = "",
        add_options: AddOptions | None = None,
    ) -> None:
        self.command, self.description, self.add_options = command, description, add_options
        self.chosen_class = model_class
        self._classes: dict[str, type[Any]] = {
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
            seed_everything_default=False,
            args=[],
            run=False,
        )

    # LightningCLI's hooks ----------------------------------------------------------------------

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """A parser that raises errors; ``--config`` is read before the parser is made."""
        return LightningArgumentParser(
            prog=f"pamt {self.command}",
            usage=f"pamt {self.command} [options]",
            description=self.description,
            exit_on_error=False,
            allow_abbrev=False,
            **kwargs,
        )

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """The options that come before data and model."""
        parser.add_argument(
            "-c",
            "--config",
            metavar="FILE",
            help="A config file; later files override earlier ones.",
        )
        if self.add_options is not None:
            self.add_options(parser)
        parser.add_argument(
            "--seed_everything",
            type=int,
            default=0,
            help="Seed of initialisation and training.",
        )
        parser.add_argument(
            "--print_config", action="store_true", help="Print all options as YAML and exit."
        )

    def add_core_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Data and model first: that is what people look for in ``--help``."""
        parser.add_class_arguments(GraphDataModule, "data", fail_untyped=False)
        parser.add_class_arguments(self.chosen_class, "model", skip={*SIZES}, fail_untyped=False)
        # `dirpath` is the run's folder: --run_dir.
        parser.add_class_arguments(BestStopping, "stopping", skip={"dirpath"})
        parser.add_class_arguments(pl.Trainer, "trainer", instantiate=False, fail_untyped=False)
        parser.set_defaults({f"trainer.{name}": value for name, value in TRAINER_DEFAULTS.items()})

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Nothing yet: `parse` is called for each request."""
        self.config = parser.get_defaults()

    def instantiate_classes(self) -> None:
        """Nothing: `run` builds what it needs from the configuration."""

    # Parsing -----------------------------------------------------------------------------------

    def parse(self, request: Request) -> tuple[RunConfig, Any]:
        """The run that a request describes, and the values of all options of the command.

        Raises:
            InputError: An option is unknown or its value is wrong; the message names the option
                and the file it is in.
        """
        resolved = request.resolved
        merged = resolved.merged()
        # A config file may hold options of `pamt fit` that this command does not have.
        others = {name: merged.pop(name) for name in merged.keys() - self._sections}
        parsed = self._checked(merged, resolved.layers)
        if request.words:
            parsed = self._checked_words(list(request.words), parsed)
        if request.options:
            option = Layer("", nested(request.options))
            parsed = self._checked(option.content, (option,), parsed)
        content = {**others, **parsed.as_dict()}
        content["model"] = content.get("model") or {}
        return RunConfig.from_sections(resolved.model, content), parsed

    @property
    def _sections(self) -> set[str]:
        return {*self.parser.get_defaults().as_dict()}

    def _checked(
        self, content: Mapping[str, Any], layers: Sequence[Layer], base: Any = None
    ) -> Any:
        """Check values; if one is wrong, find the layer and the option that hold it."""
        try:
            return self.parser.parse_object(dict(content), base)
        except argparse.ArgumentError as error:
            for layer in layers:
                with error_context(layer.source) if layer.source else nullcontext():
                    self._check_each(layer.content)
            raise InputError(_one_line(error)) from None

    def _check_each(self, content: Mapping[str, Any]) -> None:
        for section, values in content.items():
            if section not in self._sections:
                continue
            is_section = isinstance(values, Mapping)
            for name, value in values.items() if is_section else [(section, values)]:
                option = f"{section}.{name}" if is_section else section
                self._check_name(option)
                try:
                    self.parser.parse_object(nested({option: value}))
                except argparse.ArgumentError as error:
                    raise self._wrong_value(option, value, error) from None

    def _checked_words(self, words: list[str], base: Any) -> Any:
        try:
            return self.parser.parse_args(words, base.clone())
        except argparse.ArgumentError as error:
            for option in _split(words):
                name = option[0].partition("=")[0]
                self._check_name(name.removeprefix("--"), f"there is no option {name}.")
                try:
                    self.parser.parse_args(option, base.clone())
                except argparse.ArgumentError as wrong:
                    value = " ".join([*option[0].partition("=")[2:], *option[1:]]).strip()
                    raise self._wrong_value(name.removeprefix("--"), value, wrong) from None
            raise InputError(_one_line(error)) from None

    def _check_name(self, name: str, message: str = "") -> None:
        """Refuse an option that does not exist, with the closest one that does."""
        section, _, rest = name.partition(".")
        option = rest.split(".")[0].rstrip("+")
        classes = self._classes
        if section in classes and rest:
            known = arguments(classes[section])
            if option not in known:
                message = message or f"there is no option {name}."
                raise InputError(f"{message}{did_you_mean(option, known)}")
        elif section not in self._sections and message:
            known_names = [f"--{each}" for each in self._sections]
            known_names += [f"--{s}.{each}" for s, c in classes.items() for each in arguments(c)]
            raise InputError(f"{message}{did_you_mean(f'--{name}', known_names)}")

    def _wrong_value(self, name: str, value: object, error: Exception) -> InputError:
        section, _, option = name.partition(".")
        classes = self._classes
        hint = _type_hint(classes[section], option) if section in classes else None
        if hint is None:
            return InputError(f"{name}: {_one_line(error)}")
        return InputError(f"{name} must be {hint}, got {value!r}.")


class Configurator:
    """Makes run configurations from files and options; one parser for each class of model.

    Args:
        command: The command, for help.
        description: What the command does, for help.
        add_options: Adds the options that only this command has.
    """

    def __init__(
        self, command: str = "fit", description: str = "", add_options: AddOptions | None = None
    ) -> None:
        self._made = (command, description, add_options)
        self._parsers: dict[str, FitCLI] = {}

    def __call__(
        self, files: Sequence[str], method: str | None = None, options: Mapping[str, Any] = {}
    ) -> RunConfig:
        """A run.

        Args:
            files: Config files.
            method: Name of a method, or the path of a class.
            options: Values by option, such as ``{"model.alpha": 0.1}``; they override the files.
        """
        data = {
            name.removeprefix("data."): value
            for name, value in options.items()
            if name in ("data.dataset", "data.path")
        }
        return self.parse(Request(resolve(files, method, data), options=options))[0]

    def parse(self, request: Request) -> tuple[RunConfig, Any]:
        """The run, and the values of all options of the command."""
        return self.cli(request.resolved.model.class_path).parse(request)

    def cli(self, class_path: str) -> FitCLI:
        """The parser for a class of models."""
        if class_path not in self._parsers:
            cls = import_class(class_path)
            if not issubclass(cls, NodeClassificationModule):
                raise InputError(f"{class_path} is not a subclass of NodeClassificationModule.")
            self._parsers[class_path] = FitCLI(cls, *self._made)
        return self._parsers[class_path]


def print_model_help(name: str, class_path: str) -> None:
    """Print the options of one method."""
    parser = LightningArgumentParser(
        usage=f"pamt fit --model {name} [options]", description="", add_help=False
    )
    parser.add_class_arguments(import_class(class_path), "model", skip={*SIZES}, fail_untyped=False)
    parser.print_help()


@dataclass(frozen=True)
class FitOptions:
    """The options of `pamt fit` inside a command that makes many runs.

    Attributes:
        choices: Config files, model and data.
        config: The run that the command line describes.
        options: The values of the options on the command line, by name.
        configurator: Makes further runs.
    """

    choices: Choices
    config: RunConfig
    options: Mapping[str, Any]
    configurator: Configurator

    @classmethod
    def parse(cls, command: str, args: Sequence[str]) -> FitOptions:
        """Read a command line.

        Raises:
            SystemExit: After ``--help``.
        """
        choices = Choices.read(args)
        resolved = choices.resolve()
        configurator = Configurator(command)
        if choices.help_of is not None:
            print_model_help(resolved.model.name, resolved.model.class_path)
            raise SystemExit(0)
        parser = configurator.cli(resolved.model.class_path).parser
        if choices.shows_help:
            parser.print_help()
            raise SystemExit(0)
        config, _ = configurator.parse(Request(resolved, choices.words, choices.options))
        typed = dict(parser.parse_args(list(choices.words), defaults=False).items())
        return cls(choices, config, {**typed, **choices.options}, configurator)

    def configure(self, options: Mapping[str, Any], dataset: str | None = None) -> RunConfig:
        """The same run with other options.

        Args:
            options: Values by option; they override the command line.
            dataset: A data set by name, or its config file, below the files of the command line.
        """
        files = (*(() if dataset is None else (dataset_file(dataset),)), *self.choices.files)
        return self.configurator(files, self.choices.model, {**self.options, **options})


def _split(words: Sequence[str]) -> list[list[str]]:
    """Each option with its values."""
    found: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not found:
            found.append([word])
        else:
            found[-1].append(word)
    return found


def _type_hint(cls: type[Any], option: str) -> str | None:
    """The type of an argument as users read it."""
    for base in cls.__mro__:
        hints = get_type_hints(vars(base).get("__init__", object))
        if option in hints:
            hint = hints[option]
            text = hint.__name__ if isinstance(hint, type) else str(hint)
            return text.replace("typing.", "")
    return None


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith((".", "?")) else f"{text}."
