from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import SparseFeatures
from pamt_lightning.nn import MLP, InputLinear


def seeded_mlp(dropout: float = 0.0, hidden_dim: int = 16) -> MLP:
    torch.manual_seed(3)
    return MLP(60, hidden_dim, 4, dropout)


@pytest.fixture
def x(small_graph: Graph) -> SparseFeatures:
    return SparseFeatures.from_csr(small_graph.x)


def test_the_network_is_two_linear_maps_with_relu_between(small_graph: Graph) -> None:
    net = seeded_mlp().double().eval()
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    dense = small_graph.x.to_dense().double()
    hidden = np.maximum(dense.numpy() @ state["input.weight"] + state["input.bias"], 0)
    expected = hidden @ state["output.weight"].T + state["output.bias"]
    np.testing.assert_allclose(net(dense).detach().numpy(), expected, rtol=0, atol=1e-13)


def test_parameters_begin_as_those_of_torchs_linear_layer() -> None:
    torch.manual_seed(0)
    layer = InputLinear(400, 300)
    bound = 1 / math.sqrt(400)
    for parameter in (layer.weight, layer.bias):
        assert parameter is not None
        assert parameter.abs().max() <= bound
        assert parameter.abs().max() > 0.95 * bound
        assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_the_layer_may_have_no_bias(x: SparseFeatures) -> None:
    layer = InputLinear(60, 5, bias=False)
    assert layer.bias is None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    torch.testing.assert_close(layer(x), x.to_dense().matrix @ layer.weight)


def test_no_dropout_draws_no_random_numbers_in_training(x: SparseFeatures) -> None:
    net = seeded_mlp(0.0).train()
    before = torch.get_rng_state()
    net(x)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_in_training_changes_the_output_of_both_layers(x: SparseFeatures) -> None:
    net = seeded_mlp(0.5).train()
    assert not torch.equal(net.input(x), net.input(x))
    hidden_only = seeded_mlp(0.5).train()
    hidden_only.input.dropout = 0.0
    assert not torch.equal(hidden_only(x), hidden_only(x))


def test_a_step_of_training_reaches_the_stored_values_unchanged(x: SparseFeatures) -> None:
    before = x.values.clone()
    seeded_mlp(0.5).train()(x).sum().backward()
    assert torch.equal(x.values, before)


def test_a_node_without_attributes_gets_the_output_of_the_biases(six_nodes: Graph) -> None:
    net = MLP(4, 8, 2).eval()
    out = net(SparseFeatures.from_csr(six_nodes.x))
    assert net.input.bias is not None
    torch.testing.assert_close(out[4], net.output(torch.relu(net.input.bias)))
