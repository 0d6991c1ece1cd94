from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import SparseFeatures
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.nn import GAT
from tests.matrices import normalized, operator
from tests.nn.oracles import gradients, inputs, pyg

HEADS, DIM, CLASSES = 3, 5, 4


@pytest.fixture
def adj(small_graph: Graph) -> SparseOperator:
    return normalized(small_graph, torch.float32)


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


@pytest.mark.parametrize("num_output_heads", [1, 3])
def test_logits_and_gradients_are_those_of_the_dense_equations(
    small_graph: Graph, adj: SparseOperator, num_output_heads: int
) -> None:
    net = seeded_gat(num_output_heads).double()
    dense = small_graph.x.to_dense().double()
    actual, expected = net(dense, adj), dense_gat(net, dense, adj.to_dense() != 0)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(gradients(net, loss(actual)), gradients(net, loss(expected)))


class PygGAT(torch.nn.Module):
    """The same network of PyG's layers, with the weights of ours."""

    def __init__(self, conv: Any, net: GAT) -> None:
        super().__init__()
        k = net.num_output_heads
        self.first = conv(60, DIM, heads=HEADS).double()
        self.second = conv(HEADS * DIM, CLASSES, heads=k, concat=False).double()
        names = {
            "first.lin.weight": net.input.weight.mT,
            "first.att_dst": net.input_attention.row[None],
            "first.att_src": net.input_attention.col[None],
            "first.bias": net.input_bias,
            "second.lin.weight": net.output.weight,
            "second.att_dst": net.output_attention.row[None],
            "second.att_src": net.output_attention.col[None],
            "second.bias": net.output_bias,
        }
        self.load_state_dict(names)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = torch.nn.functional.elu(self.first(x, edge_index))
        out: Tensor = self.second(hidden, edge_index)
        return out


@pytest.mark.parametrize("num_output_heads", [1, 3])
def test_logits_and_gradients_are_those_of_pyg(
    small_graph: Graph, adj: SparseOperator, num_output_heads: int
) -> None:
    conv = pyg().GATConv
    net = seeded_gat(num_output_heads).double()
    other = PygGAT(conv, net)
    dense = small_graph.x.to_dense().double()
    edge_index = inputs(small_graph)[3]  # PyG adds the self-loops
    actual, expected = net(dense, adj), other(dense, edge_index)
    torch.testing.assert_close(actual, expected)

    ours, theirs = gradients(net, loss(actual)), gradients(other, loss(expected))
    renamed = {
        "input.weight": theirs["first.lin.weight"].mT,
        "input_attention.row": theirs["first.att_dst"][0],
        "input_attention.col": theirs["first.att_src"][0],
        "input_bias": theirs["first.bias"],
        "output.weight": theirs["second.lin.weight"],
        "output_attention.row": theirs["second.att_dst"][0],
        "output_attention.col": theirs["second.att_src"][0],
        "output_bias": theirs["second.bias"],
    }
    torch.testing.assert_close(dict(sorted(ours.items())), dict(sorted(renamed.items())))


def test_only_the_pattern_of_the_matrix_counts(small_graph: Graph, x: SparseFeatures) -> None:
    net = seeded_gat()
    plain = operator(small_graph.adjacency).add_identity()
    assert torch.equal(net(x, plain), net(x, normalized(small_graph, torch.float32)))


def test_weights_begin_by_glorots_rule_and_biases_at_zero() -> None:
    torch.manual_seed(0)
    net = GAT(400, 40, 30, 30, 20)
    for parameter, fans in (
        (net.input.weight, 400 + 1200),
        (net.output.weight, 1200 + 600),
        (net.input_attention.row, 30 + 40),
        (net.input_attention.col, 30 + 40),
        (net.output_attention.row, 20 + 30),
        (net.output_attention.col, 20 + 30),
    ):
        bound = math.sqrt(6 / fans)
        assert 0.95 * bound < parameter.abs().max() <= bound
        assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert not net.input_bias.any()
    assert not net.output_bias.any()


def test_a_graph_without_self_loops_is_refused(small_graph: Graph, x: SparseFeatures) -> None:
    message = "`adj` must have one self-loop on each node, got 0 on 300 nodes."
    with pytest.raises(ValueError, match=re.escape(message)):
        seeded_gat()(x, operator(small_graph.adjacency))
