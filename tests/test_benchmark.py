import json
from pathlib import Path

import pytest

from pamt_lightning.main import main


def test_the_benchmark_prints_and_writes_a_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "figures.json"
    argv = ["--epochs", "2", "--rounds", "2", "--hidden_dim", "4", "--output", str(output)]
    assert main(["benchmark", *argv]) == 0
    figures = json.loads(output.read_text())
    assert figures["ratio"] > 0
    assert figures["plain_loop_ms"] > 0
    assert "ratio" in capsys.readouterr().out
