from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning import PAMTModule
from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import InputError
from pamt_lightning.functional import rising_weight_decay
from pamt_lightning.training.checkpoint import load_checkpoint
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import assert_same_bits, quiet_trainer, seeded, small_data, small_model


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


def run(
    folder: Path, epochs: int = 12, pretrain_epochs: int = 5, **options: Any
) -> tuple[BestStopping, Any, Any]:
    data = small_data()
    model = small_model(data, lr=0.3, weight_decay=0.025, pretrain_epochs=pretrain_epochs)
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


# What a method asks for


class Finishing(PAMTModule):
    """Notes what a training tells it, and changes a bias at the end; may be interrupted there."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.decays: list[float] = []
        self.finished: list[dict[str, torch.Tensor]] = []
        self.interrupt = False

    def training_loss(self, batch: GraphBatch) -> torch.Tensor:
        (optimizer,) = self.trainer.optimizers
        self.decays.append(optimizer.param_groups[0]["weight_decay"])
        assert optimizer.param_groups[1].get("weight_decay", 0.0) == 0.0
        return super().training_loss(batch)

    def finish_training(self) -> None:
        if self.interrupt:
            raise ZeroDivisionError
        self.finished.append({k: v.clone() for k, v in self.state_dict().items()})
        with torch.no_grad():
            self.net.output.bias.fill_(7.0)


def finishing(
    folder: Path,
    epochs: int,
    patience: int = 2,
    *,
    resume: bool = False,
    interrupt: bool = False,
    **options: Any,
) -> tuple[BestStopping, Finishing]:
    data = small_data()
    defaults = {"pretrain_epochs": 2, "lr": 0.3, "weight_decay": 0.025}
    sizes = {"hidden_dim": 8, "refresh_interval": 3}
    model: Finishing = seeded(Finishing, data, **sizes, **(defaults | options))
    model.interrupt = interrupt
    stopping = BestStopping(patience, 0.0, str(folder))
    ckpt_path = folder / "last.ckpt" if resume else None
    trainer = quiet_trainer(folder, epochs, stopping)
    trainer.fit(model, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    return stopping, model


@pytest.mark.parametrize(("decay_epochs", "max_epochs"), [(30, 200), (200, 30)])
def test_a_rising_weight_decay_is_followed_to_its_end(
    decay_epochs: int, max_epochs: int, tmp_path: Path
) -> None:
    stopping, model = finishing(
        tmp_path, max_epochs, weight_decay=(1e-3, 1.0), decay_epochs=decay_epochs
    )
    expected = [rising_weight_decay(epoch, 1e-3, 1.0, 30) for epoch in range(len(model.decays))]
    assert model.decays == expected
    assert len(expected) >= 30
    assert stopping.out_of_patience or max_epochs == 30
    early, constant = finishing(tmp_path / "constant", 200, weight_decay=1e-3)
    assert len(constant.decays) < 30  # patience alone would have ended it before
    assert set(constant.decays) == {1e-3}
    assert early.out_of_patience


def test_the_end_of_a_training_changes_the_best_state_once(tmp_path: Path) -> None:
    stopping, model = finishing(tmp_path, 6)
    _, plain, _ = run(tmp_path / "plain", epochs=6, patience=2, pretrain_epochs=2)
    (loaded,) = model.finished
    assert_same_bits(loaded, plain.state_dict())  # the best state
    changed = {**loaded, "net.output.bias": torch.full((3,), 7.0)}
    assert_same_bits(model.state_dict(), changed)
    assert_same_bits(stopping.best_state, changed)
    assert_same_bits(load_checkpoint(tmp_path / "best.ckpt")["state_dict"], changed)
    last = load_checkpoint(tmp_path / "last.ckpt")["state_dict"]
    assert_same_bits(last, load_checkpoint(tmp_path / "plain" / "last.ckpt")["state_dict"])


def test_a_run_that_broke_off_in_its_end_is_finished_when_resumed(tmp_path: Path) -> None:
    finishing(tmp_path / "whole", 6, patience=100)
    with pytest.raises(ZeroDivisionError):
        finishing(tmp_path, 6, 100, interrupt=True)
    _, model = finishing(tmp_path, 6, 100, resume=True)
    assert len(model.finished) == 1
    assert not model.decays  # all epochs were trained
    best, expected = (load_checkpoint(f / "best.ckpt") for f in (tmp_path, tmp_path / "whole"))
    assert_same_bits(best["state_dict"], expected["state_dict"])
    _, again = finishing(tmp_path, 6, 100, resume=True)
    assert not again.finished
    assert_same_bits(load_checkpoint(tmp_path / "best.ckpt")["state_dict"], best["state_dict"])


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
