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
    *("--model.weight_decay", "[0.001, 0.05]", "--model.decay_epochs", "6"),
]
# Each child really dies in a method of the module or the trainer, in the given epoch.
PLACES = {
    "pretraining": ("zero_grad", 0),  # the last thing that pretraining calls
    "first_epoch": ("on_train_epoch_start", 1),
    "refresh": ("on_train_epoch_start", 5),
    "validation": ("validation_step", 9),
    "checkpoint": ("save_checkpoint", 6),  # half of last.ckpt is written
}
_DRIVER = """
import json, os, signal, sys
import pytorch_lightning as pl, torch
from pamt_lightning import PAMTModule
from pamt_lightning.cli.main import main

def die_in(cls, name, epoch):
    original = getattr(cls, name)
    def hook(self, *args, **kwargs):
        if self.current_epoch == epoch and name != "save_checkpoint":
            os.kill(os.getpid(), signal.SIGKILL)
        found = original(self, *args, **kwargs)
        if self.current_epoch == epoch and "last" in str(args[0]):
            os.truncate(args[0], os.path.getsize(args[0]) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(cls, name, hook)

torch.set_num_threads(1)
for place, (name, epoch) in json.loads(sys.argv[1]).items():
    child = os.fork()
    if child == 0:
        die_in(pl.Trainer if name == "save_checkpoint" else PAMTModule, name, epoch)
        os._exit(main(["fit", *sys.argv[2:], "--run_dir", place]))
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
        for key in a.keys() - {"seconds"}:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        for number, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{number}]")
    else:
        assert a == b, where


def assert_same_run(expected: Path, actual: Path) -> None:
    for name in ("best.ckpt", "last.ckpt"):
        one, other = (load_checkpoint(folder / name) for folder in (expected, actual))
        for part in ("state_dict", "soft_labels", "optimizer_states", "rng", "epoch", "callbacks"):
            assert (part in one) or (name == "best.ckpt"), part
            assert_same(one.get(part), other.get(part), f"{name}: {part}")
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


@pytest.fixture
def interrupt_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `pamt fit` and presses Ctrl-C in an epoch."""
    original = PAMTModule.on_train_epoch_start

    def interrupt_in(epoch: int, argv: list[str]) -> None:
        def interrupt(module: PAMTModule) -> None:
            if module.current_epoch == epoch:
                raise KeyboardInterrupt
            original(module)

        # Lightning ignores further interrupts after the first and leaves it so.
        before = signal.getsignal(signal.SIGINT)
        with monkeypatch.context() as patch:
            patch.setattr(PAMTModule, "on_train_epoch_start", interrupt)
            assert main(["fit", *OPTIONS, *argv]) == 130
        signal.signal(signal.SIGINT, before)

    return interrupt_in


@pytest.mark.parametrize("more", [[], OPTIONS])
def test_an_interrupted_run_resumes_to_the_same_bits(
    more: list[str],
    untouched: Path,
    tmp_path: Path,
    interrupt_in: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = str(tmp_path / "run")
    interrupt_in(7, ["--run_dir", folder])
    line = capsys.readouterr().err.strip()
    assert line == f"pamt fit: interrupted; resume with: pamt fit --ckpt_path {folder}"
    assert main(["fit", *more, "--ckpt_path", folder]) == 0
    assert f"after epoch 7 of {folder}/last.ckpt" in capsys.readouterr().err
    assert_same_run(untouched, tmp_path / "run")


@pytest.mark.parametrize("argv", [[], ["--run_dir", "mine"]])
def test_an_interrupt_before_the_first_save_leaves_no_new_folder_and_says_so(
    argv: list[str],
    tmp_path: Path,
    interrupt_in: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    interrupt_in(0, argv)
    line = capsys.readouterr().err.strip()
    assert line.startswith("pamt fit: interrupted; nothing was saved yet")
    assert line.endswith("." if argv else "version_0 is removed.")
    assert bool(list(tmp_path.rglob("config.yaml"))) == bool(argv)
    assert not list(tmp_path.rglob("version_*"))


@pytest.mark.parametrize("epochs", [6, 12])
def test_a_shorter_run_is_continued_and_a_finished_one_stays_finished(
    epochs: int, tmp_path: Path, untouched: Path
) -> None:
    folder = tmp_path / "run"
    run = ["--run_dir", str(folder), "--trainer.max_epochs"]
    assert main(["fit", *OPTIONS, *run, str(epochs)]) == 0
    seconds = results(folder)["seconds"]
    assert main(["fit", *OPTIONS, *run, "12", "--ckpt_path", "last"]) == 0
    assert_same_run(untouched, folder)
    assert (results(folder)["seconds"] == seconds) == (epochs == 12)


def test_a_rising_weight_decay_resumes_to_the_same_bits(tmp_path: Path, interrupt_in: Any) -> None:
    pair = ["--model.weight_decay", "[0.001, 0.5]", "--model.decay_epochs", "12"]
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert main(["fit", *OPTIONS, *pair, "--run_dir", str(whole)]) == 0
    interrupt_in(7, [*pair, "--run_dir", str(resumed)])
    assert main(["fit", "--ckpt_path", str(resumed)]) == 0
    assert_same_run(whole, resumed)
    groups = load_checkpoint(whole / "last.ckpt")["optimizer_states"][0]["param_groups"]
    assert groups[0]["weight_decay"] == pytest.approx(0.5)


def test_a_run_on_data_that_changed_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own_graph(tmp_path / "mine")
    options = ["--data.train", "4", "--trainer.max_epochs", "3", "--run_dir", str(tmp_path / "r")]
    options += ["--data.path", str(tmp_path / "mine"), "--trainer.enable_progress_bar", "false"]
    assert main(["fit", *options]) == 0
    with open(tmp_path / "mine" / "edges.csv", "a") as edges:
        edges.write("\nn0,n1")
    capsys.readouterr()
    assert main(["fit", *options, "--ckpt_path", "last", "--trainer.max_epochs", "5"]) == 2
    assert "other data" in capsys.readouterr().err
