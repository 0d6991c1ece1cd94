from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pamt_lightning.graph import Graph
from pamt_lightning.nn import MLP, InputLinear


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
