from __future__ import annotations

import torch

from pamt_lightning.graph import Graph
from pamt_lightning.nn import GCN
from tests.nn.oracles import gradients, inputs, pyg


def seeded_gcn() -> GCN:
    torch.manual_seed(3)
    net = GCN(60, 8, 4, 0.0).double()
    with torch.no_grad():  # zero biases would hide a missing one
        net.input_bias.uniform_(-0.1, 0.1)
        net.output_bias.uniform_(-0.1, 0.1)
    return net


def test_logits_are_those_of_the_dense_equation_and_of_pyg_and_so_are_gradients(
    small_graph: Graph,
) -> None:
    nn = pyg()
    net = seeded_gcn()
    x, dense, adj_norm, edges = inputs(small_graph)
    a, actual = adj_norm.to_dense(), net(x, adj_norm)
    hidden = torch.relu(a @ dense @ net.input.weight + net.input_bias)
    torch.testing.assert_close(actual, a @ hidden @ net.output.weight.mT + net.output_bias)
    first, second = nn.GCNConv(60, 8).double(), nn.GCNConv(8, 4).double()
    with torch.no_grad():
        first.lin.weight.copy_(net.input.weight.mT)
        first.bias.copy_(net.input_bias)
        second.lin.weight.copy_(net.output.weight)
        second.bias.copy_(net.output_bias)
    expected = second(torch.relu(first(dense, edges)), edges)
    torch.testing.assert_close(actual, expected)
    ours = gradients(net, (actual**2).sum())
    theirs = gradients(first, (expected**2).sum())
    torch.testing.assert_close(ours["input.weight"], theirs["lin.weight"].mT)
    torch.testing.assert_close(ours["input_bias"], theirs["bias"])
