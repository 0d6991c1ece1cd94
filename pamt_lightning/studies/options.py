"""The options that `pamt bench`, `pamt study` and `pamt tune` share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from pamt_lightning.errors import InputError
from pamt_lightning.spelling import did_you_mean

FIXED = ("--data.split_seed", "--seed_everything", "--ckpt_path", "--run_dir", "--print_config")
_INSTEAD = {"--data.split_seed": "--seeds", "--seed_everything": "--inits"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of all options, with the word that may have been meant."""
        if unknown := re.search(r"unrecognized arguments: (--[^\s=]+)", message):
            message = f"there is no option {unknown[1]}."
            message += did_you_mean(unknown[1], self._option_string_actions)
        raise InputError(message if message.endswith((".", "?")) else f"{message}.")


def command_parser(prog: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser that guesses no option from its beginning."""
    return _Parser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_common(
    parser: argparse.ArgumentParser,
    *,
    seeds: str | None,
    folder: str,
    seeds_help: str = "splits: test20 (the first 20 published test seeds), val5, or a list: "
    "test0,7,42",
    retry_help: str = "try failed runs again",
) -> None:
    """Add them.

    Args:
        parser: Gets them.
        seeds: Splits unless others are typed; none leaves them to the study.
        folder: Where results go unless another is typed, as the help says it.
        seeds_help: What ``--seeds`` takes.
        retry_help: What ``--retry`` does.
    """
    of_study = seeds is None
    parser.add_argument(
        "--seeds",
        default=seeds,
        metavar="LIST",
        help=f"{seeds_help}; default {'those of the study' if of_study else seeds}",
    )
    parser.add_argument(
        "--inits",
        type=int,
        metavar="M",
        help=f"initialisations of each split; default {'that of the study' if of_study else 1}",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="J", help="processes; default as many as the cores allow"
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="T", help="threads of each run; default 1"
    )
    parser.add_argument("--folder", metavar="DIR", help=f"where results go; default {folder}")
    parser.add_argument("--retry", action="store_true", help=retry_help)


def refuse(command: str, args: Sequence[str], names: Sequence[str] = FIXED) -> None:
    """Refuse options of `pamt fit` that many runs cannot share."""
    for name in names:
        if any(word == name or word.startswith(f"{name}=") for word in args):
            hint = f": use {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise InputError(f"`{command}` takes no {name}{hint}.")
