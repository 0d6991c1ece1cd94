"""The options of `pamt fit` without the run: what a study reads its runs from."""

from __future__ import annotations

import json
from typing import Any

from pamt_lightning.cli.lightning import PamtCLI
from pamt_lightning.cli.parser import raised_errors


class FitParser(PamtCLI):
    """`pamt fit` up to its configuration: nothing is seeded, built or run.

    What a study knows of its runs comes from here, so it cannot differ from the typed command.
    """

    def __init__(self) -> None:
        super().__init__("fit", [])

    def configuration(self, args: list[str]) -> dict[str, Any]:
        """The whole configuration that these arguments of `pamt fit` come to, as plain values.

        Raises:
            InputError: An option is unknown or its value wrong.
        """
        with raised_errors():
            self.parse_arguments(self.parser, ["fit", *args])
        content: dict[str, Any] = json.loads(self.parser.dump(self.config, format="json"))
        plain: dict[str, Any] = content["fit"]
        return plain

    def _set_seed(self) -> None:
        pass

    def instantiate_classes(self) -> None:
        """Nothing."""

    def _run_subcommand(self, subcommand: str) -> None:
        pass
