"""What all commands share when they read the command line. Nothing here imports torch."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from pamt_lightning.errors import InputError, did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser that raises one-line errors and takes no abbreviated options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs | {"allow_abbrev": False})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse ``args``; an unknown option is reported with the closest known one."""
        found, unknown = self.parse_known_args(args, namespace)
        self.refuse(unknown)
        return found

    def refuse(self, unknown: Sequence[str]) -> None:
        """Raise an error about the first of these arguments, if there are any."""
        if unknown:
            name = unknown[0].partition("=")[0]
            what = f"there is no option {name}" if name.startswith("-") else f"unexpected {name!r}"
            known = ["--help", *re.findall(r"--[\w.-]+", self.format_usage())]
            raise InputError(f"{what}.{did_you_mean(name, known)}")

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing all options and exiting."""
        raise InputError(message if message.endswith((".", "?")) else f"{message}.")


class ActionParser(Parser):
    """The parser of one action of a command, which suggests the options of this action."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse ``args``; all must be known, as the parser of the command knows fewer options."""
        found, unknown = super().parse_known_args(args, namespace)
        self.refuse(unknown)
        return found, unknown
