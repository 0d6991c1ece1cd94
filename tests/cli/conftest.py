from __future__ import annotations

from pathlib import Path

import pytest

from pamt_lightning.cli.main import main
from tests.small_run import SMALL


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of one finished run; tests must not change it."""
    folder = tmp_path_factory.mktemp("finished") / "a"
    assert main(["fit", *SMALL, "--run_dir", str(folder), "--seed_everything", "3"]) == 0
    return folder
