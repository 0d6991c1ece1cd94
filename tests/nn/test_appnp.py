from __future__ import annotations

import pytest
import torch

from pamt_lightning.functional import propagate
from pamt_lightning.graph import Graph
from pamt_lightning.nn import APPNP
from tests.nn.oracles import gradients, inputs, pyg


@pytest.mark.parametrize(("alpha", "num_steps"), [(0.1, 10), (0.25, 3)])
def test_logits_are_those_of_the_mlp_propagated_and_of_pyg_and_so_are_gradients(
    small_graph: Graph, alpha: float, num_steps: int
) -> None:
    torch.manual_seed(3)
    net = APPNP(60, 8, 4, 0.0, alpha, num_steps).double()
    x, dense, adj_norm, edges = inputs(small_graph)
    actual = net(x, adj_norm)
    h = torch.relu(dense @ net.mlp.input.weight) @ net.mlp.output.weight.mT
    propagated = propagate(adj_norm.to_dense(), h, num_steps=num_steps, alpha=alpha)
    torch.testing.assert_close(actual, propagated)
    expected = pyg().APPNP(K=num_steps, alpha=alpha)(net.mlp(dense), edges)
    torch.testing.assert_close(actual, expected)
    ours, theirs = gradients(net, (actual**2).sum()), gradients(net, (expected**2).sum())
    torch.testing.assert_close(ours, theirs)
