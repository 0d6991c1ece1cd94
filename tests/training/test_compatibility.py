"""Checkpoints and configurations of version 0.1 still work with this one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pamt_lightning.cli.main import main
from pamt_lightning.errors import CheckpointError
from pamt_lightning.training.checkpoint import layer_of, load_checkpoint
from tests.small_run import failed, output_of, parsed, rows_of

OLD = Path(__file__).parents[1] / "fixtures" / "version_0_1"
EXPECTED: dict[str, dict[str, Any]] = json.loads((OLD / "expected.json").read_text())
NAMES = sorted({file.parent.name for file in OLD.glob("*/best.ckpt")} - {"PAMT_plus"})


@pytest.mark.parametrize("name", NAMES)
def test_an_old_checkpoint_is_tested_and_predicts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed: list[dict[str, float]] = []
    monkeypatch.setattr(
        "pamt_lightning.training.report.print_metrics", lambda metrics, *_: printed.append(metrics)
    )
    checkpoint = ["--ckpt_path", str(OLD / name / "best.ckpt")]
    quiet = ["--trainer.enable_progress_bar", "false"]
    assert main(["test", *checkpoint, *quiet]) == 0
    assert printed[0] == pytest.approx(EXPECTED[name]["test_metrics"], abs=1e-6)
    assert main(["validate", *checkpoint, *quiet]) == 0
    assert printed[1]["val_acc"] == pytest.approx(EXPECTED[name]["val_acc"], abs=1e-6)
    assert main(["predict", *checkpoint, *quiet, "--output", "p.csv"]) == 0
    rows = rows_of("p.csv")
    for node, expected in EXPECTED[name]["predictions"].items():
        row = rows[int(node)]
        assert row["node_id"] == node
        found = [float(row[f"p_class_{number}"]) for number in range(len(expected))]
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


def test_an_old_checkpoint_of_pamt_plus_is_refused_with_the_reason() -> None:
    for command in ("test", "predict"):
        line = failed([command, "--ckpt_path", str(OLD / "PAMT_plus" / "best.ckpt")])
        assert "earlier version of PAMT_plus" in line
        assert "train again" in line


def test_a_checkpoint_is_refused_by_the_oldest_format_of_its_method() -> None:
    checkpoint = {**load_checkpoint(OLD / "PAMT_plus" / "best.ckpt"), "format": 4}
    layer_of(checkpoint, with_data=False)
    with pytest.raises(CheckpointError, match="earlier version of PAMT_plus"):
        layer_of({**checkpoint, "format": 3}, with_data=False)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_configuration_is_accepted(name: str) -> None:
    config = parsed(["--config", str(OLD / name / "config.yaml")])
    # Variants were named by their values; now a run is named as the user chooses.
    assert config["model"]["class_path"] == (
        "PAMT" if name in ("PAMT_0", "PAMT_1", "PAMT_r") else name
    )
    assert config["data"]["synthetic"]["num_nodes"] == 240
    assert config["trainer"]["max_epochs"] == 40


def test_an_old_configuration_is_run(tmp_path: Path) -> None:
    argv = ["fit", "--config", str(OLD / "PAMT" / "config.yaml"), "--run_dir", str(tmp_path)]
    assert output_of(argv)[0].startswith("PAMT on synthetic (240 nodes")


@pytest.mark.parametrize("path", ["PAMT", "PAMT/last.ckpt"])
def test_an_old_run_cannot_be_resumed_and_says_what_to_do(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(OLD / "PAMT", "PAMT")
    before = {file.name: file.read_bytes() for file in Path("PAMT").iterdir()}
    line = failed(["fit", "--ckpt_path", path])
    assert "earlier version" in line
    assert "pamt fit --config PAMT/config.yaml" in line
    assert {file.name: file.read_bytes() for file in Path("PAMT").iterdir()} == before
