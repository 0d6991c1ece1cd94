from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning import GraphDataModule, PAMTModule, PTAModule, PTDModule, PTSModule
from pamt_lightning.methods.soft_labels import SoftLabelModule
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import assert_same_bits, quiet_trainer, seeded, small_data

SHARED: dict[str, Any] = {
    "hidden_dim": 8,
    "dropout": 0.3,
    "lr": 0.05,
    "weight_decay": 0.01,
    "alpha": 0.15,
    "num_steps": 7,
    "loss_weight": 0.07,
}
OFF: dict[str, Any] = {"mask": False, "refresh_interval": 0, "momentum": 0.0}


def fitted(
    method: type[SoftLabelModule], folder: Path, **options: Any
) -> tuple[SoftLabelModule, dict[str, float]]:
    data = small_data()
    model = seeded(method, data, **{**SHARED, **options})
    trainer = quiet_trainer(folder, 60, BestStopping(patience=20))
    trainer.fit(model, datamodule=data)
    return model, dict(trainer.test(model, datamodule=data, verbose=False)[0])


@pytest.mark.parametrize("stopping_loss", ["nll", "soft"])
def test_pamt_with_mask_and_refresh_off_is_pts_to_the_bit(
    tmp_path: Path, stopping_loss: str
) -> None:
    pts, pts_metrics = fitted(PTSModule, tmp_path, stopping_loss=stopping_loss)
    pamt, pamt_metrics = fitted(PAMTModule, tmp_path, stopping_loss=stopping_loss, **OFF)
    torch.testing.assert_close(pts.soft_labels, pamt.soft_labels, rtol=0, atol=0)
    assert_same_bits(pts.state_dict(), pamt.state_dict())
    assert pts_metrics == pamt_metrics


def test_with_the_mask_on_it_is_another_method(tmp_path: Path) -> None:
    pts, _ = fitted(PTSModule, tmp_path)
    pamt, _ = fitted(PAMTModule, tmp_path, **{**OFF, "mask": True})
    assert not torch.equal(pts.net.input.weight, pamt.net.input.weight)


def loss_of(model: SoftLabelModule, data: GraphDataModule, epoch: int) -> torch.Tensor:
    type(model).current_epoch = property(lambda self: epoch)  # type: ignore[assignment]
    try:
        model.eval()
        batch = data.full_batch()
        model.make_soft_labels(batch)
        return model.training_loss(batch)
    finally:
        del type(model).current_epoch


def test_pta_in_epoch_zero_is_pts_and_later_it_is_not() -> None:
    data = small_data()
    pts, pta = seeded(PTSModule, data, **SHARED), seeded(PTAModule, data, **SHARED)
    assert torch.equal(loss_of(pts, data, 0), loss_of(pta, data, 0))
    assert not torch.equal(loss_of(pts, data, 50), loss_of(pta, data, 50))


@pytest.mark.parametrize(
    ("method", "epoch", "gamma"),
    [(PTDModule, 0, 1.0), *((PTAModule, t, math.log(1 + t / 100)) for t in (1, 100, 1000))],
)
def test_weights_are_powers_of_the_probability_and_no_gradient_flows_through_them(
    method: type[SoftLabelModule], epoch: int, gamma: float
) -> None:
    data = small_data()
    model = seeded(method, data, **SHARED)
    loss = loss_of(model, data, epoch)
    logits = model.net(data.full_batch().x)
    target = (model.soft_labels * torch.softmax(logits, 1) ** gamma).detach()
    expected = -0.07 * (target * torch.log_softmax(logits, 1)).sum() / 3
    torch.testing.assert_close(loss, expected)
    for parameter in model.parameters():
        (ours,) = torch.autograd.grad(loss, parameter, retain_graph=True)
        (theirs,) = torch.autograd.grad(expected, parameter, retain_graph=True)
        torch.testing.assert_close(ours, theirs)
