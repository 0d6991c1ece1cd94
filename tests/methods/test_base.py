from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from pamt_lightning import GCNModule, PAMTModule
from pamt_lightning.data.loaders import GraphLoader
from pamt_lightning.errors import CheckpointError, InputError
from tests.methods.helpers import quiet_trainer, small_data, small_model

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
    assert saved["format"] == 4
    assert saved["GraphDataModule"]["class_names"] == list(data.graph.class_names)
    assert saved["soft_labels"].shape == (240, 3)


def test_weights_of_another_size_are_refused_in_one_line() -> None:
    with pytest.raises(CheckpointError, match="do not fit this PAMTModule"):
        PAMTModule(3, 2).load_state_dict(PAMTModule(4, 2).state_dict())


def test_half_precision_is_refused(tmp_path: Path) -> None:
    data = small_data()
    with pytest.raises(InputError, match="32-true or 64-true"):
        quiet_trainer(tmp_path, 1, precision="bf16-mixed").fit(small_model(data), datamodule=data)


def test_training_without_a_data_module_is_refused(tmp_path: Path) -> None:
    data = small_data()
    loader = GraphLoader(data.full_batch())
    with pytest.raises(InputError, match="GraphDataModule"):
        quiet_trainer(tmp_path, 1).fit(small_model(data), loader, loader)
