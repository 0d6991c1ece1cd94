from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning.errors import InputError
from pamt_lightning.training.checkpoint import load_checkpoint
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import quiet_trainer, small_data, small_model


@pytest.mark.parametrize(
    ("values", "wait", "kept"),
    [
        ([(0.5, 1.0), (0.4, 1.1), (0.4, 1.1), (0.4, 0.9), (0.4, 1.0)], 1, [1]),  # the loss
        ([(0.5, 1.0), (0.4, 1.1), (0.4, 1.1), (0.5, 2.0), (0.4, 2.0)], 1, [1]),  # a tie counts
        ([(0.5, 1.0), (0.4, 1.1), (0.4, 1.1), (0.4, 1.1), (0.9, 0.1)], 3, [1]),  # it has stopped
        (
            [(0.5, 1.0), (0.5, 1.2), (0.5, 0.9), (0.4, 0.1), (0.6, 5.0), (0.6, 5.0)],
            0,
            [1, 3, 5],  # by accuracy, then by loss
        ),
    ],
)
def test_patience_starts_anew_on_accuracy_or_loss_and_the_best_state_is_kept(
    values: list[tuple[float, float]], wait: int, kept: list[int]
) -> None:
    stopping, found = BestStopping(patience=3), []
    for epoch, (acc, loss) in enumerate(values, start=1):
        if stopping.update(acc, loss):
            found.append(epoch)
        if stopping.out_of_patience:
            break
    assert stopping.wait == wait
    assert found == kept


def run(folder: Path, epochs: int = 12, **options: Any) -> tuple[BestStopping, Any, Any]:
    data = small_data()
    model = small_model(data, lr=0.3)
    stopping = BestStopping(dirpath=str(folder), **options)
    trainer = quiet_trainer(folder, epochs, stopping)
    trainer.fit(model, datamodule=data)
    return stopping, model, data


def test_after_training_the_module_and_best_ckpt_hold_the_best_state(tmp_path: Path) -> None:
    stopping, model, data = run(tmp_path)
    assert 0 < stopping.best_epoch < 12
    kept = load_checkpoint(tmp_path / "best.ckpt")
    assert kept["epoch"] == stopping.best_epoch - 1
    last = load_checkpoint(tmp_path / "last.ckpt")
    changed = False
    for name, value in model.state_dict().items():
        assert torch.equal(value, kept["state_dict"][name])
        changed |= not torch.equal(value, last["state_dict"][name])
    assert changed  # the last state is another one, or this test could not fail
    assert {"rng", "loops", "callbacks"} <= set(last)
    assert not {"soft_labels", "rng", "loops", "callbacks"} & set(kept)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.ckpt", "last.ckpt"]
    trainer = quiet_trainer(tmp_path, 1)
    (metrics,) = trainer.validate(model, datamodule=data, verbose=False)
    assert metrics["val_acc"] == pytest.approx(stopping.best_acc)
    assert metrics["val_loss"] == pytest.approx(stopping.best_loss)


def test_patience_ends_the_training(tmp_path: Path) -> None:
    stopping, model, _ = run(tmp_path, epochs=500, patience=2)
    assert stopping.out_of_patience
    assert model.trainer.current_epoch < 500


def test_checkpoints_are_written_now_and_then_not_every_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    original = BestStopping.save

    def counted(self: BestStopping, trainer: Any) -> None:
        writes.append(trainer.current_epoch)
        original(self, trainer)

    monkeypatch.setattr(BestStopping, "save", counted)
    run(tmp_path / "slow", epochs=5, save_seconds=1e6)
    assert len(writes) == 1  # the end
    writes.clear()
    run(tmp_path / "fast", epochs=5, save_seconds=0.0)
    assert len(writes) == 6


def test_one_callback_serves_two_trainings(tmp_path: Path) -> None:
    data, stopping = small_data(), BestStopping(dirpath=str(tmp_path))
    for epochs in (6, 2):
        model = small_model(data, lr=0.3)
        quiet_trainer(tmp_path, epochs, stopping).fit(model, datamodule=data)
    assert stopping.best_epoch <= 2


def test_epochs_without_a_validation_do_not_count(tmp_path: Path) -> None:
    data, stopping = small_data(), BestStopping(dirpath=str(tmp_path))
    trainer = quiet_trainer(tmp_path, 5, stopping, check_val_every_n_epoch=2)
    trainer.fit(small_model(data), datamodule=data)
    assert stopping.best_epoch in (2, 4)


@pytest.mark.parametrize(
    ("options", "words"), [({"patience": 0}, "`patience`"), ({"save_seconds": -1.0}, "`save_sec")]
)
def test_wrong_arguments_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        BestStopping(**options)
