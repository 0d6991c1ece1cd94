"""Every method from the command line: fit, test, predict, resume; and its memory on MS_Academic."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from pamt_lightning import GraphDataModule
from pamt_lightning.cli.main import main
from pamt_lightning.data.synthetic_options import SyntheticOptions
from pamt_lightning.methods.registry import methods

SMALL = [
    *("--data.synthetic.num_nodes", "240", "--data.synthetic.num_classes", "3"),
    *("--data.synthetic.num_features", "60", "--data.synthetic.words_per_node", "8"),
    *("--data.train", "5", "--data.val", "60", "--trainer.max_epochs", "4"),
]
NAMES = [method.name for method in methods()]


def test_there_are_fifteen() -> None:
    assert len(NAMES) == 15


def weights(folder: Path) -> dict[str, torch.Tensor]:
    loaded: dict[str, Any] = torch.load(folder / "best.ckpt", weights_only=True)
    state: dict[str, torch.Tensor] = loaded["state_dict"]
    return state


def true_classes(folder: Path) -> dict[int, str]:
    """Class of each test node of the run in ``folder``."""
    config = yaml.safe_load((folder / "config.yaml").read_text())["data"]
    options = {**config, "synthetic": SyntheticOptions(**config["synthetic"])}
    data = GraphDataModule(**options)
    data.setup("test")
    index = data.graph.test_index
    assert index is not None
    return {int(node): data.graph.class_names[int(data.graph.y[node])] for node in index}


@pytest.mark.parametrize("name", NAMES)
def test_fit_test_predict_and_resume(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "--model", name, *SMALL]) == 0
    assert capsys.readouterr().out.startswith(f"{name} on synthetic (240 nodes")
    (folder,) = Path(f"lightning_logs/synthetic/{name}").glob("split*_init0/version_0")
    results = json.loads((folder / "results.json").read_text())
    assert results["method"] == name
    assert results["epochs"] == (1 if name == "LabelPropagation" else 4)
    assert main(["test", "--ckpt_path", str(folder)]) == 0
    tested = capsys.readouterr().out
    assert tested.startswith(f"{name} on synthetic")
    assert f"{100 * results['test_acc']:.2f} %" in tested
    assert main(["predict", "--ckpt_path", str(folder), "--output", "p.csv"]) == 0
    with open("p.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 240
    assert all(math.isfinite(float(row["probability"])) for row in rows)
    test = true_classes(folder)
    right = [rows[node]["class"] == truth for node, truth in test.items()]
    assert sum(right) / len(right) == pytest.approx(results["test_acc"])
    before = weights(folder)
    capsys.readouterr()
    assert main(["fit", "--ckpt_path", str(folder)]) == 0  # finished: nothing is left to do
    done = f"Going on after epoch {results['epochs']} of {folder / 'last.ckpt'}.\n"
    assert capsys.readouterr().err == done
    assert json.loads((folder / "results.json").read_text())["test_acc"] == results["test_acc"]
    after = weights(folder)
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_a_run_is_not_gone_on_with_another_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    assert main(["fit", "--model", "PTS", *SMALL, "--run_dir", folder]) == 0
    again = ["fit", "--model", "PTA", *SMALL, "--run_dir", folder, "--ckpt_path", "last"]
    assert main(again) == 2
    assert "is of a PTSModule, now the model is a PTAModule" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_learns_on_the_synthetic_graph_as_shipped(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "--model", name, "--run_dir", "run"]) == 0
    results = json.loads(Path("run/results.json").read_text())
    least = {"MLP": 0.15, "LabelPropagation": 0.4}.get(name, 0.5)
    assert results["test_acc"] > 1 / 6 + least  # six classes of about one size


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ms_academic_needs_less_than_three_gigabytes(name: str, tmp_path: Path) -> None:
    if not (data := os.environ.get("PAMT_TEST_DATA")):
        pytest.skip("PAMT_TEST_DATA does not name the folder of ms_academic.npz")
    config = Path(__file__).parents[1] / "configs" / "ms_academic.yaml"
    command = [sys.executable, "-m", "pamt_lightning.cli.main", "fit", "--config", str(config)]
    command += ["--model", name, "--trainer.max_epochs", "3", "--run_dir", str(tmp_path / "run")]
    subprocess.run(command, env={**os.environ, "PAMT_DATA": data}, check=True, timeout=600)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["method"] == name
    assert results["peak_memory_mb"] < 3000
