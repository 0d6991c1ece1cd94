"""The parser of the command line: short errors that name file, option and the right word."""

from __future__ import annotations

import difflib
import inspect
import itertools
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytorch_lightning as pl
import yaml
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from pamt_lightning.callbacks import BestStopping
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import InputError
from pamt_lightning.modules.base import NodeClassificationModule
from pamt_lightning.modules.pamt import PAMTModule
from pamt_lightning.quiet import TRAINER_DEFAULTS

DESCRIPTIONS = {
    "fit": (
        "Train on a graph, keep the best state, test it, and write results.json. "
        "`pamt fit --model.help PAMTModule` lists the options of the method."
    ),
    "validate": "Score a checkpoint on the stopping nodes.",
    "test": "Score a checkpoint on the test nodes.",
    "predict": "Write the class probabilities that a checkpoint gives to every node.",
}


class Parser(LightningArgumentParser):
    """A parser whose errors are a few lines instead of a screen of usage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An abbreviated option is a typo that nobody sees.
        super().__init__(*args, allow_abbrev=False, **kwargs)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Say what is wrong, suggest the right word, and exit with code 2."""
        message = _plain_message(message)
        wrong = re.search(r"option '(?:\w+\.)*(\w+)'|--(?:\w+\.)*(\w+)", message, re.IGNORECASE)
        if wrong:
            name = wrong[1] or wrong[2]
            known = {action.dest.rsplit(".", 1)[-1] for action in self._actions}
            known |= set(inspect.signature(PAMTModule).parameters)
            known |= set(inspect.signature(GraphDataModule).parameters)
            known |= set(inspect.signature(pl.Trainer).parameters)
            if close := difflib.get_close_matches(name, known - {name}, 1):
                message += f". Did you mean {close[0]!r}?"
        prog = self.prog.replace("[options] ", "")
        command = prog if prog.startswith("pamt ") else "pamt fit"
        print(
            f"{command}: error: {message}\n`{command} --help` lists all options.", file=sys.stderr
        )
        raise SystemExit(2)


def _plain_message(message: str) -> str:
    """Without what jsonargparse says of the other half of every ``X | None``."""
    if "Union subtypes" not in message:
        return message
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
        return parser

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
        parser.set_defaults({"model": {"class_path": "pamt_lightning.PAMTModule"}})


def check_config_files(args: list[str], sections: set[str]) -> None:
    """Find what is wrong with a config file while its name is still known.

    Args:
        args: The command line.
        sections: Top-level keys that a config may have.
    """
    for option, value in itertools.pairwise(args):
        # A value in braces is a config by itself: what a checkpoint was trained with.
        if option not in ("--config", "-c") or value.startswith("{"):
            continue
        path = Path(value)
        if not path.is_file():
            nearby = sorted(str(p) for p in path.parent.glob("*.yaml"))
            hint = f" In that folder: {', '.join(nearby)}." if nearby else ""
            raise InputError(f"there is no config file {value}.{hint}")
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            told = re.sub(r"\s+", " ", str(error)).replace('in "<unicode string>", ', "at ")
            raise InputError(f"{value} is not valid YAML: {told}") from None
        if not isinstance(content, dict):
            raise InputError(f"{value} must hold sections such as data: and model:.")
        if "ckpt_path" in content:
            raise InputError(f"{value}: `ckpt_path` belongs on the command line, not in a config.")
        for key in content:
            if key not in sections:
                close = difflib.get_close_matches(str(key), sections, 1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                known = ", ".join(sorted(sections))
                raise InputError(f"{value} has no section {key!r} (known: {known}).{hint}")


def option_value(args: list[str], option: str) -> str | None:
    """The value that ``args`` give to an option, before anything is parsed."""
    value = None
    for position, arg in enumerate(args):  # the last one counts
        if arg == option and position + 1 < len(args):
            value = args[position + 1]
        elif arg.startswith(f"{option}="):
            value = arg.split("=", 1)[1]
    return value


def names_data(args: list[str]) -> bool:
    """Whether the command line, or a config file on it, says which data to use."""
    if any(re.match(r"--data\.(dataset|path)\b", arg) for arg in args):
        return True
    for option, value in itertools.pairwise(args):
        if option in ("--config", "-c") and Path(value).is_file():
            content = yaml.safe_load(Path(value).read_text(encoding="utf-8"))
            section = content.get("data") if isinstance(content, dict) else None
            if isinstance(section, dict) and {"dataset", "path"} & set(section):
                return True
    return False
