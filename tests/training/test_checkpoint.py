"""Opening checkpoints: what is damaged, foreign or hostile is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning import run
from pamt_lightning.errors import CheckpointError
from pamt_lightning.methods.base import CHECKPOINT_FORMAT
from pamt_lightning.training.checkpoint import find_checkpoint, layer_of, load_checkpoint
from tests.small_run import small_config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "a"
    run(small_config("PAMT_0", hidden_dim=8), quiet=True, folder=folder)
    return folder


def test_a_checkpoint_is_a_file_or_in_a_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_checkpoint(folder) == find_checkpoint(folder / "best.ckpt") == folder / "best.ckpt"
    assert find_checkpoint(str(folder), "last.ckpt") == folder / "last.ckpt"
    monkeypatch.setenv("HOME", str(folder.parent))
    assert find_checkpoint("~/a") == folder / "best.ckpt"


@pytest.mark.parametrize(
    ("path", "name", "facts"),
    [
        ("missing.ckpt", "best.ckpt", r"missing\.ckpt.* best\.ckpt, last\.ckpt"),
        ("empty", "last.ckpt", r"empty/last\.ckpt.* before its first save"),
        ("nowhere/x.ckpt", "best.ckpt", r"nowhere/x\.ckpt"),
    ],
)
def test_a_missing_checkpoint_is_named(path: str, name: str, facts: str, folder: Path) -> None:
    (folder / "empty").mkdir(exist_ok=True)
    with pytest.raises(CheckpointError, match=facts):
        find_checkpoint(folder / path, name)


def test_a_checkpoint_holds_what_its_run_was(folder: Path) -> None:
    for name in ("best.ckpt", "last.ckpt"):
        checkpoint = load_checkpoint(folder / name)
        assert checkpoint["format"] == CHECKPOINT_FORMAT
        assert checkpoint["GraphDataModule"]["class_names"] == ["class_0", "class_1", "class_2"]
        layer = layer_of(checkpoint, with_data=True)
        assert layer.model is not None
        assert layer.model.name == "PAMT_0"
        assert layer.model.class_path == "pamt_lightning.PAMTModule"
        assert layer.content["model"]["hidden_dim"] == 8
        assert "num_features" not in layer.content["model"]
        assert layer.content["data"]["train"] == 5
        assert "data" not in layer_of(checkpoint, with_data=False).content


def test_a_damaged_checkpoint_is_named(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "best.ckpt").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"hello"):
        (tmp_path / "x.ckpt").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"x\.ckpt cannot be read as a checkpoint"):
            load_checkpoint(tmp_path / "x.ckpt")


@pytest.mark.parametrize("content", [{"state_dict": {}}, {"model_class": "x"}, [1, 2]])
def test_a_foreign_checkpoint_is_named(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "foreign.ckpt")
    with pytest.raises(CheckpointError, match=r"foreign\.ckpt is not a checkpoint of pamt"):
        load_checkpoint(tmp_path / "foreign.ckpt")


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("owned",)


def test_a_checkpoint_that_holds_code_is_refused_unrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {}, "model_class": Hostile()}, "evil.ckpt")
    with pytest.raises(CheckpointError, match=r"evil\.ckpt cannot be read"):
        load_checkpoint(Path("evil.ckpt"))
    assert not (tmp_path / "owned").exists()


def test_a_checkpoint_cannot_choose_what_is_imported(folder: Path) -> None:
    checkpoint = load_checkpoint(folder / "best.ckpt")
    with pytest.raises(CheckpointError, match=r"this\.Zen.* load_from_checkpoint"):
        layer_of({**checkpoint, "model_class": "this.Zen"}, with_data=True)
    assert "this" not in sys.modules
