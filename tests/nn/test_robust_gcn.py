from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import SparseFeatures
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.nn.robust_gcn import RobustGCN
from tests.matrices import normalized
from tests.nn.oracles import inputs

Array = npt.NDArray[np.float64]


def seeded_net(dropout: float = 0.0, gamma: float = 1.0, hidden_dim: int = 16) -> RobustGCN:
    torch.manual_seed(3)
    return RobustGCN(60, hidden_dim, 4, dropout, gamma).double()


@pytest.fixture
def x(small_graph: Graph) -> SparseFeatures:
    return inputs(small_graph)[0]


def dense_moments(net: RobustGCN, graph: Graph, gamma: float = 1.0) -> tuple[Array, Array, float]:
    """Mean and variance of the logits, and the KL term, written out in NumPy."""
    with_loops = graph.adjacency.to_dense().double().numpy() + np.eye(graph.num_nodes)
    degree = with_loops.sum(axis=1)
    for_means = with_loops / np.sqrt(np.outer(degree, degree))
    for_variances = with_loops / np.outer(degree, degree)
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    split = state["input.weight"].shape[1] // 2

    def elu(values: Array) -> Array:
        return np.where(values > 0, values, np.exp(np.minimum(values, 0)) - 1)

    def convolve(mean: Array, variance: Array) -> tuple[Array, Array]:
        faded = np.exp(-gamma * variance)
        return for_means @ (mean * faded), for_variances @ (variance * faded**2)

    features = graph.x.to_dense().double().numpy()
    mean = elu(features @ state["input.weight"][:, :split])
    variance = np.maximum(features @ state["input.weight"][:, split:], 0)
    floored = np.maximum(variance, 1e-8)
    kl = 0.5 * (mean**2 + floored - np.log(floored) - 1).mean(axis=1).sum()
    mean, variance = convolve(mean, variance)
    mean = elu(mean @ state["output_mean.weight"].T)
    variance = np.maximum(variance @ state["output_variance.weight"].T, 0)
    return *convolve(mean, variance), float(kl)


@pytest.mark.parametrize("gamma", [0.0, 1.0, 3.0])
def test_prediction_and_divergence_are_the_dense_formula(
    small_graph: Graph, x: SparseFeatures, adj_norm: SparseOperator, gamma: float
) -> None:
    net = seeded_net(gamma=gamma).eval()
    logits, kl = net.forward_with_kl(x, adj_norm)
    mean, _, expected_kl = dense_moments(net, small_graph, gamma)
    np.testing.assert_allclose(logits.detach().numpy(), mean, rtol=0, atol=1e-12)
    assert kl.shape == ()
    assert kl.item() == pytest.approx(expected_kl, rel=1e-12)


def test_samples_have_the_moments_of_the_dense_formula(
    small_graph: Graph, x: SparseFeatures, adj_norm: SparseOperator
) -> None:
    net = seeded_net().train()
    mean, variance, _ = dense_moments(net, small_graph)
    assert (variance > 1e-4).mean() > 0.3  # else there is nothing to measure
    draws = 1000
    torch.manual_seed(0)
    with torch.no_grad():
        samples = torch.stack([net(x, adj_norm) for _ in range(draws)]).numpy()
        predicted = net.eval()(x, adj_norm).numpy()
    assert len(np.unique(samples[0] - samples[1])) == predicted.size  # noise for each logit
    deviation = np.sqrt(variance + 1e-8)
    score = (samples.mean(axis=0) - predicted) / (deviation / math.sqrt(draws))
    assert np.abs(score).max() < 5  # 1200 logits: beyond 5 with a chance below 0.001
    assert score.std() == pytest.approx(1.0, abs=0.1)
    ratio = samples.var(axis=0) / deviation**2
    assert np.abs(ratio - 1).max() < 5 * math.sqrt(2 / draws)
    np.testing.assert_allclose(predicted, mean, rtol=0, atol=1e-12)


def test_hidden_means_and_variances_drop_independently(
    x: SparseFeatures, adj_norm: SparseOperator
) -> None:
    net = seeded_net(0.5).train()
    net.input.dropout = 0.0
    seen: list[Tensor] = []
    for layer in (net.output_mean, net.output_variance):
        layer.register_forward_hook(lambda _, args, out: seen.append(args[0] == 0))
    net(x, adj_norm)
    for both in (seen[0] & seen[1], seen[0] & ~seen[1], ~seen[0] & seen[1]):
        assert 0.2 < both.double().mean() < 0.3


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_empty_rows_and_huge_attributes_give_no_nan(six_nodes: Graph, scale: float) -> None:
    torch.manual_seed(0)
    net = RobustGCN(4, 8, 2, dropout=0.5).train()
    x = SparseFeatures.from_csr(scale * six_nodes.x)
    adj_norm = normalized(six_nodes, torch.float32)
    for _ in range(10):
        logits, kl = net.forward_with_kl(x, adj_norm)
        net.zero_grad()
        torch.autograd.backward(logits.square().sum() + kl)
        for tensor in (logits, kl, *(parameter.grad for parameter in net.parameters())):
            assert tensor is not None
            assert tensor.isfinite().all()


def test_without_variance_training_gives_finite_gradients_and_the_mean(
    x: SparseFeatures, adj_norm: SparseOperator
) -> None:
    net = seeded_net(gamma=5.0).train()
    with torch.no_grad():
        net.input.weight[:, 16:] = -1.0  # attributes are positive, so ReLU leaves zeros
    logits, kl = net.forward_with_kl(x, adj_norm)
    torch.autograd.backward(logits.square().sum() + kl)
    for parameter in net.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    net.eval()
    net.gamma = 0.0  # nothing is uncertain, so attention says nothing
    torch.testing.assert_close(net(x, adj_norm), logits, rtol=0, atol=6e-4)


def test_gradients_are_those_of_finite_differences(six_nodes: Graph) -> None:
    torch.manual_seed(1)
    net = RobustGCN(4, 3, 2, dropout=0.3).double().train()
    x = inputs(six_nodes)[0]
    adj_norm = normalized(six_nodes)
    assert dense_moments(net, six_nodes)[1].any()  # else the variances have no part in it

    def outputs(*_: Tensor) -> tuple[Tensor, Tensor]:
        torch.manual_seed(7)  # the same dropout and noise each time
        return net.forward_with_kl(x, adj_norm)

    # The parameters are changed in place, so the net sees them without being handed them.
    assert torch.autograd.gradcheck(outputs, tuple(net.parameters()))
