from __future__ import annotations

from pathlib import Path

import torch

from pamt_lightning import PTSModule
from pamt_lightning.functional import one_hot_rows, propagate_labels, soft_cross_entropy
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import quiet_trainer, seeded, small_data, small_model


def test_a_second_training_of_one_module_starts_afresh(tmp_path: Path) -> None:
    first, second = small_data(split_seed=1), small_data(split_seed=2)
    model = small_model(second)
    quiet_trainer(tmp_path, 2).fit(model, datamodule=first)
    quiet_trainer(tmp_path, 2).fit(model, datamodule=second)
    train = second.graph.train_index
    assert model.soft_labels is not None
    assert train is not None
    certain = torch.nonzero(model.soft_labels.max(1).values >= 1.0).flatten()
    assert certain.tolist() == sorted(train.tolist())


def test_the_soft_stopping_loss_is_that_of_labels_from_the_validation_nodes(tmp_path: Path) -> None:
    first, second = small_data(split_seed=1), small_data(split_seed=2)
    model = small_model(first, stopping_loss="soft", reset_labelled=False, dropout=0.0)
    for step, data in (("validate", first), ("fit", second), ("validate", first)):
        trainer = quiet_trainer(tmp_path, 2)
        getattr(trainer, step)(model, datamodule=data)
        batch = data.full_batch()
        labelled = (data.graph.y, batch.val_index, 3)
        steps, alpha = model.num_steps, model.alpha
        dense = batch.adj_norm.to_dense()
        labels = propagate_labels(dense, *labelled, num_steps=steps, alpha=alpha, reset=True)
        expected = soft_cross_entropy(model.net(batch.x), labels)
        torch.testing.assert_close(trainer.callback_metrics["val_loss"], expected)


def test_soft_labels_are_kept_by_column_also_from_a_checkpoint(tmp_path: Path) -> None:
    data = small_data()
    fresh = small_model(data, refresh_interval=0)
    quiet_trainer(tmp_path, 2, BestStopping(dirpath=str(tmp_path))).fit(fresh, datamodule=data)
    last = tmp_path / "last.ckpt"
    checkpoint = torch.load(last, weights_only=True)
    checkpoint["soft_labels"] = checkpoint["soft_labels"].contiguous()
    torch.save(checkpoint, last)
    resumed = small_model(data, refresh_interval=0)
    trainer = quiet_trainer(tmp_path, 3, BestStopping(dirpath=str(tmp_path)))
    trainer.fit(resumed, datamodule=data, ckpt_path=last, weights_only=True)
    labels = [model.soft_labels for model in (fresh, resumed) if model.soft_labels is not None]
    assert torch.equal(*labels)
    assert all(kept.t().is_contiguous() for kept in labels)


def test_soft_labels_are_propagated_over_the_structure_once(tmp_path: Path) -> None:
    data = small_data()
    model = seeded(PTSModule, data, alpha=0.15, num_steps=7)
    quiet_trainer(tmp_path, 3).fit(model, datamodule=data)
    train = data.graph.train_index
    assert train is not None
    dense = data.full_batch().adj_norm.to_dense()
    y = y0 = one_hot_rows(data.graph.y, train, 3, torch.float32)
    for _ in range(7):
        y = 0.85 * dense @ y + 0.15 * y0
        y[train] = y0[train]
    assert model.soft_labels is not None
    torch.testing.assert_close(model.soft_labels, y)
