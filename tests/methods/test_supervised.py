from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.nn.functional import cross_entropy, nll_loss

import pamt_lightning
from pamt_lightning import RobustGCNModule
from pamt_lightning.data.batch import GraphBatch
from tests.methods.helpers import small_data

DECAYED = {
    "GCNModule": {"input.weight"},
    "GATModule": {
        *("input.weight", "output.weight", "input_attention.row", "input_attention.col"),
        *("output_attention.row", "output_attention.col"),
    },
    "RobustGCNModule": {"input.weight"},
    "SGCModule": {"input.weight"},
    "APPNPModule": {"mlp.input.weight"},
    "MLPModule": {"input.weight"},
}


def inputs_of(class_name: str, batch: GraphBatch) -> tuple[Any, ...]:
    return (batch.x,) if class_name == "MLPModule" else (batch.x, batch.adj_norm)


@pytest.mark.parametrize(("class_name", "expected"), DECAYED.items())
def test_the_l2_term_is_on_what_its_authors_put_it(class_name: str, expected: set[str]) -> None:
    model: Any = getattr(pamt_lightning, class_name)(5, 2, weight_decay=0.25)
    names = {id(p): name for name, p in model.net.named_parameters()}
    assert {names[id(p)] for p in model.decayed_parameters()} == expected
    decayed, rest = model.configure_optimizers().param_groups
    assert {names[id(p)] for p in decayed["params"]} == expected
    assert (decayed["weight_decay"], rest["weight_decay"]) == (0.25, 0.0)
    assert len(decayed["params"]) + len(rest["params"]) == len(names)


@pytest.mark.parametrize("class_name", ["GCNModule", "MLPModule"])
def test_the_loss_is_the_cross_entropy_of_the_labelled_nodes(class_name: str) -> None:
    data = small_data()
    model = getattr(pamt_lightning, class_name)(data.num_features, data.num_classes, dropout=0.0)
    batch = data.full_batch()
    train = data.graph.train_index
    log_probs = torch.log_softmax(model.net(*inputs_of(class_name, batch)), dim=1)
    expected = nll_loss(log_probs[train], data.graph.y[train])
    torch.testing.assert_close(model.training_loss(batch), expected)


@pytest.mark.parametrize("kl_weight", [0.0, 0.5])
def test_the_loss_of_robust_gcn_adds_the_divergence_of_the_first_layer(kl_weight: float) -> None:
    data = small_data()
    model = RobustGCNModule(
        data.num_features, data.num_classes, dropout=0.0, hidden_dim=3, kl_weight=kl_weight
    )
    batch = data.full_batch()
    pl.seed_everything(1, verbose=False)
    actual = model.training_loss(batch)
    pl.seed_everything(1, verbose=False)
    logits, kl = model.net.forward_with_kl(batch.x, batch.adj_norm)
    train = data.graph.train_index
    expected = cross_entropy(logits[train], data.graph.y[train]) + kl_weight * kl
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("class_name", DECAYED)
def test_predictions_are_the_softmax_of_the_networks_output(class_name: str) -> None:
    data = small_data()
    batch = data.full_batch()
    model: Any = getattr(pamt_lightning, class_name)(data.num_features, data.num_classes).eval()
    prediction = model.predict_nodes(batch)
    logits = model.net(*inputs_of(class_name, batch))
    assert torch.equal(prediction.probs, torch.softmax(logits, dim=1))
    if class_name == "APPNPModule":
        assert torch.equal(prediction.logits, model.net.mlp(batch.x))
    else:
        assert prediction.logits is None
