"""What tests of the command line share."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pamt_lightning.cli.main import main


def parsed(argv: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The configuration that `pamt fit` makes of the arguments."""
    with pytest.raises(SystemExit) as stop:
        main(["fit", *argv, "--print_config"])
    captured = capsys.readouterr()
    assert stop.value.code in (0, None), captured.err
    config: dict[str, Any] = yaml.safe_load(captured.out)
    return config
