"""PAMT after a start without mask, and PAMT_plus, which starts so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from pamt_lightning import GraphDataModule, PAMTModule, PAMTPlusModule, PTAModule
from pamt_lightning.errors import InputError
from tests.modules.helpers import quiet_trainer, small_data, small_model
from tests.modules.test_pamt import Refreshes

SHARED = {"hidden_dim": 16, "dropout": 0.0, "lr": 0.1, "weight_decay": 0.005}


def trained(model_class: Any, data: GraphDataModule, folder: Path, epochs: int, **own: Any) -> Any:
    pl.seed_everything(0, verbose=False)
    model = model_class(data.num_features, data.num_classes, **SHARED, **own)
    quiet_trainer(folder, epochs).fit(model, datamodule=data)
    return model


@pytest.mark.parametrize(
    ("start", "interval", "expected"),
    [(4, 3, [1, 4, 7]), (1, 4, [1, 5]), (0, 4, [1, 4, 8]), (9, 1, [1])],
)
def test_masks_are_made_from_the_epoch_that_is_named_on(
    tmp_path: Path, start: int, interval: int, expected: list[int]
) -> None:
    data, watch = small_data(), Refreshes()
    model = small_model(data, refresh_interval=interval, mask_from=start)
    quiet_trainer(tmp_path, 8, watch, enable_checkpointing=False).fit(model, datamodule=data)
    assert watch.epochs == expected


def test_until_its_first_mask_pamt_plus_is_pta_to_the_bit(tmp_path: Path) -> None:
    data = small_data()
    pta = trained(PTAModule, data, tmp_path / "pta", 9)
    plus = trained(PAMTPlusModule, data, tmp_path / "plus", 9, mask_from=10)
    assert torch.equal(plus.soft_labels, pta.soft_labels)
    for ours, theirs in zip(plus.net.parameters(), pta.net.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_from_its_first_mask_on_it_is_not(tmp_path: Path) -> None:
    data = small_data()
    pta = trained(PTAModule, data, tmp_path / "pta", 9)
    plus = trained(PAMTPlusModule, data, tmp_path / "plus", 9, mask_from=9)
    assert not torch.equal(plus.soft_labels, pta.soft_labels)


def test_the_first_mask_is_that_of_the_network_so_far(tmp_path: Path) -> None:
    data = small_data()
    model = small_model(data, mask_from=3, refresh_interval=2, momentum=0.0)
    prepared = model.prepare(data.graph_on(torch.device("cpu")))
    model.refresh(prepared, epoch=2)
    assert model.soft_labels is not None
    assert torch.equal(model.soft_labels, model.propagated_labels(prepared.adj_norm, prepared))
    model.refresh(prepared, epoch=3)
    masked = model.propagated_labels(model.masked_adjacency(prepared), prepared)
    assert torch.equal(model.soft_labels, masked)
    assert not torch.equal(masked, model.propagated_labels(prepared.adj_norm, prepared))


def test_a_start_without_mask_takes_the_place_of_pretraining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(PAMTModule, "pretrain", lambda self, data: calls.append(1))
    for start, expected in ((0, 1), (2, 1)):
        data = small_data()
        model = small_model(data, mask_from=start, refresh_interval=2)
        quiet_trainer(tmp_path / str(start), 1).fit(model, datamodule=data)
        assert len(calls) == expected


def test_a_mask_that_would_never_be_made_is_refused() -> None:
    with pytest.raises(InputError, match="`mask_from`=5 needs a `refresh_interval`"):
        PAMTModule(3, 2, mask_from=5, refresh_interval=0)
    with pytest.raises(InputError, match="`mask_from` must be 0 or more, got -1"):
        PAMTModule(3, 2, mask_from=-1)


def test_pamt_plus_is_never_called_pamt() -> None:
    assert PAMTPlusModule(3, 2).method == "PAMT_plus"
    assert PAMTPlusModule(3, 2, momentum=0.5, mask_from=0).method == "PAMT_plus"


def test_all_options_of_pamt_are_options_of_pamt_plus() -> None:
    model = PAMTPlusModule(3, 2, alpha=0.3, mask_floor=0.2)
    assert (model.alpha, model.mask_floor) == (0.3, 0.2)
    assert model.hparams["mask_from"] == model.mask_from
    assert model.hparams["alpha"] == 0.3
