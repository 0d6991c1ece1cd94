"""A run killed with SIGKILL and resumed ends with the same bits as one that was left alone.

Each case is a real process that really dies: in pretraining, between epochs, in the middle of
writing a checkpoint. `_DRIVER` runs the ordinary command line and kills itself on the way.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning.training.checkpoint import load_checkpoint

_OPTIONS = [
    *("--trainer.max_epochs", "12", "--stopping.save_seconds", "0", "--stopping.patience", "100"),
    *("--data.synthetic.num_nodes", "240", "--data.synthetic.num_classes", "3"),
    *("--data.synthetic.num_features", "60", "--data.synthetic.words_per_node", "8"),
    *("--data.train", "5", "--data.val", "60", "--model.hidden_dim", "8", "--model.lr", "0.3"),
    *("--model.refresh_interval", "5", "--model.pretrain_epochs", "10", "--model.dropout", "0.3"),
    *("--run_dir", "run"),
]

_DRIVER = """
import os, signal, sys
import torch
from pamt_lightning.training.stopping import BestStopping
from pamt_lightning.cli.main import main
from pamt_lightning.methods.pamt import PAMTModule

torch.set_num_threads(1)
place, epoch = sys.argv[1], int(sys.argv[2])

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

if place == "pretraining":
    original_zero = PAMTModule.zero_grad
    PAMTModule.zero_grad = die  # the last thing pretraining does
if place == "epoch_start":
    original = PAMTModule.on_train_epoch_start
    def hook(self):
        if self.current_epoch == epoch:
            die()
        original(self)
    PAMTModule.on_train_epoch_start = hook
if place == "validation":
    original = PAMTModule.validation_step
    def hook(self, *args):
        if self.current_epoch == epoch:
            die()
        return original(self, *args)
    PAMTModule.validation_step = hook
if place == "checkpoint":
    original = BestStopping._write
    def hook(self, trainer, name):
        if trainer.current_epoch == epoch and name == "last.ckpt":
            save = torch.save
            def half(obj, file, *args, **kwargs):
                import io
                buffer = io.BytesIO()
                save(obj, buffer)
                half_of_it = buffer.getvalue()[: buffer.tell() // 2]
                path = self.path_of(trainer, name)
                path.with_name(f".{name}.part").write_bytes(half_of_it)
                die()
            torch.save = half
            import lightning_fabric.utilities.cloud_io as cloud_io
            cloud_io.torch.save = half
        original(self, trainer, name)
    BestStopping._write = hook
sys.exit(main(sys.argv[3:]))
"""


def pamt(folder: Path, place: str, epoch: int, *more: str) -> "subprocess.CompletedProcess[str]":
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", _DRIVER, place, str(epoch), "fit", *_OPTIONS, *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untouched")
    done = pamt(folder, "nowhere", -1)
    assert done.returncode == 0, done.stderr
    return folder / "run"


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


@pytest.mark.parametrize(
    ("place", "epoch"),
    [
        ("pretraining", 0),
        ("epoch_start", 1),
        ("epoch_start", 5),  # right before a refresh was due
        ("validation", 9),
        ("checkpoint", 6),
    ],
)
def test_a_killed_run_resumes_to_the_same_bits(
    tmp_path: Path, untouched: Path, place: str, epoch: int
) -> None:
    killed = pamt(tmp_path, place, epoch)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "run" / "results.json").exists()
    resumed = pamt(tmp_path, "nowhere", -1, "--ckpt_path", "last")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("best.ckpt", "last.ckpt"):
        expected, actual = (load_checkpoint(d / name) for d in (untouched, tmp_path / "run"))
        for part in ("state_dict", "soft_labels", "optimizer_states", "rng", "epoch"):
            assert_same(expected.get(part), actual.get(part), f"{place}: {name}: {part}")
        assert_same(expected.get("callbacks"), actual.get("callbacks"), f"{place}: {name}")
    results = [json.loads((d / "results.json").read_text()) for d in (untouched, tmp_path / "run")]
    for key in ("test_acc", "val_acc", "val_loss", "best_epoch", "epochs", "test_metrics"):
        assert results[0][key] == results[1][key], key


def test_two_runs_with_one_seed_are_the_same_bits(tmp_path: Path, untouched: Path) -> None:
    again = pamt(tmp_path, "nowhere", -1)
    assert again.returncode == 0, again.stderr
    expected, actual = (load_checkpoint(d / "last.ckpt") for d in (untouched, tmp_path / "run"))
    assert_same(expected["state_dict"], actual["state_dict"], "weights")
    assert_same(expected["soft_labels"], actual["soft_labels"], "soft labels")


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, untouched: Path) -> None:
    before = load_checkpoint(untouched / "last.ckpt")
    done = pamt(untouched.parent, "nowhere", -1, "--ckpt_path", "last")
    assert done.returncode == 0, done.stderr
    after = load_checkpoint(untouched / "last.ckpt")
    for part in ("state_dict", "soft_labels", "optimizer_states", "rng", "epoch"):
        assert_same(before[part], after[part], part)
