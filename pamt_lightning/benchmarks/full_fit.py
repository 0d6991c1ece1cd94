"""A whole training: the Trainer until it stops, against as many epochs of APPNP."""

from __future__ import annotations

import time
from typing import Any

from pamt_lightning.benchmarks.clock import Row
from pamt_lightning.benchmarks.epochs import AppnpLoop, Options, pyg_available
from pamt_lightning.callbacks import BestStopping
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.modules.pamt import PAMTModule
from pamt_lightning.quiet import TRAINER_DEFAULTS, silence


def full_fit_row(data: GraphDataModule, options: Options, patience: int, rounds: int) -> Row:
    """A training with the options of a configuration, pretraining included, until it stops."""
    import torch
    from pytorch_lightning import Trainer

    silence()
    appnp = AppnpLoop(data, options) if pyg_available() else None
    taken, ratios = [], []
    for _ in range(rounds):
        torch.manual_seed(0)
        model = PAMTModule(data.num_features, data.num_classes, **options)
        stopping = BestStopping(patience)
        settings: dict[str, Any] = {**TRAINER_DEFAULTS, "logger": False, "accelerator": "cpu"}
        trainer = Trainer(**settings, callbacks=[stopping], enable_progress_bar=False)
        start = time.perf_counter()
        trainer.fit(model, datamodule=data)
        taken.append(time.perf_counter() - start)
        epochs = trainer.current_epoch
        if appnp is not None:
            ratios.append(epochs * appnp.run(2) / taken[-1])
    seconds = {"PAMT": sorted(taken)[len(taken) // 2]}
    note = f"{epochs} epochs, hidden {options['hidden_dim']}"
    if not ratios:
        return Row(data.dataset_name, seconds, float("nan"), (float("nan"),) * 2, note)
    middle = sorted(ratios)[len(ratios) // 2]
    seconds["as many epochs of APPNP"] = middle * seconds["PAMT"]
    return Row(data.dataset_name, seconds, middle, (min(ratios), max(ratios)), note)
