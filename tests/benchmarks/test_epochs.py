from __future__ import annotations

from typing import Any

import pytest
import torch

from pamt_lightning.benchmarks.epochs import Case, PlainLoop
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.run import run

DATA = {"synthetic": {"num_nodes": 200, "num_features": 30, "num_classes": 3}, "val": 60}
# Without dropout: the Trainer's random numbers have a seed of their own.
MODEL = {"hidden_dim": 4, "refresh_interval": 2, "pretrain_epochs": 0, "dropout": 0.0}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"weight_decay": (0.001, 1.0), "decay_epochs": 4},
        {"weight_decay": (0.001, 1.0), "decay_epochs": 600},
    ],
)
def test_the_plain_loop_trains_as_the_trainer_does(more: dict[str, Any]) -> None:
    epochs = {"max_epochs": 5, "accelerator": "cpu"}
    config = RunConfig.create(data=DATA, model=MODEL | more, trainer=epochs)
    loop = PlainLoop(Case(config))
    for _ in range(5):
        loop.epoch()
    assert loop.stopping is not None
    best = run(config, quiet=True).model.state_dict()
    torch.testing.assert_close(loop.stopping.best_state, dict(best))
