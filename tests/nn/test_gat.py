from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import SparseFeatures
from pamt_lightning.nn import GAT
from tests.matrices import normalized, operator
from tests.nn.oracles import gradients, inputs, pyg

HEADS, DIM, CLASSES = 3, 5, 4


@pytest.fixture
def x(small_graph: Graph) -> SparseFeatures:
    return SparseFeatures.from_csr(small_graph.x)


def seeded_gat(num_output_heads: int = 1) -> GAT:
    torch.manual_seed(3)
    net = GAT(60, DIM, CLASSES, HEADS, num_output_heads, 0.0, 0.0)
    with torch.no_grad():  # zero biases would hide a missing one
        net.input_bias.uniform_(-1, 1)
        net.output_bias.uniform_(-1, 1)
    return net


def dense_layer(h: Tensor, row: Tensor, col: Tensor, linked: Tensor) -> Tensor:
    """Attention of one head on dense matrices, in the words of the paper: a [h_i || h_j]."""
    n = len(h)
    pairs = torch.cat([h[:, None].expand(n, n, -1), h[None].expand(n, n, -1)], dim=-1)
    scores = pairs @ torch.cat([row, col])
    scores = torch.where(scores > 0, scores, 0.2 * scores)
    return torch.softmax(scores.masked_fill(~linked, -torch.inf), dim=1) @ h


def dense_gat(net: GAT, x: Tensor, linked: Tensor) -> Tensor:
    first, second = net.input_attention, net.output_attention
    heads = [
        dense_layer(x @ net.input.weight[:, DIM * k : DIM * (k + 1)], row, col, linked)
        for k, (row, col) in enumerate(zip(first.row, first.col, strict=True))
    ]
    hidden = torch.cat(heads, dim=1) + net.input_bias
    hidden = torch.where(hidden > 0, hidden, hidden.exp() - 1)
    weight = net.output.weight.mT
    heads = [
        dense_layer(hidden @ weight[:, CLASSES * k : CLASSES * (k + 1)], row, col, linked)
        for k, (row, col) in enumerate(zip(second.row, second.col, strict=True))
    ]
    return sum(heads, start=torch.zeros(())) / len(heads) + net.output_bias


def loss(out: Tensor) -> Tensor:
    return (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)).sum()


OURS = {
    **{"0.lin.weight": "input.weight", "0.bias": "input_bias"},
    **{"0.att_dst": "input_attention.row", "0.att_src": "input_attention.col"},
    **{"1.lin.weight": "output.weight", "1.bias": "output_bias"},
    **{"1.att_dst": "output_attention.row", "1.att_src": "output_attention.col"},
}


def as_pyg(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters or their gradients, by the names and in the shapes of PyG."""
    found = {name: values[ours] for name, ours in OURS.items()}
    found["0.lin.weight"] = found["0.lin.weight"].mT
    return {name: value[None] if "att" in name else value for name, value in found.items()}


@pytest.mark.parametrize("heads", [1, 3])
def test_logits_and_gradients_are_those_of_dense_equations_and_of_pyg(
    small_graph: Graph, heads: int
) -> None:
    conv = pyg().GATConv
    first = conv(60, DIM, heads=HEADS)
    second = conv(HEADS * DIM, CLASSES, heads=heads, concat=False)
    net, other = seeded_gat(heads).double(), torch.nn.ModuleList([first, second]).double()
    other.load_state_dict(as_pyg(dict(net.named_parameters())))
    _, dense, adj, edges = inputs(small_graph)  # PyG adds the self-loops
    actual, expected = net(dense, adj), dense_gat(net, dense, adj.to_dense() != 0)
    torch.testing.assert_close(actual, expected)
    ours = gradients(net, loss(actual))
    torch.testing.assert_close(ours, gradients(net, loss(expected)))
    of_pyg = second(torch.nn.functional.elu(first(dense, edges)), edges)
    torch.testing.assert_close(actual, of_pyg)
    theirs = gradients(other, loss(of_pyg))
    torch.testing.assert_close(as_pyg(ours), {name: theirs[name] for name in OURS})


def test_only_the_pattern_of_the_matrix_counts(small_graph: Graph, x: SparseFeatures) -> None:
    net = seeded_gat()
    plain = operator(small_graph.adjacency).add_identity()
    assert torch.equal(net(x, plain), net(x, normalized(small_graph, torch.float32)))


def test_a_graph_without_self_loops_is_refused(small_graph: Graph, x: SparseFeatures) -> None:
    message = "`adj` must have one self-loop on each node, got 0 on 300 nodes."
    with pytest.raises(ValueError, match=re.escape(message)):
        seeded_gat()(x, operator(small_graph.adjacency))
