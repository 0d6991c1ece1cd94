"""A whole training: the Trainer until it stops, against as many epochs of APPNP."""

from __future__ import annotations

import math
from typing import Any

import torch
from pytorch_lightning import Trainer

from pamt_lightning.benchmarks.clock import Row, seconds_of
from pamt_lightning.benchmarks.epochs import AppnpLoop, Options, pyg_available
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.methods.pamt import PAMTModule
from pamt_lightning.training.quiet import TRAINER_DEFAULTS
from pamt_lightning.training.stopping import BestStopping


def full_fit_row(data: GraphDataModule, options: Options, patience: int) -> Row:
    """A training with the options of a configuration, pretraining included, until it stops."""
    torch.manual_seed(0)
    model = PAMTModule(data.num_features, data.num_classes, **options)
    settings: dict[str, Any] = {**TRAINER_DEFAULTS, "logger": False, "accelerator": "cpu"}
    settings |= {"callbacks": [BestStopping(patience)], "enable_progress_bar": False}
    trainer = Trainer(**settings)
    seconds = {"PAMT": seconds_of(lambda: trainer.fit(model, datamodule=data))}
    epochs = trainer.current_epoch
    ratio = math.nan
    if pyg_available():  # a few of its epochs tell how long as many would take
        appnp = AppnpLoop(data, options)
        appnp.run(1)
        seconds["as many epochs of APPNP"] = epochs * appnp.run(5)
        ratio = seconds["as many epochs of APPNP"] / seconds["PAMT"]
    note = f"{epochs} epochs, hidden {options['hidden_dim']}, once"
    return Row(data.dataset_name, seconds, ratio, (ratio, ratio), note)
