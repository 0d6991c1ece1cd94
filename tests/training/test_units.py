"""The unit of the attributes changes no training, and a checkpoint keeps what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning import GCNModule, Graph, MLPModule, PAMTModule, PTAModule
from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import OneGraph, quiet_trainer, small_data

METHODS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "MLP": (MLPModule, {}),
    "GCN": (GCNModule, {}),
    "PTA": (PTAModule, {}),
    "PAMT": (PAMTModule, {"refresh_interval": 10, "pretrain_epochs": 20}),
}


def trained(name: str, graph: Graph, folder: Path) -> tuple[Any, Tensor]:
    """A model trained on a graph as it is, and its prediction for all nodes."""
    method, options = METHODS[name]
    data = OneGraph(graph)
    torch.manual_seed(0)
    options = {"hidden_dim": 8, "lr": 0.1, "weight_decay": 1e-4, **options}
    model = method(data.num_features, data.num_classes, **options)
    trainer = quiet_trainer(folder, 50, BestStopping(dirpath=str(folder)))
    trainer.fit(model, datamodule=data)
    with torch.no_grad():
        probs: Tensor = model.eval().predict_nodes(data.batch).probs
    return model, probs


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("name", METHODS)
def test_attributes_times_a_hundred_give_the_same_predictions(
    name: str, sparse: bool, small_graph: Graph, tmp_path: Path
) -> None:
    x = small_graph.x if sparse else small_graph.x.to_dense() + 0.1
    model, expected = trained(name, replace(small_graph, x=x), tmp_path / "one")
    other, found = trained(name, replace(small_graph, x=100 * x), tmp_path / "hundred")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert float(expected.std(0).min()) > 0.01  # it has learned something
    ratio = float(model.net.input.scale / other.net.input.scale)
    assert ratio == pytest.approx(100.0, rel=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_a_checkpoint_keeps_the_scale(name: str, small_graph: Graph, tmp_path: Path) -> None:
    graph = replace(small_graph, x=100 * small_graph.x)
    model, expected = trained(name, graph, tmp_path)
    kept = METHODS[name][0].load_from_checkpoint(tmp_path / "best.ckpt", weights_only=True).eval()
    assert torch.equal(kept.net.input.scale, model.net.input.scale)
    assert float(kept.net.input.scale) < 0.05
    with torch.no_grad():
        found = kept.predict_nodes(OneGraph(graph).batch).probs
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_a_second_training_fits_the_scale_anew(tmp_path: Path) -> None:
    model = MLPModule(60, 3)
    scales = []
    for kind in ("none", "l2", "l1"):
        data = small_data(scale_features=kind)
        quiet_trainer(tmp_path, 1).fit(model, datamodule=data)
        batch = data.full_batch()
        energy = float(batch.energy) / batch.num_nodes
        assert float(model.net.input.scale) == pytest.approx((0.036 / energy) ** 0.5)
        scales.append(float(model.net.input.scale))
    assert scales[0] < scales[1] < scales[2]
