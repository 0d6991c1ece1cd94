from __future__ import annotations

import pytest
import torch

from pamt_lightning.graph import Graph
from pamt_lightning.nn import SGC
from tests.nn.oracles import gradients, inputs, pyg


def seeded_sgc(num_steps: int) -> SGC:
    torch.manual_seed(3)
    net = SGC(60, 4, num_steps).double()
    with torch.no_grad():
        net.bias.uniform_(-1, 1)
    return net


@pytest.mark.parametrize("num_steps", [0, 1, 2, 5])
def test_it_is_regression_on_propagated_features(small_graph: Graph, num_steps: int) -> None:
    net = seeded_sgc(num_steps)
    x, dense, adj_norm, _ = inputs(small_graph)
    features = torch.linalg.matrix_power(adj_norm.to_dense(), num_steps) @ dense
    torch.testing.assert_close(net(x, adj_norm), features @ net.input.weight + net.bias)


def test_logits_and_gradients_are_those_of_pyg(small_graph: Graph) -> None:
    conv = pyg().SGConv(60, 4, K=2).double()
    net = seeded_sgc(2)
    x, dense, adj_norm, edges = inputs(small_graph)
    with torch.no_grad():
        conv.lin.weight.copy_(net.input.weight.mT)
        conv.lin.bias.copy_(net.bias)
    actual, expected = net(x, adj_norm), conv(dense, edges)
    torch.testing.assert_close(actual, expected)
    ours, theirs = gradients(net, (actual**2).sum()), gradients(conv, (expected**2).sum())
    torch.testing.assert_close(ours["input.weight"], theirs["lin.weight"].mT)
    torch.testing.assert_close(ours["bias"], theirs["lin.bias"])
