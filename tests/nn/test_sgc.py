from __future__ import annotations

import pytest
import torch

from pamt_lightning.graph import Graph
from pamt_lightning.nn import SGC
from tests.nn.oracles import gradients, inputs, pyg


@pytest.mark.parametrize("num_steps", [0, 1, 2, 5])
def test_it_is_regression_on_propagated_features_and_that_of_pyg(
    small_graph: Graph, num_steps: int
) -> None:
    torch.manual_seed(3)
    conv, net = pyg().SGConv(60, 4, K=num_steps).double(), SGC(60, 4, num_steps).double()
    x, dense, adj_norm, edges = inputs(small_graph)
    with torch.no_grad():
        net.bias.uniform_(-1, 1)
        conv.lin.weight.copy_(net.input.weight.mT)
        conv.lin.bias.copy_(net.bias)
    actual, expected = net(x, adj_norm), conv(dense, edges)
    features = torch.linalg.matrix_power(adj_norm.to_dense(), num_steps) @ dense
    torch.testing.assert_close(actual, features @ net.input.weight + net.bias)
    torch.testing.assert_close(actual, expected)
    ours, theirs = gradients(net, (actual**2).sum()), gradients(conv, (expected**2).sum())
    torch.testing.assert_close(ours["input.weight"], theirs["lin.weight"].mT)
    torch.testing.assert_close(ours["bias"], theirs["lin.bias"])
