from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.dropout import dropout, relu_dropout
from pamt_lightning.nn import MLP, InputLinear, SparseFeatures


def seeded_mlp(dropout: float = 0.0, hidden_dim: int = 16) -> MLP:
    torch.manual_seed(3)
    return MLP(60, hidden_dim, 4, dropout)


@pytest.fixture
def x(small_graph: Graph) -> SparseFeatures:
    return SparseFeatures.from_csr(small_graph.x)


def identity(size: int, dropout: float) -> InputLinear:
    """A layer that shows what dropout makes of its input."""
    layer = InputLinear(size, size, dropout, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(size))
    return layer


def test_the_network_is_two_linear_maps_with_relu_between(small_graph: Graph) -> None:
    net = seeded_mlp().double().eval()
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    dense = small_graph.x.to_dense().double()
    hidden = np.maximum(dense.numpy() @ state["input.weight"] + state["input.bias"], 0)
    expected = hidden @ state["output.weight"].T + state["output.bias"]
    np.testing.assert_allclose(net(dense).detach().numpy(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dense_and_sparse_features_give_the_same_in_eval(
    small_graph: Graph, x: SparseFeatures, dropout: float
) -> None:
    net = seeded_mlp(dropout).eval()
    torch.testing.assert_close(net(x), net(small_graph.x.to_dense()), rtol=1e-5, atol=1e-6)


def test_dense_and_sparse_features_give_the_same_gradients(small_graph: Graph) -> None:
    grads = []
    for x in (
        SparseFeatures.from_csr(small_graph.x, torch.float64),
        small_graph.x.to_dense().double(),
    ):
        net = seeded_mlp().double()
        net(x).square().sum().backward()
        grads.append([parameter.grad for parameter in net.parameters()])
    for sparse, dense in zip(*grads, strict=True):
        torch.testing.assert_close(sparse, dense)


def test_parameters_begin_as_those_of_torchs_linear_layer() -> None:
    torch.manual_seed(0)
    layer = InputLinear(400, 300)
    bound = 1 / math.sqrt(400)
    for parameter in (layer.weight, layer.bias):
        assert parameter is not None
        assert parameter.abs().max() <= bound
        assert parameter.abs().max() > 0.95 * bound
        assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_the_layer_may_have_no_bias(x: SparseFeatures) -> None:
    layer = InputLinear(60, 5, bias=False)
    assert layer.bias is None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    torch.testing.assert_close(layer(x.with_values(2 * x.values)), 2 * layer(x))


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_dropout_keeps_zeros_scales_the_rest_and_has_the_right_mean(kind: str, rate: float) -> None:
    torch.manual_seed(0)
    dense = torch.zeros(400, 50)
    dense[:, ::2] = 3.0
    features: Any = SparseFeatures.from_csr(dense.to_sparse_csr()) if kind == "sparse" else dense
    out = identity(50, rate)(features).detach()
    assert torch.equal(out[:, 1::2], torch.zeros(400, 25))
    kept = out[:, ::2]
    keeps = 1 - round(rate * 2**16) / 2**16  # the rate is a multiple of 2^-16
    assert torch.allclose(kept[kept != 0], torch.tensor(3.0 / keeps), rtol=1e-6)
    share = (kept != 0).float().mean().item()
    deviation = math.sqrt(rate * (1 - rate) / kept.numel())
    assert abs(share - (1 - rate)) < 5 * deviation
    assert kept.mean().item() == pytest.approx(3.0, abs=5 * 3 * deviation / (1 - rate))


@pytest.mark.parametrize("rate", [1e-9, 0.9999999])
def test_dropout_at_the_ends_of_its_range_stays_finite(rate: float) -> None:
    torch.manual_seed(0)
    out = dropout(torch.ones(100_001), rate, training=True)  # not a multiple of four
    assert torch.isfinite(out).all()
    kept = (out != 0).float().mean().item()
    assert kept == 1.0 if rate < 0.5 else kept < 1e-3


@pytest.mark.parametrize("cuts", [[0], [4], [1, 2, 7], [5, 5, 400], [399]])
def test_parts_drop_together_what_the_whole_would(cuts: list[int]) -> None:
    whole = torch.ones(401)
    torch.manual_seed(3)
    expected, after = dropout(whole, 0.4, training=True), torch.get_rng_state()
    found = []
    for first, part in zip([0, *cuts], whole.tensor_split(cuts), strict=True):
        torch.manual_seed(3)
        found.append(dropout(part, 0.4, training=True, first=first))
        assert torch.equal(torch.get_rng_state(), after)
    assert torch.equal(torch.cat(found), expected)
    assert not torch.equal(dropout(whole, 0.4, training=True), expected)  # the next draw


def test_dropout_falls_on_each_entry_by_itself() -> None:
    torch.manual_seed(0)
    x = SparseFeatures.from_csr(torch.ones(300, 40).to_sparse_csr())
    kept = identity(40, 0.5)(x).detach() != 0
    for axis in (0, 1):  # whole rows or columns would make shares of 0 and 1
        shares = kept.float().mean(dim=axis)
        assert 0.1 < shares.min() <= shares.max() < 0.9


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_dropout_is_off_in_eval_and_draws_no_random_numbers(
    small_graph: Graph, x: SparseFeatures, kind: str
) -> None:
    features = x if kind == "sparse" else small_graph.x.to_dense()
    with_dropout, without = seeded_mlp(0.5).eval(), seeded_mlp(0.0).eval()
    before = torch.get_rng_state()
    assert torch.equal(with_dropout(features), without(features))
    assert torch.equal(torch.get_rng_state(), before)


def test_no_dropout_draws_no_random_numbers_in_training(x: SparseFeatures) -> None:
    net = seeded_mlp(0.0).train()
    before = torch.get_rng_state()
    net(x)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_in_training_changes_the_output_of_both_layers(x: SparseFeatures) -> None:
    net = seeded_mlp(0.5).train()
    assert not torch.equal(net.input(x), net.input(x))
    hidden_only = seeded_mlp(0.5).train()
    hidden_only.input.dropout = 0.0
    assert not torch.equal(hidden_only(x), hidden_only(x))


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_same_seed_gives_the_same_bits(
    small_graph: Graph, x: SparseFeatures, kind: str
) -> None:
    features = x if kind == "sparse" else small_graph.x.to_dense()
    net = seeded_mlp(0.5).train()
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(net(features).detach())
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_a_step_of_training_reaches_the_stored_values_unchanged(x: SparseFeatures) -> None:
    before = x.values.clone()
    seeded_mlp(0.5).train()(x).sum().backward()
    assert torch.equal(x.values, before)


def train_bits(x: SparseFeatures, threads: int) -> list[Tensor]:
    torch.set_num_threads(threads)
    layer = InputLinear(60, 512, dropout=0.5)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape))
    torch.manual_seed(0)
    out = layer(x)
    out.square().sum().backward()
    assert layer.weight.grad is not None
    return [out.detach(), layer.weight.grad]


def test_bits_of_the_sparse_layer_do_not_depend_on_the_number_of_threads(
    x: SparseFeatures,
) -> None:
    for one, two in zip(train_bits(x, 1), train_bits(x, 2), strict=True):
        assert torch.equal(one, two)


def test_a_node_without_attributes_gets_the_output_of_the_biases(six_nodes: Graph) -> None:
    net = MLP(4, 8, 2).eval()
    out = net(SparseFeatures.from_csr(six_nodes.x))
    assert net.input.bias is not None
    torch.testing.assert_close(out[4], net.output(torch.relu(net.input.bias)))


@pytest.mark.parametrize("name", ["num_features", "hidden_dim", "num_classes"])
@pytest.mark.parametrize("size", [0, -3])
def test_sizes_must_be_positive(name: str, size: int) -> None:
    sizes: dict[str, Any] = {"num_features": 3, "hidden_dim": 3, "num_classes": 3} | {name: size}
    with pytest.raises(ValueError, match=re.escape(f"`{name}` must be 1 or more, got {size}.")):
        MLP(**sizes)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
def test_dropout_must_lie_in_its_range(dropout: float) -> None:
    message = f"`dropout` must lie in [0, 1), got {dropout}."
    with pytest.raises(ValueError, match=re.escape(message)):
        MLP(3, 3, 3, dropout)


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("training", [False, True])
def test_rectifier_and_dropout_in_one_are_the_two_after_each_other(
    rate: float, training: bool, generator: torch.Generator
) -> None:
    x = torch.randn(31, 7, generator=generator, dtype=torch.float64)
    upstream = torch.randn(31, 7, generator=generator, dtype=torch.float64)
    results = []
    for fused in (True, False):
        torch.manual_seed(5)
        leaf = x.clone().requires_grad_()
        if fused:
            out, scale = relu_dropout(leaf * 1, rate, training, first=3)
            out = scale * out
        else:
            out = dropout(torch.relu(leaf), rate, training, first=3)
        (grad,) = torch.autograd.grad(out, leaf, upstream)
        results.append((out.detach(), grad, torch.get_rng_state()))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-14, atol=0)
    if rate and training:
        assert (results[0][0] == 0).double().mean() > 0.6


def test_rectifier_and_dropout_overwrite_what_they_are_given() -> None:
    x = torch.randn(8, 4)
    assert relu_dropout(x, 0.5, True)[0] is x


def test_draws_of_different_seeds_are_independent() -> None:
    """All are from one stream: stretches of it must be no more alike than chance."""
    draws = []
    for seed in range(4):
        torch.manual_seed(seed)
        draws += [dropout(torch.ones(200_000), 0.5, True) > 0 for _ in range(3)]
    for i, one in enumerate(draws):
        assert abs(one.double().mean() - 0.5) < 5 * 0.5 / math.sqrt(200_000)
        for other in draws[:i]:
            for lag in (0, 1, 4):
                agree = (one[lag:] == other[: len(other) - lag]).double().mean()
                assert abs(agree - 0.5) < 5 * 0.5 / math.sqrt(200_000)
