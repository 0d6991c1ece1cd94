"""`pamt fit` as users meet it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from pamt_lightning.cli.main import main
from pamt_lightning.methods.registry import METHODS
from tests.small_run import DATA, SMALL, failed, output_of, results, write_own_graph

pytestmark = pytest.mark.usefixtures("elsewhere")


def test_a_fit_prints_a_short_table_and_nothing_else(tmp_path: Path) -> None:
    # A new process: warnings are shown once only, and pytest catches them.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pamt_lightning.cli.main", "fit", *SMALL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("PAMT on synthetic (240 nodes")
    assert len(done.stdout.splitlines()) <= 13
    assert "tensorboard --logdir lightning_logs/synthetic/PAMT" in done.stdout


def test_testing_and_logging_can_be_switched_off(tmp_path: Path) -> None:
    options = ["--run_dir", "a", "--test_after_fit", "false", "--trainer.logger", "false"]
    assert main(["fit", *SMALL, *options]) == 0
    assert results("a")["test_acc"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert not list((tmp_path / "a").glob("events*"))
    assert yaml.safe_load((tmp_path / "a" / "config.yaml").read_text())["test_after_fit"] is False


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_every_method_is_named_in_its_folder_results_and_config(name: str, tmp_path: Path) -> None:
    shown, _ = output_of(["fit", "--model", name.lower(), *DATA, "--trainer.max_epochs", "2"])
    assert shown.startswith(f"{name} on synthetic (240 nodes")
    (folder,) = Path(f"lightning_logs/synthetic/{name}").glob("split*_init0/version_0")
    first = results(folder)
    assert first["method"] == name
    assert first["epochs"] == (1 if name == "LabelPropagation" else 2)
    assert main(["fit", "--config", str(folder / "config.yaml"), "--run_dir", "b"]) == 0
    second = results("b")
    assert second["method"] == name
    assert second["test_metrics"] == first["test_metrics"]
    assert second["config"] == first["config"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file/run" in failed(["fit", *SMALL, "--run_dir", "file/run"])


@pytest.mark.parametrize(
    ("labels", "fact"), [([""] * 30, "found 0 class"), (["red"] * 3 + ["blue"] * 27, "'red'")]
)
def test_labels_that_are_missing_or_too_few_name_the_file(
    labels: list[str], fact: str, tmp_path: Path
) -> None:
    write_own_graph(tmp_path / "mine", labels)
    line = failed(["fit", "--data.path", "mine", "--data.train", "5"])
    assert "mine/nodes.csv" in line
    assert fact in line
    assert not list(tmp_path.rglob("version_*"))


# Resuming ------------------------------------------------------------------------------------


def test_a_run_of_another_class_of_the_same_name_is_not_resumed(
    finished_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished_run, tmp_path / "other")
    checkpoint = torch.load(tmp_path / "other" / "last.ckpt", weights_only=True)
    checkpoint["model_class"] = "pamt_lightning.methods.pamt_plus.PAMTPlusModule"
    torch.save(checkpoint, tmp_path / "other" / "last.ckpt")
    options = [*SMALL, "--seed_everything", "3", "--ckpt_path", "last", "--run_dir", "other"]
    line = failed(["fit", *options])
    assert "PAMTPlusModule" in line
    assert "PAMTModule" in line


def test_last_without_a_checkpoint_starts_the_run() -> None:
    _, errors = output_of(["fit", *SMALL, "--ckpt_path", "last", "--run_dir", "c"])
    assert "no last.ckpt" in errors
    assert results("c")["epochs"] == 6


def test_last_resumes_the_newest_run_and_its_config_starts_a_new_one() -> None:
    # A weight decay that rises would depend on the epochs of the trainer.
    options = [*SMALL, "--model.weight_decay", "0.025", "--trainer.default_root_dir", "root"]
    for more in ([], ["--ckpt_path", "last", "--trainer.max_epochs", "8"]):
        assert main(["fit", *options, *more]) == 0
    (folder,) = Path("root/lightning_logs/synthetic/PAMT").glob("*/version_*")
    assert results(folder)["epochs"] == 8
    assert main(["fit", "--config", str(folder / "config.yaml"), "--run_dir", "b"]) == 0
    assert results("b")["epochs"] == 8
    assert results("b")["test_metrics"] == results(folder)["test_metrics"]


def test_a_folder_alone_is_enough_to_resume_and_test_a_method(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "model: {class_path: pamt_lightning.GATModule, init_args: {hidden_dim: 4}}\n"
        "by_dataset: {synthetic: {model: {init_args: {num_heads: 3}}}}\n"
    )
    options = [*DATA, "--trainer.max_epochs", "3", "--config", "own.yaml", "--run_dir", "g"]
    assert main(["fit", *options]) == 0
    saved = yaml.safe_load((tmp_path / "g" / "config.yaml").read_text())
    assert "by_dataset" not in saved
    assert saved["model"]["init_args"]["num_heads"] == 3
    assert main(["fit", *options, "--ckpt_path", "last", "--trainer.max_epochs", "4"]) == 0
    assert main(["fit", "--ckpt_path", "g", "--trainer.max_epochs", "5"]) == 0
    assert results("g")["epochs"] == 5
    tested = rf"test_acc +{100 * results('g')['test_acc']:.2f} %"
    for more in (["--config", "own.yaml"], ["--model", "GAT"], []):  # the same command again
        assert main(["fit", *more, "--ckpt_path", "g/last.ckpt"]) == 0
        assert re.search(tested, output_of(["test", *more, "--ckpt_path", "g"])[0])


def test_a_checkpoint_alone_is_enough_to_resume(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    shutil.copy(finished_run / "last.ckpt", tmp_path / "moved")
    options = ["--seed_everything", "3", "--trainer.max_epochs", "8"]
    assert main(["fit", "--ckpt_path", "moved", *options]) == 0
    assert results("moved")["epochs"] == 8
    assert results("moved")["config"]["model"]["init_args"]["hidden_dim"] == 8


@pytest.mark.parametrize(
    ("argv", "facts"),
    [
        (["--model.lr", "0.5"], ("model.lr", "0.05", "0.5")),
        (["--data.split_seed", "5"], ("data.split_seed", "2144199730", "5")),
        (["--seed_everything", "9"], ("seed_everything = 3", "9")),
        (["--trainer.max_epochs", "2"], ("6 epochs", "trainer.max_epochs", "2")),
        (["--config", "alpha.yaml"], ("model.alpha", "0.1", "1.0")),
        (["--model", "gat"], ("--model gat", "PAMT")),
        (["--config", "gat.yaml"], ("gat.yaml", "GAT", "PAMT")),
    ],
)
def test_a_resumed_run_keeps_its_options(
    argv: list[str], facts: tuple[str, ...], finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "alpha.yaml").write_text("model: {class_path: PAMT, init_args: {alpha: 1.0}}")
    (tmp_path / "gat.yaml").write_text("model: {class_path: pamt_lightning.GATModule}")
    before = {path.name: path.read_bytes() for path in finished_run.iterdir()}
    line = failed(["fit", "--ckpt_path", str(finished_run), *argv])
    assert all(fact in line for fact in facts), line
    last = ["--ckpt_path", "last", "--run_dir", str(finished_run), "--seed_everything", "3"]
    line = failed(["fit", *DATA, *last, "--model", "PTA"])
    assert "model = PAMT, now it is PTA" in line
    assert str(finished_run) in failed(["fit", *SMALL, "--run_dir", str(finished_run)])
    assert {path.name: path.read_bytes() for path in finished_run.iterdir()} == before


def test_only_a_last_checkpoint_is_resumed(finished_run: Path) -> None:
    assert "last.ckpt" in failed(["fit", "--ckpt_path", str(finished_run / "best.ckpt")])


# Memory --------------------------------------------------------------------------------------


def test_two_hundred_thousand_nodes_fit_into_a_small_memory(tmp_path: Path) -> None:
    # One matrix of n × n floats would need 160 GB.
    options = ["--data.synthetic.num_nodes", "200000", "--model.hidden_dim", "16"]
    options += ["--trainer.max_epochs", "3", "--model.refresh_interval", "2", "--run_dir", "big"]
    command = [sys.executable, "-m", "pamt_lightning.cli.main", "fit", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert results("big")["sizes"]["nodes"] == 200_000
    assert results("big")["epochs"] == 3
    assert results("big")["peak_memory_mb"] < 2000


@pytest.mark.slow
@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_ms_academic_needs_less_than_three_gigabytes(name: str, tmp_path: Path) -> None:
    if not (data := os.environ.get("PAMT_TEST_DATA")):
        pytest.skip("PAMT_TEST_DATA does not name the folder of ms_academic.npz")
    command = [sys.executable, "-m", "pamt_lightning.cli.main", "fit", "--model", name]
    command += ["--config", "configs/ms_academic.yaml", "--trainer.max_epochs", "3"]
    command += ["--run_dir", str(tmp_path / "run")]
    subprocess.run(command, env={**os.environ, "PAMT_DATA": data}, check=True, timeout=600)
    record = json.loads((tmp_path / "run" / "results.json").read_text())
    assert record["method"] == name
    assert record["peak_memory_mb"] < 3000
