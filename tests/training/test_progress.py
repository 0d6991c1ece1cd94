import sys
from pathlib import Path

import pytest

from pamt_lightning.training.progress import EpochBar
from tests.methods.helpers import quiet_trainer, small_data, small_model


def fit(folder: Path, bar: EpochBar) -> None:
    data = small_data()
    trainer = quiet_trainer(folder, 4, bar, enable_progress_bar=True, enable_checkpointing=False)
    trainer.fit(small_model(data), datamodule=data)


def test_the_bar_counts_epochs_and_shows_loss_and_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fit(tmp_path, EpochBar(seconds=0.0))
    shown = capsys.readouterr().err
    assert "4/4" in shown
    assert "loss=" in shown
    assert "val_acc=0." in shown


def test_it_is_silent_where_nobody_watches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(tmp_path, EpochBar(seconds=0.0))
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out == ""
