"""A run that is interrupted or killed and resumed ends with the same bits as one left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning import PAMTModule
from pamt_lightning.cli.main import main
from pamt_lightning.training.checkpoint import load_checkpoint
from tests.small_run import DATA, results, write_own_graph

OPTIONS = [
    *(*DATA, "--trainer.max_epochs", "12", "--stopping.save_seconds", "0"),
    *("--model.hidden_dim", "8", "--model.lr", "0.3", "--model.dropout", "0.3"),
    *("--model.refresh_interval", "5", "--model.pretrain_epochs", "10"),
]
# Each child really dies: in pretraining, between epochs, in the middle of writing a checkpoint.
PLACES = {
    "pretraining": 0,
    "first_epoch": 1,
    "refresh": 5,
    "validation": 9,
    "checkpoint": 6,
}
_DRIVER = """
import json, os, signal, sys
import pytorch_lightning as pl, torch
from pamt_lightning import PAMTModule
from pamt_lightning.cli.main import main

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def die_before(cls, name, epoch):
    original = getattr(cls, name)
    def hook(self, *args, **kwargs):
        if self.current_epoch == epoch:
            die()
        return original(self, *args, **kwargs)
    setattr(cls, name, hook)

def half_a_checkpoint(epoch):
    original = pl.Trainer.save_checkpoint
    def hook(self, path, *args, **kwargs):
        original(self, path, *args, **kwargs)
        if self.current_epoch == epoch and "last" in str(path):
            os.truncate(path, os.path.getsize(path) // 2)
            die()
    pl.Trainer.save_checkpoint = hook

torch.set_num_threads(1)
places, options = json.loads(sys.argv[1]), sys.argv[2:]
for place, epoch in places.items():
    child = os.fork()
    if child == 0:
        if place == "pretraining":
            die_before(PAMTModule, "zero_grad", epoch)  # the last thing that pretraining calls
        elif place == "checkpoint":
            half_a_checkpoint(epoch)
        else:
            hook = "validation_step" if place == "validation" else "on_train_epoch_start"
            die_before(PAMTModule, hook, epoch)
        os._exit(main(["fit", *options, "--run_dir", place]))
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (place, status)
"""


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untouched") / "run"
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert main(["fit", *OPTIONS, "--run_dir", str(folder)]) == 0
    torch.set_num_threads(before)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a killed run for each place."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-c", _DRIVER, json.dumps(PLACES), *OPTIONS]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def assert_same(a: Any, b: Any, where: str) -> None:
    assert type(a) is type(b), where
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            if key != "seconds":
                assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for number, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{number}]")
    else:
        assert a == b, where


def assert_same_run(expected: Path, actual: Path) -> None:
    for name in ("best.ckpt", "last.ckpt"):
        one, other = (load_checkpoint(folder / name) for folder in (expected, actual))
        parts = ("state_dict", "soft_labels", "optimizer_states", "rng", "epoch", "callbacks")
        for part in parts:
            assert_same(one.get(part), other.get(part), f"{name}: {part}")
    assert {"soft_labels", "rng", "optimizer_states"} <= load_checkpoint(
        actual / "last.ckpt"
    ).keys()
    for key in ("test_acc", "val_acc", "val_loss", "best_epoch", "epochs", "test_metrics"):
        assert results(expected)[key] == results(actual)[key], key


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork, no SIGKILL")
@pytest.mark.parametrize("place", PLACES)
def test_a_killed_run_resumes_to_the_same_bits(place: str, killed: Path, untouched: Path) -> None:
    folder = killed / place
    assert not (folder / "results.json").exists()
    assert (folder / "last.ckpt").exists() == (place != "pretraining")
    assert main(["fit", *OPTIONS, "--run_dir", str(folder), "--ckpt_path", "last"]) == 0
    assert_same_run(untouched, folder)


@pytest.mark.parametrize("more", [[], OPTIONS])
def test_an_interrupted_run_resumes_to_the_same_bits(
    more: list[str],
    untouched: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(module: PAMTModule) -> None:
        if module.current_epoch == 7:
            raise KeyboardInterrupt
        original(module)

    original = PAMTModule.on_train_epoch_start
    folder = str(tmp_path / "run")
    # Lightning ignores further interrupts after the first and leaves it so.
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(PAMTModule, "on_train_epoch_start", interrupt)
        assert main(["fit", *OPTIONS, "--run_dir", folder]) == 130
    signal.signal(signal.SIGINT, before)
    message = capsys.readouterr().err
    assert f"pamt fit --ckpt_path {folder}" in message
    assert "Traceback" not in message
    assert main(["fit", *more, "--ckpt_path", folder]) == 0
    assert f"after epoch 7 of {folder}/last.ckpt" in capsys.readouterr().err
    assert_same_run(untouched, tmp_path / "run")


def test_an_interrupt_before_the_first_save_reports_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(module: PAMTModule) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(PAMTModule, "on_train_epoch_start", interrupt)
    assert main(["fit", *OPTIONS, "--run_dir", str(tmp_path / "run")]) == 130
    signal.signal(signal.SIGINT, before)
    assert "Nothing was saved" in capsys.readouterr().err


def test_two_runs_with_one_seed_are_the_same_bits(tmp_path: Path, untouched: Path) -> None:
    assert main(["fit", *OPTIONS, "--run_dir", str(tmp_path / "run")]) == 0
    assert_same_run(untouched, tmp_path / "run")


def test_a_longer_run_continues_a_shorter_one(tmp_path: Path, untouched: Path) -> None:
    run = ["--run_dir", str(tmp_path / "run")]
    assert main(["fit", *OPTIONS, *run, "--trainer.max_epochs", "6"]) == 0
    assert main(["fit", *OPTIONS, *run, "--ckpt_path", "last"]) == 0
    assert_same_run(untouched, tmp_path / "run")


def test_a_finished_run_stays_finished(untouched: Path) -> None:
    before = {name: load_checkpoint(untouched / name) for name in ("best.ckpt", "last.ckpt")}
    record = results(untouched)
    assert main(["fit", *OPTIONS, "--run_dir", str(untouched), "--ckpt_path", "last"]) == 0
    for name, checkpoint in before.items():
        after = load_checkpoint(untouched / name)
        for part in ("state_dict", "soft_labels", "optimizer_states", "rng", "epoch"):
            assert_same(checkpoint.get(part), after.get(part), part)
    for key in ("test_acc", "val_acc", "best_epoch", "epochs", "seconds"):
        assert results(untouched)[key] == record[key], key


def test_a_run_on_data_that_changed_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own_graph(tmp_path / "mine")
    options = ["--data.train", "4", "--trainer.max_epochs", "3", "--run_dir", str(tmp_path / "r")]
    options += ["--data.path", str(tmp_path / "mine"), "--trainer.enable_progress_bar", "false"]
    assert main(["fit", *options]) == 0
    edges = (tmp_path / "mine" / "edges.csv").read_text()
    (tmp_path / "mine" / "edges.csv").write_text(edges + "\nn0,n1")
    capsys.readouterr()
    assert main(["fit", *options, "--ckpt_path", "last", "--trainer.max_epochs", "5"]) == 2
    assert "other data" in capsys.readouterr().err
