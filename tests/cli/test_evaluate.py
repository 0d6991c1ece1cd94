"""`pamt test`, `pamt validate` and `pamt predict`: a trained model on its own and other data."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

from pamt_lightning.cli.main import main
from pamt_lightning.methods.registry import METHODS
from pamt_lightning.training.checkpoint import load_checkpoint
from tests.small_run import DATA, failed, output_of, results, rows_of, write_own_graph

COMMANDS = ("test", "validate", "predict")
QUIET = ["--trainer.enable_progress_bar", "false"]


pytestmark = pytest.mark.usefixtures("elsewhere")


def fit_own(name: str, *options: str) -> None:
    """Train on a graph of the user's own; the run is in the folder ``r``."""
    train = ["--data.train", "4", *QUIET, "--run_dir", "r", "--trainer.max_epochs", "3"]
    assert main(["fit", "--data.path", name, *train, *options]) == 0


@pytest.mark.parametrize("path", ["", "best.ckpt"])
def test_a_checkpoint_alone_gives_the_metrics_of_its_run(path: str, finished_run: Path) -> None:
    record = results(finished_run)
    checkpoint = ["--ckpt_path", str(finished_run / path), *QUIET]
    for command, name in (("test", "test_acc"), ("validate", "val_acc")):
        shown, errors = output_of([command, *checkpoint])
        assert errors == ""
        assert shown.startswith("PAMT on synthetic (240 nodes")
        assert re.search(rf"{name} +{100 * record[name]:.2f} %", shown)
    assert re.search(rf"val_loss +{record['val_loss']:.4f}", shown)


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_predictions_of_every_method_give_the_test_accuracy_of_its_run(
    name: str, tmp_path: Path
) -> None:
    """Also a finished run that is resumed stays as it is."""
    write_own_graph(tmp_path / "mine")
    (tmp_path / "split").mkdir()
    parts = {"train": range(8), "val": range(8, 14), "test": range(14, 30)}
    for part, nodes in parts.items():
        (tmp_path / "split" / f"{part}.txt").write_text("".join(f"n{i}\n" for i in nodes))
    fit_own("mine", "--data.split_path", "split", "--model", name)
    record = results("r")
    assert main(["predict", "--ckpt_path", "r", *QUIET]) == 0
    rows = rows_of("predictions.csv")
    right = [rows[i]["class"] == ("blue" if i % 2 else "red") for i in parts["test"]]
    assert sum(right) / len(right) == pytest.approx(record["test_acc"])
    best = load_checkpoint(Path("r/best.ckpt"))["state_dict"]
    _, errors = output_of(["fit", "--ckpt_path", "r"])
    assert f"after epoch {record['epochs']} of r/last.ckpt" in errors
    assert results("r")["test_metrics"] == record["test_metrics"]
    after = load_checkpoint(Path("r/best.ckpt"))["state_dict"]
    assert best.keys() == after.keys()
    assert all(torch.equal(value, after[key]) for key, value in best.items())


def test_a_new_graph_without_labels_is_predicted_and_one_with_other_classes_refused(
    tmp_path: Path,
) -> None:
    write_own_graph(tmp_path / "mine")
    write_own_graph(tmp_path / "new", [""] * 30, 1)
    fit_own("mine", "--model.hidden_dim", "8", "--trainer.max_epochs", "30")
    argv = ["--ckpt_path", "r", "--data.path", "new", "--output", "p.csv", *QUIET]
    assert main(["predict", *argv]) == 0
    rows = rows_of("p.csv")
    assert [row["node_id"] for row in rows] == [f"n{i}" for i in range(30)]
    right = sum(row["class"] == ("blue" if i % 2 else "red") for i, row in enumerate(rows))
    assert right >= 27
    write_own_graph(tmp_path / "other", ["green"] * 30, 1)
    line = failed(["test", "--ckpt_path", "r", "--data.path", "other"])
    assert "other" in line
    assert "'green'" in line


def test_data_with_other_attributes_is_refused(finished_run: Path, tmp_path: Path) -> None:
    write_own_graph(tmp_path / "mine", [""] * 30)
    line = failed(["predict", "--ckpt_path", str(finished_run), "--data.path", "mine"])
    assert "60 attributes" in line
    assert "mine has 2" in line


@pytest.mark.parametrize("scale", ["none", "l1", "standard"])
def test_columns_are_ordered_and_scaled_as_in_training(
    scale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_own_graph(tmp_path / "mine")
    fit_own("mine", "--data.scale_features", scale)
    rows = [line.split(",") for line in (tmp_path / "mine" / "nodes.csv").read_text().split()]
    for name, header in (("swapped", "b"), ("odd", "c")):
        (tmp_path / name).mkdir()
        shutil.copy(tmp_path / "mine" / "edges.csv", tmp_path / name)
        lines = [f"{i},{label},{b},{a}" for i, label, a, b in rows]
        lines[0] = f"id,label,{header},a"
        (tmp_path / name / "nodes.csv").write_text("\n".join(lines))
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")  # the checkpoint finds its data from any folder
    written = set()
    for more in ([], ["--data.path", "../mine"], ["--data.path", "../swapped"]):
        assert main(["predict", "--ckpt_path", "../r", *more, *QUIET, "--output", "p.csv"]) == 0
        written.add(Path("p.csv").read_bytes())
    assert len(written) == 1
    line = failed(["predict", "--ckpt_path", "../r", "--data.path", "../odd"])
    assert "odd" in line
    assert "`b`" in line


def test_a_config_leaves_data_and_values_of_the_checkpoint(
    finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "cpu.yaml").write_text("trainer: {accelerator: cpu}")
    (tmp_path / "alpha.yaml").write_text("model: {class_path: PAMT, init_args: {alpha: 1.0}}")
    outputs = []
    for more in (
        [],
        ["--config", "cpu.yaml"],
        ["--config", "alpha.yaml"],
        ["--model", "pamt"],
        ["--model", "PAMT_1"],
        ["--config", str(finished_run / "config.yaml")],
        [*DATA],
        ["--model.alpha", "1.0"],  # the user insists
    ):
        argv = ["--ckpt_path", str(finished_run), *more, *QUIET, "--output", "p.csv"]
        assert main(["predict", *argv]) == 0
        outputs.append((tmp_path / "p.csv").read_bytes())
    assert len({*outputs[:-1]}) == 1
    assert outputs[-1] != outputs[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_the_configuration_and_errors_are_printed(
    command: str, finished_run: Path, tmp_path: Path
) -> None:
    assert "--ckpt_path" in output_of([command, "--help"])[0]
    assert "--ckpt_path" in failed([command])
    for name in ("best", "last", "nowhere/best.ckpt"):
        assert name in failed([command, "--ckpt_path", name])
    checkpoint = ["--ckpt_path", str(finished_run)]
    shown, _ = output_of([command, *checkpoint, "--print_config"])
    assert "hidden_dim: 8" in shown
    line = failed([command, *checkpoint, "--model", "gat"])
    assert all(fact in line for fact in ("--model gat", "GAT", "PAMT"))
    assert "hidden_dim" in failed([command, *checkpoint, "--model.hiden_dim", "3"])
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written_is_named(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    argv = ["--ckpt_path", str(finished_run), "--output", "file/p.csv", *QUIET]
    assert "file/p.csv" in failed(["predict", *argv])
