from __future__ import annotations

from typing import Any

import pytest
import torch

from pamt_lightning.benchmarks.epochs import Case, PlainLoop
from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.run import run

DATA = {"synthetic": {"num_nodes": 200, "num_features": 30, "num_classes": 3}, "val": 60}
MODEL = {"hidden_dim": 4, "refresh_interval": 2, "pretrain_epochs": 0}


def test_the_plain_loop_trains_as_the_trainer_does() -> None:
    epochs = {"max_epochs": 5, "accelerator": "cpu"}
    # Without dropout: the Trainer's random numbers have a seed of their own.
    config = RunConfig.create(data=DATA, model=MODEL | {"dropout": 0.0}, trainer=epochs)
    loop = PlainLoop(Case(config))
    for _ in range(5):
        loop.epoch()
    assert loop.stopping is not None
    best = run(config, quiet=True).model.state_dict()
    torch.testing.assert_close(loop.stopping.best_state, dict(best))


def test_a_loop_in_batches_uses_every_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig.create(data=DATA | {"batch_size": 70}, model=MODEL | {"refresh_interval": 0})
    loop = PlainLoop(Case(config), stopping=False)
    seen: list[int] = []
    training_loss = loop.model.training_loss

    def watched(batch: GraphBatch) -> Any:
        assert batch.nodes is not None
        seen.extend(batch.nodes.tolist())
        return training_loss(batch)

    monkeypatch.setattr(loop.model, "training_loss", watched)
    loop.epoch()
    assert sorted(seen) == list(range(200))
