"""What all commands share when they read the command line. Nothing here imports torch."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from pamt_lightning.errors import InputError, did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser that raises one-line errors and takes no abbreviated options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        self._names: list[str] = []  # first: the base class adds --help
        kwargs["allow_abbrev"] = False
        super().__init__(*args, **kwargs)

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """Add an argument and remember its name for suggestions."""
        action = super().add_argument(*args, **kwargs)
        self._names += action.option_strings
        return action

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse ``args``; an unknown option is reported with the closest known one."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            what = f"there is no option {name}" if name.startswith("-") else f"unexpected {name!r}"
            raise InputError(f"{what}.{did_you_mean(name, self._names)}")
        return found

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing all options and exiting."""
        raise InputError(message if message.endswith((".", "?")) else f"{message}.")
