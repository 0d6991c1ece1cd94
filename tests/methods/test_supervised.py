from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.nn.functional import cross_entropy, nll_loss

import pamt_lightning
from pamt_lightning import GCNModule, MLPModule, RobustGCNModule
from pamt_lightning.functional import kl_to_standard_normal
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


@pytest.mark.parametrize(("class_name", "expected"), DECAYED.items())
def test_the_l2_term_is_on_what_its_authors_put_it(class_name: str, expected: set[str]) -> None:
    model: Any = getattr(pamt_lightning, class_name)(5, 2, weight_decay=0.25)
    names = {id(p): name for name, p in model.net.named_parameters()}
    assert {names[id(p)] for p in model.decayed_parameters()} == expected
    decayed, rest = model.configure_optimizers().param_groups
    assert {names[id(p)] for p in decayed["params"]} == expected
    assert (decayed["weight_decay"], rest["weight_decay"]) == (0.25, 0.0)
    assert len(decayed["params"]) + len(rest["params"]) == len(names)


def test_the_loss_is_the_cross_entropy_of_the_labelled_nodes() -> None:
    data = small_data()
    model = GCNModule(data.num_features, data.num_classes, dropout=0.0)
    batch = data.full_batch()
    train = data.graph.train_index
    log_probs = torch.log_softmax(model.net(batch.x, batch.adj_norm), dim=1)
    expected = nll_loss(log_probs[train], data.graph.y[train])
    torch.testing.assert_close(model.training_loss(batch), expected)


def test_the_mlp_is_trained_on_the_rows_of_the_labelled_nodes() -> None:
    data = small_data()
    model = MLPModule(data.num_features, data.num_classes, dropout=0.0)
    batch = data.full_batch()
    train = data.graph.train_index
    expected = cross_entropy(model.net(batch.x)[train], data.graph.y[train])
    torch.testing.assert_close(model.training_loss(batch), expected)


def test_the_mlp_does_not_see_the_graph() -> None:
    data, rewired = small_data(), small_data(structure_noise=0.6)
    assert not torch.equal(
        data.graph.adjacency.col_indices(), rewired.graph.adjacency.col_indices()
    )
    model = MLPModule(data.num_features, data.num_classes).eval()
    first = model.predict_nodes(data.full_batch()).probs
    assert torch.equal(first, model.predict_nodes(rewired.full_batch()).probs)


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
    logits = model.net(batch.x, batch.adj_norm)
    train = data.graph.train_index
    mean, variance = batch.x.linear(model.net.input.weight).chunk(2, dim=1)
    kl = kl_to_standard_normal(torch.nn.functional.elu(mean), torch.relu(variance)).sum()
    expected = cross_entropy(logits[train], data.graph.y[train]) + kl_weight * kl
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("class_name", DECAYED)
def test_predictions_are_the_softmax_of_the_networks_output(class_name: str) -> None:
    data = small_data()
    batch = data.full_batch()
    model: Any = getattr(pamt_lightning, class_name)(data.num_features, data.num_classes).eval()
    arguments = (batch.x,) if class_name == "MLPModule" else (batch.x, batch.adj_norm)
    prediction = model.predict_nodes(batch)
    assert torch.equal(prediction.probs, torch.softmax(model.net(*arguments), dim=1))
    if class_name == "APPNPModule":
        assert torch.equal(prediction.logits, model.net.mlp(batch.x))
    else:
        assert prediction.logits is None
