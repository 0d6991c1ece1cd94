"""The parser of the command line: short errors that name file, option and the right word."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import pytorch_lightning as pl
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import InputError
from pamt_lightning.methods import everything as modules
from pamt_lightning.methods.everything import (
    NodeClassificationModule,  # and with it all its subclasses
)
from pamt_lightning.methods.registry import DEFAULT_CLASS
from pamt_lightning.training.quiet import TRAINER_DEFAULTS
from pamt_lightning.training.stopping import BestStopping

DESCRIPTIONS = {
    "fit": (
        "Train on a graph, keep the best state, test it, and write results.json. "
        "`--model NAME` takes another method than PAMT (`pamt methods` lists them); "
        "`pamt fit --model.help NAME` lists the options of a method."
    ),
    "validate": "Score a checkpoint on the stopping nodes.",
    "test": "Score a checkpoint on the test nodes.",
    "predict": "Write the class probabilities that a checkpoint gives to every node.",
}


_RAISES: ContextVar[bool] = ContextVar("_RAISES", default=False)
_SOURCES: ContextVar[Mapping[str, str]] = ContextVar("_SOURCES")


class _WrongOption(SystemExit):
    """What the parsers, one within the other, pass on as they would the end of the program."""


@contextmanager
def raised_errors() -> Iterator[None]:
    """Have wrong options raised: for callers that know better where they come from.

    Not an attribute of the parser, as it makes others for the options of a class.

    Raises:
        InputError: An option is unknown or its value wrong.
    """
    token = _RAISES.set(True)
    try:
        yield
    except _WrongOption as error:
        message = str(error)
        raise InputError(message if message.endswith((".", "?")) else f"{message}.") from None
    finally:
        _RAISES.reset(token)


class Parser(LightningArgumentParser):
    """A parser whose errors are a few lines instead of a screen of usage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An abbreviated option is a typo that nobody sees.
        super().__init__(*args, allow_abbrev=False, **kwargs)
        self.model_class = DEFAULT_CLASS  # the one in use, as soon as it is known

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Say what is wrong, suggest the right word, and exit with code 2.

        Raises:
            InputError: Instead, within `raised_errors`.
        """
        message = _plain_message(message)
        wrong = re.search(r"option '(?:\w+\.)*(\w+)'|--(?:\w+\.)*(\w+)", message, re.IGNORECASE)
        if wrong:
            name = wrong[1] or wrong[2]
            known = {action.dest.rsplit(".", 1)[-1] for action in self._actions}
            known |= set(inspect.signature(_model_class(self.model_class)).parameters)
            known |= set(inspect.signature(GraphDataModule).parameters)
            known |= set(inspect.signature(pl.Trainer).parameters)
            if close := difflib.get_close_matches(name, known - {name}, 1):
                message += f". Did you mean {close[0]!r}?"
        message = _with_source(message)
        if _RAISES.get():
            raise _WrongOption(" ".join(message.split()))
        prog = self.prog.replace("[options] ", "")
        command = prog if prog.startswith("pamt ") else "pamt fit"
        model = self.model_class.rpartition(".")[2]
        print(
            f"{command}: error: {message}\n`{command} --help` lists all options, "
            f"`pamt fit --model.help {model}` those of the model.",
            file=sys.stderr,
        )
        raise SystemExit(2)


def _with_source(message: str) -> str:
    """The message after the name of the file that the option is in, if it is in one."""
    found = re.match(r"option '(?:\w+\.)*(\w+)'|(?:\w+\.)*(\w+): ", message, re.IGNORECASE)
    source = _SOURCES.get({}).get(found[1] or found[2], "") if found else ""
    return f"{source}: {message}" if source else message


def model_classes(base: type[Any] = NodeClassificationModule) -> dict[str, type[Any]]:
    """The classes of models that are loaded, by their bare names."""
    found = {base.__name__: base}
    for subclass in base.__subclasses__():
        found |= model_classes(subclass)
    return found


def check_model_class(class_path: str) -> None:
    """Refuse what models are derived from."""
    found = model_classes().get(class_path.rpartition(".")[2])
    if found is not None and _is_base(found):
        names = ", ".join(sorted(name for name, c in model_classes().items() if not _is_base(c)))
        raise InputError(f"{class_path} is a base of models, not a model. Models: {names}.")


def _is_base(model: type[Any]) -> bool:
    """Whether a class is only there to derive from: ours that are, but one, are not public."""
    ours = model.__module__.startswith("pamt_lightning.")
    return model is NodeClassificationModule or (ours and model.__name__ not in modules.__all__)


def _model_class(class_path: str) -> type[Any]:
    """The class of that name, if it was loaded before the error; it is not worth another one."""
    return model_classes().get(class_path.rpartition(".")[2], NodeClassificationModule)


def _plain_message(message: str) -> str:
    """In one line, without what jsonargparse says of the other half of every ``X | None``."""
    if "Union subtypes" not in message:
        wrong = re.match(r'Parser key "([\w.]+)":\s*(.+)', message, re.DOTALL)
        if not wrong:
            return message
        told = re.sub(r"Expected a <class '(\w+)'>\. Got value:", r"expected a \1, got", wrong[2])
        return f"{wrong[1]}: {' '.join(told.split())}"
    key = re.search(r'Parser key "([\w.]+)"', message)
    complaints = re.findall(
        r"^ +- (?!Expected a <class 'NoneType'>)(.+(?:\n {6,}.+)*)", message, re.M
    )
    given = re.search(r"Given value: (.+)", message)
    parts = [re.sub(r"\s+", " ", c) for c in complaints if "Union subtypes" not in c]
    told = "; ".join(parts).replace("typing.", "")
    value = f" (got {given[1]})" if given and "is not accepted" not in told else ""
    return f"{key[1] if key else 'an option'}: {told}{value}"


_CKPT_HELP = {
    "fit": "Go on with a run: `last` (the newest run of these options), its folder or last.ckpt.",
    "other": "The trained model: best.ckpt, or the folder of its run.",
}


class ParsedCLI(LightningCLI):
    """LightningCLI with our options, in the order people look for them."""

    def _prepare_subcommand_parser(
        self, klass: type, subcommand: str, **kwargs: Any
    ) -> LightningArgumentParser:
        kwargs.update(usage=f"pamt {subcommand} [options]", description=DESCRIPTIONS[subcommand])
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand == "fit":
            # The sizes of a trained model are its checkpoint's; those of a new one are the data's.
            for size in ("num_features", "num_classes"):
                parser.link_arguments(
                    f"data.{size}", f"model.init_args.{size}", apply_on="instantiate"
                )
            parser.add_argument(
                "--test_after_fit", type=bool, default=True, help="Test the best state after fit."
            )
            parser.add_argument(
                "--run_dir",
                type=str | None,
                default=None,
                help="Folder of this run. Default: a new one below lightning_logs/.",
            )
        elif subcommand == "predict":
            parser.add_argument(
                "--output", type=str, default="predictions.csv", help="The CSV file to write."
            )
        for action in parser._actions:
            if action.dest == "ckpt_path":
                action.help = _CKPT_HELP.get(subcommand, _CKPT_HELP["other"])
            elif action.dest == "model":
                action.help = "A method by name (`pamt methods`), or the class of your own model."
        return parser

    @staticmethod
    def parsed(parser: LightningArgumentParser, args: list[str], sources: Mapping[str, str]) -> Any:
        """What was typed; errors name where an option comes from, by its bare name."""
        token = _SOURCES.set(sources)
        try:
            return parser.parse_args(args)
        finally:
            _SOURCES.reset(token)

    def sections(self, command: str) -> tuple[set[str], set[str]]:
        """The top-level keys of a config that a command knows, and those that only others do."""
        known = {
            name: {action.dest.split(".")[0] for action in self._parser(name)._actions}
            - {"help", "config", "print_config"}
            for name in self.subcommands()
        }
        return known[command], set().union(*known.values()) - known[command]

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Lightning's, without the choice to load checkpoints unsafely."""
        return {name: skip | {"weights_only"} for name, skip in LightningCLI.subcommands().items()}

    def add_core_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Data and model first: that is what people look for in `--help`."""
        parser.add_lightning_class_args(GraphDataModule, "data")
        parser.add_lightning_class_args(NodeClassificationModule, "model", subclass_mode=True)
        # `dirpath` is the run's folder: --run_dir.
        parser.add_class_arguments(BestStopping, "stopping", skip={"dirpath"})
        parser.callback_keys.append("stopping")
        parser.add_lightning_class_args(pl.Trainer, "trainer")
        parser.set_defaults({f"trainer.{name}": value for name, value in TRAINER_DEFAULTS.items()})
        # No default for the model: its values would stay when another class is chosen.
