from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from torchmetrics.functional.classification import multiclass_accuracy

from pamt_lightning import GCNModule, PAMTModule
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.errors import require_in
from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood
from tests.methods.helpers import quiet_trainer, small_data, small_model


def test_accuracy_is_that_of_torchmetrics() -> None:
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(50, 4, generator=generator)
    target = torch.randint(0, 4, (50,), generator=generator)
    index = torch.arange(0, 50, 3)
    expected = multiclass_accuracy(probs[index], target[index], 4, average="micro")
    assert accuracy(probs, target, index) == expected
    assert accuracy(probs, target) != expected


def test_likelihood_is_the_mean_log_probability_of_the_true_class() -> None:
    probs = torch.tensor([[0.5, 0.5], [0.1, 0.9], [1.0, 0.0]])
    target = torch.tensor([0, 1, 0])
    expected = -(torch.tensor([0.5, 0.9]).log()).mean()
    index = torch.tensor([0, 1])
    torch.testing.assert_close(negative_log_likelihood(probs, target, index), expected)
    certain_and_wrong = negative_log_likelihood(probs, torch.tensor([0, 1, 1]))
    assert torch.isfinite(certain_and_wrong)


def test_decay_of_the_optimiser_is_the_l2_term_on_the_first_layer_alone() -> None:
    data = small_data()
    by_group, by_loss = small_model(data, dropout=0.0), small_model(data, dropout=0.0)
    decay = 0.3
    for model, explicit in ((by_group, False), (by_loss, True)):
        batch = data.full_batch()
        model.refresh(batch, epoch=0)
        optimizer = model.make_optimizer(0.0 if explicit else decay)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model.training_loss(batch)
            if explicit:
                loss = loss + decay / 2 * model.net.input.weight.square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    for name, value in by_loss.state_dict().items():
        torch.testing.assert_close(by_group.state_dict()[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("value", "fine"), [(0.0, True), (1.0, False), (0.999, True), (-0.1, False)]
)
def test_a_range_says_what_it_expects_and_what_it_got(value: float, fine: bool) -> None:
    if fine:
        require_range("beta", value, 0.0, 1.0, open_high=True)
    else:
        with pytest.raises(InputError, match=rf"`beta` must lie in \[0.0, 1.0\), got {value}"):
            require_range("beta", value, 0.0, 1.0, open_high=True)


# Plain Lightning -------------------------------------------------------------------------------


def test_lightnings_own_callbacks_and_loggers_see_the_metrics(tmp_path: Path) -> None:
    data = small_data()
    model = small_model(data, lr=0.3, log_every_n_epochs=2)
    stopping = EarlyStopping(monitor="val_loss", patience=2)
    best = ModelCheckpoint(tmp_path / "best", "{epoch}", monitor="val_acc", mode="max")
    logger = CSVLogger(tmp_path, name="", version="logs")
    trainer = quiet_trainer(tmp_path, 200, stopping, best, logger=logger)
    trainer.fit(model, datamodule=data)
    assert 2 < trainer.current_epoch < 200
    assert best.best_model_score is not None
    (metrics,) = trainer.validate(
        model, datamodule=data, ckpt_path=best.best_model_path, weights_only=True, verbose=False
    )
    assert metrics["val_acc"] == float(best.best_model_score)
    assert 0 < float(stopping.best_score) < 2
    with open(tmp_path / "logs" / "metrics.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["val_acc_network"]]
    assert [int(row["step"]) for row in rows] == list(range(2, trainer.current_epoch + 1, 2))
    assert all(0 <= float(row["val_acc"]) <= 1 for row in rows)


def test_the_batch_is_kept_for_the_training_only(tmp_path: Path) -> None:
    data = small_data()
    model = small_model(data)
    model.refresh_interval = 1
    with pytest.raises(RuntimeError, match="no training"):
        model.on_train_epoch_start()  # a refresh without a batch is an error
    quiet_trainer(tmp_path, 2).fit(model, datamodule=data)
    with pytest.raises(RuntimeError, match="no training"):
        _ = model.fit_batch


def test_batches_of_nodes_are_refused_by_methods_of_the_whole_graph(tmp_path: Path) -> None:
    data = small_data(batch_size=100)
    model = GCNModule(data.num_features, data.num_classes)
    with pytest.raises(InputError, match=r"GCN learns from the whole graph.*`data\.batch_size`"):
        quiet_trainer(tmp_path, 1).fit(model, datamodule=data)


def test_checkpoints_hold_plain_values_and_what_a_new_process_needs(tmp_path: Path) -> None:
    data = small_data(structure_noise=np.float64(0.5))
    options = {"lr": np.float64(0.05), "hidden_dim": np.int64(4)}
    model = PAMTModule(data.num_features, data.num_classes, **options)  # type: ignore[arg-type]
    trainer = quiet_trainer(tmp_path, 1)
    trainer.fit(model, datamodule=data)
    trainer.save_checkpoint(tmp_path / "some.ckpt")
    saved = torch.load(tmp_path / "some.ckpt", weights_only=True)
    hparams = saved["hyper_parameters"]
    assert (type(hparams["lr"]), type(hparams["hidden_dim"])) == (float, int)
    assert type(saved["datamodule_hyper_parameters"]["structure_noise"]) is float
    assert saved["model_class"] == "pamt_lightning.methods.pamt.PAMTModule"
    assert saved["format"] == 2
    assert saved["GraphDataModule"]["class_names"] == list(data.graph.class_names)
    assert saved["soft_labels"].shape == (240, 3)


def test_weights_of_another_size_are_refused_in_one_line() -> None:
    with pytest.raises(CheckpointError, match="do not fit this PAMTModule"):
        PAMTModule(3, 2).load_state_dict(PAMTModule(4, 2).state_dict())
