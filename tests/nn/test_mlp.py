from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import as_features
from pamt_lightning.nn import GCN, MLP, InputLinear
from pamt_lightning.nn.mlp import ROW_ENERGY, unit_scale


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
    assert float(layer.scale) == unit_scale(torch.zeros(4, 3)) == unit_scale(torch.ones(0, 3)) == 1


def test_the_scale_of_a_matrix_is_that_of_its_rows() -> None:
    x, layer = 1e25 * torch.randn(50, 3), InputLinear(3, 2)  # its squares overflow
    layer.fit_scale(row_energy(x))
    assert unit_scale(x) == pytest.approx(float(layer.scale))
    assert row_energy(x) * unit_scale(x) ** 2 == pytest.approx(ROW_ENERGY)


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


@pytest.mark.parametrize("bias", [True, False])
def test_products_of_parts_give_the_logits_of_the_whole(bias: bool) -> None:
    net, x = MLP(7, 5, 3, dropout=0.5, bias=bias).eval(), torch.randn(9, 7)
    net.input.fit_scale(2.0)
    weight = net.input.scale * net.input.weight
    products = x[:, :4] @ weight[:4] + x[:, 4:] @ weight[4:]
    torch.testing.assert_close(net.from_products(products), net(as_features(x)))
