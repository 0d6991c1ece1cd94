from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from pamt_lightning.benchmarks import measure, timing
from pamt_lightning.cli.main import main
from pamt_lightning.training.config import RunConfig
from tests.small_run import failed

SMALL = ["--datasets", "synthetic", "--rounds", "2", "--epochs", "2", "--max_edges", "10000"]


@pytest.fixture(autouse=True)
def _short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    config_of = measure.Plan.config_of

    def short(plan: measure.Plan, dataset: str) -> RunConfig:
        return config_of(plan, dataset).with_options({"stopping.patience": 2})

    monkeypatch.setattr(measure.Plan, "config_of", short)
    monkeypatch.setattr(timing, "COPIED", 1 << 20)


def test_every_part_prints_and_writes_its_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["speed", *SMALL, "--hidden_dim", "4", "--folder", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "benchmark.json").read_text())
    for part in ("epoch", "trainer", "fit", "refresh", "layer"):
        (row,) = content[part]
        assert row["what"] == "synthetic"
        assert 0 < row["spread"][0] <= row["ratio"] <= row["spread"][1]
    names = [row["what"] for row in content["propagation"]]
    assert names == ["random neighbours", "near neighbours"]
    (size,) = content["growth"]["sizes"]
    assert size["edges"] == pytest.approx(10_000, rel=0.25)  # pairs drawn twice count once
    assert size["memory"] > 1e5
    assert content["environment"]["threads"] == torch.get_num_threads()
    # A figure needs two sizes.
    assert capsys.readouterr().out == (tmp_path / "benchmark.md").read_text()


def test_parts_and_threads_can_be_chosen_and_what_is_missing_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "find_spec", lambda name: None)
    monkeypatch.delenv("PAMT_DATA", raising=False)
    monkeypatch.setenv("PAMT_CACHE", str(tmp_path / "cache"))
    argv = ["epoch", "layer", *SMALL, "--threads", "2", "--folder", str(tmp_path)]
    argv += ["--datasets", "synthetic,ms_academic", "--hidden_dim", "4"]
    assert main(["benchmark", *argv]) == 0  # the name in version 0.1
    content = json.loads((tmp_path / "benchmark.json").read_text())
    assert content["environment"]["threads"] == 2
    assert set(content) == {"environment", "layer", "growth"}
    captured = capsys.readouterr()
    assert captured.out.count("## ") == 1
    assert "epoch, synthetic is left out: it needs pip" in captured.err
    assert "ms_academic is left out: " in captured.err


@pytest.mark.parametrize(
    ("argv", "facts"),
    [
        (["--rounds", "0"], ("--rounds", "got 0")),
        (["--max_edges", "99"], ("--max_edges", "10000", "got 99")),
        (["epochs"], ("PART", "trainer", "'epochs'", "'epoch'?")),
        (["--datasets", "cora"], ("--datasets", "cora_ml", "'cora'")),
        (["--round", "3"], ("--round", "--rounds")),
    ],
)
def test_wrong_options_are_one_line(argv: list[str], facts: tuple[str, ...]) -> None:
    error = failed(["speed", *argv])
    assert all(fact in error for fact in facts)
