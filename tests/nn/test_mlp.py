from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pamt_lightning.graph import Graph
from pamt_lightning.nn import GCN, MLP, InputLinear
from pamt_lightning.nn.mlp import ROW_ENERGY


def test_the_network_is_two_linear_maps_with_relu_between(small_graph: Graph) -> None:
    torch.manual_seed(3)
    net = MLP(60, 16, 4).double()
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


# The unit of the attributes


def row_energy(x: torch.Tensor) -> float:
    return float(x.to_dense().double().square().sum()) / x.shape[0]


@pytest.mark.parametrize("unit", [1e-6, 0.3, 100.0, 1e6])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_unit_of_the_attributes_does_not_matter(
    small_graph: Graph, sparse: bool, unit: float
) -> None:
    x = small_graph.x if sparse else small_graph.x.to_dense()
    net = MLP(60, 16, 4, dropout=0.5).train()
    found = []
    for each in (x, x * unit):
        net.input.fit_scale(row_energy(each))
        torch.manual_seed(0)
        logits = net(each)
        (slope,) = torch.autograd.grad(logits.square().sum(), net.input.weight)
        found.append({"logits": logits, "slope": slope})
        assert row_energy(each) * float(net.input.scale) ** 2 == pytest.approx(ROW_ENERGY)
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)
    assert not torch.allclose(net(x), net(x * unit), rtol=0.01)  # of one scale


def test_attributes_that_are_all_zero_keep_the_scale_one() -> None:
    layer = InputLinear(3, 2)
    layer.fit_scale(5.0)
    layer.fit_scale(0.0)
    assert float(layer.scale) == 1


def test_the_scale_is_saved_and_not_trained() -> None:
    net, other = MLP(3, 2, 2), MLP(3, 2, 2)
    net.input.fit_scale(7.0)
    assert "input.scale" not in dict(net.named_parameters())
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.input.scale, net.input.scale)
    assert float(other.input.scale) != 1


@pytest.mark.parametrize("kind", [MLP, GCN])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_without_a_scale_is_loaded_with_one(
    kind: type[MLP | GCN], dtype: torch.dtype
) -> None:
    net, state = kind(3, 2, 2).to(dtype), kind(3, 2, 2).to(dtype).state_dict()
    net.input.fit_scale(7.0)
    expected = {name: value for name, value in state.items() if name != "input.scale"}
    net.load_state_dict(dict(expected))
    assert float(net.input.scale) == 1
    torch.testing.assert_close(dict(net.state_dict()), {**expected, "input.scale": net.input.scale})
    assert {value.dtype for value in net.state_dict().values()} == {dtype}


@pytest.mark.parametrize("before", [None, 0.0, 0.25])
def test_the_dropout_of_the_attributes_may_be_another(before: float | None) -> None:
    net = MLP(3, 2, 2, dropout=0.5, input_dropout=before)
    assert net.input.dropout == (0.5 if before is None else before)
    assert net.dropout == 0.5
