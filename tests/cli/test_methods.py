from __future__ import annotations

from pathlib import Path

import pytest

from pamt_lightning.cli.main import main
from pamt_lightning.methods.registry import METHODS
from tests.small_run import failed


def test_the_list_names_all_and_how_to_run_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(METHODS)]] == [m.name for m in METHODS]
    assert max(map(len, lines)) <= 112
    aliases = [line.split(", also ")[1] for line in lines if ", also " in line]
    assert aliases == ["LP", "RGCN", "SGCN"]
    assert any("pamt fit --config configs/cora_ml.yaml --model GAT" in line for line in lines)


def test_one_method_shows_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "robust-gcn"]) == 0
    first, rest = capsys.readouterr().out.split("\n", 1)
    assert Path(first.removeprefix("# ")).read_text(encoding="utf-8") == rest
    assert main(["methods", "pamt"]) == 0
    assert "data sets" in capsys.readouterr().out


def test_wrong_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Did you mean 'GAT'?" in failed(["methods", "gatt"], capsys)
    assert "--all" in failed(["methods", "--all"], capsys)
    assert "more" in failed(["methods", "gat", "more"], capsys)
