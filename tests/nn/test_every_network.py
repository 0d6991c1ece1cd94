"""What holds for all networks."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.nn import APPNP, GAT, GCN, MLP, SGC, RobustGCN
from tests.matrices import operator
from tests.nn.oracles import gradients, inputs

# Class, sizes after the number of attributes, and options that drop nothing.
NETWORKS: dict[str, tuple[Any, tuple[int, ...], dict[str, float]]] = {
    "MLP": (MLP, (8, 4), {"dropout": 0.0}),
    "GCN": (GCN, (8, 4), {"dropout": 0.0}),
    "GAT": (GAT, (5, 4, 3, 2), {"dropout": 0.0, "attention_dropout": 0.0}),
    "RobustGCN": (RobustGCN, (8, 4), {"dropout": 0.0}),
    "SGC": (SGC, (4,), {}),
    "APPNP": (APPNP, (8, 4), {"dropout": 0.0}),
}
every_network = pytest.mark.parametrize("name", NETWORKS)
with_dropout = pytest.mark.parametrize("name", [n for n in NETWORKS if NETWORKS[n][2]])


def new(name: str, num_features: int = 60, rate: float | None = None) -> Any:
    kind, sizes, options = NETWORKS[name]
    torch.manual_seed(3)
    chosen = {key: value if rate is None else rate for key, value in options.items()}
    return kind(num_features, *sizes, **chosen).double()


def call(name: str, net: Any, x: Any, adj: Any) -> Tensor:
    torch.manual_seed(1)  # robust GCN samples in training
    logits: Tensor = net(x) if name == "MLP" else net(x, adj)
    return logits


@every_network
@pytest.mark.parametrize("training", [True, False])
def test_dense_and_sparse_attributes_give_the_same(
    small_graph: Graph, name: str, training: bool
) -> None:
    sparse, dense, adj, _ = inputs(small_graph)
    net = new(name).train(training)
    results = []
    for x in (sparse, dense):
        logits = call(name, net, x, adj)
        results.append({"logits": logits, **gradients(net, logits.square().sum())})
    for key, value in results[0].items():
        torch.testing.assert_close(value, results[1][key])


@every_network
def test_renaming_nodes_renames_the_logits(small_graph: Graph, name: str) -> None:
    _, dense, adj, _ = inputs(small_graph)
    order = torch.randperm(300)
    renamed = operator(adj.to_dense()[order][:, order])
    net = new(name).eval()
    expected = call(name, net, dense, adj)[order]
    torch.testing.assert_close(call(name, net, dense[order], renamed), expected)


@every_network
def test_predictions_draw_no_random_numbers_and_drop_nothing(small_graph: Graph, name: str) -> None:
    x, dense, adj, _ = inputs(small_graph)
    for features in (x, dense):
        expected = call(name, new(name).eval(), features, adj)
        net = new(name, rate=0.6).eval()
        torch.manual_seed(1)
        before = torch.get_rng_state()
        assert torch.equal(call(name, net, features, adj), expected)
        assert torch.equal(torch.get_rng_state(), before)


@with_dropout
def test_a_step_repeats_with_its_seed_and_only_with_it(small_graph: Graph, name: str) -> None:
    x, _, adj, _ = inputs(small_graph)
    net = new(name, rate=0.5).train()
    first = call(name, net, x, adj)
    assert torch.equal(call(name, net, x, adj), first)
    other = net(x) if name == "MLP" else net(x, adj)  # the next random numbers
    assert not torch.equal(other, first)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *((name, "input") for name in ("MLP", "GCN", "GAT")),
        *((name, "") for name in ("MLP", "GCN", "GAT")),  # the hidden layer
        *[("APPNP", "mlp.input"), ("APPNP", "mlp")],
        *[("GAT", "input_attention"), ("GAT", "output_attention")],
    ],
)
def test_dropout_falls_in_each_place(small_graph: Graph, name: str, place: str) -> None:
    x, _, adj, _ = inputs(small_graph)
    net = new(name, rate=0.5).train()
    expected = call(name, new(name).train(), x, adj)
    assert net.get_submodule(place).dropout == 0.5
    for module in net.modules():
        if module is not net.get_submodule(place):
            module.dropout = 0.0
    assert not torch.equal(call(name, net, x, adj), expected)


@every_network
def test_a_training_may_follow_one_in_inference_mode(small_graph: Graph, name: str) -> None:
    """What the operator computed once, in inference mode, serves the training too."""
    expected = None
    for predict_first in (False, True):
        x, _, adj, _ = inputs(small_graph)
        net = new(name).train()
        if predict_first:
            with torch.inference_mode():
                call(name, net, x, adj)
        found = gradients(net, call(name, net, x, adj).square().sum())
        if expected is not None:
            torch.testing.assert_close(found, expected)
        expected = found


@pytest.mark.parametrize(
    ("kind", "sizes", "near"),
    [
        (GCN, (200, 150, 100), 0.02),
        (GAT, (400, 40, 30, 30, 20), 0.15),
        (RobustGCN, (200, 150, 100), 0.02),
    ],
)
def test_weights_begin_by_glorots_rule_and_biases_at_zero(
    kind: Any, sizes: tuple[int, ...], near: float
) -> None:
    net = kind(*sizes)
    for name, value in net.named_parameters():
        # Means and variances of robust GCN are two matrices side by side.
        halves = value.chunk(2, dim=1) if (kind, name) == (RobustGCN, "input.weight") else [value]
        for matrix in halves if value.dim() == 2 else []:
            bound = math.sqrt(6 / sum(matrix.shape))
            assert (1 - near) * bound < matrix.abs().max() <= bound
            assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=near)
        assert value.dim() == 2 or not value.any()


@every_network
def test_nodes_without_attributes_or_edges_get_finite_logits(six_nodes: Graph, name: str) -> None:
    x, _, adj, _ = inputs(six_nodes)
    net = new(name, num_features=4).train()
    logits = call(name, net, x, adj)
    assert torch.isfinite(logits).all()
    for gradient in gradients(net, logits.square().sum()).values():
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        *[(name, "num_features", 0) for name in NETWORKS],
        *[(name, "num_classes", -3) for name in NETWORKS],
        *[(name, "hidden_dim", 0) for name in NETWORKS if name != "SGC"],
        *[(name, "dropout", 1.0) for name in NETWORKS if name != "SGC"],
        *[("MLP", "dropout", rate) for rate in (-0.1, float("nan"))],
        *[("GAT", option, 0) for option in ("num_heads", "num_output_heads")],
        *[("RobustGCN", "gamma", value) for value in (-0.1, float("nan"), float("inf"))],
        *[("GAT", "attention_dropout", 1.0), ("SGC", "num_steps", -1)],
        *[("APPNP", "num_steps", -1), ("APPNP", "alpha", 1.5)],
    ],
)
def test_a_wrong_argument_is_named_with_its_value(name: str, option: str, value: float) -> None:
    sizes = {"num_features": 3, "hidden_dim": 3, "num_classes": 3}
    if name == "SGC":
        del sizes["hidden_dim"]
    with pytest.raises(ValueError, match=rf"`{option}` must .*got {re.escape(str(value))}\."):
        NETWORKS[name][0](**{**sizes, option: value})
