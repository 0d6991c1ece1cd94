from __future__ import annotations

import pytest
import torch

from pamt_lightning.functional import propagate
from pamt_lightning.graph import Graph
from pamt_lightning.nn import APPNP
from tests.nn.oracles import gradients, inputs, pyg


def seeded_appnp(alpha: float = 0.1, num_steps: int = 10) -> APPNP:
    torch.manual_seed(3)
    return APPNP(60, 8, 4, 0.0, alpha, num_steps).double()


def test_logits_are_those_of_the_mlp_propagated(small_graph: Graph) -> None:
    net = seeded_appnp()
    x, dense, adj_norm, _ = inputs(small_graph)
    h = torch.relu(dense @ net.mlp.input.weight) @ net.mlp.output.weight.mT
    expected = propagate(adj_norm.to_dense(), h, num_steps=10, alpha=0.1)
    torch.testing.assert_close(net(x, adj_norm), expected)


@pytest.mark.parametrize(("alpha", "num_steps"), [(0.1, 10), (0.25, 3)])
def test_logits_and_gradients_are_those_of_pyg(
    small_graph: Graph, alpha: float, num_steps: int
) -> None:
    net = seeded_appnp(alpha, num_steps)
    x, dense, adj_norm, edges = inputs(small_graph)
    actual = net(x, adj_norm)
    expected = pyg().APPNP(K=num_steps, alpha=alpha)(net.mlp(dense), edges)
    torch.testing.assert_close(actual, expected)
    ours, theirs = gradients(net, (actual**2).sum()), gradients(net, (expected**2).sum())
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient)
