"""Trust in edges: against NumPy, SciPy's isotonic regression, a mixture with known rates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

from pamt_lightning.functional import edge_trust, normalize_adjacency, pair_cosine
from pamt_lightning.functional.trust import (
    falling_regression,
    local_false_discovery_rate,
    random_pairs,
)
from pamt_lightning.kernels.operator import SparseOperator
from tests.matrices import operator


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def attributes(num_nodes: int = 30, width: int = 12, seed: int = 0) -> Tensor:
    dense = torch.rand(num_nodes, width, generator=generator(seed)) - 0.2
    dense[dense < 0.3] = 0.0
    dense[4] = 0.0  # a node without attributes
    return dense


def graph_of(pairs: Tensor, num_nodes: int) -> SparseOperator:
    dense = torch.zeros(num_nodes, num_nodes)
    dense[pairs[0], pairs[1]] = 1.0
    dense = ((dense + dense.T) > 0).float().fill_diagonal_(0.0)
    return operator(dense)


# Cosine


@pytest.mark.parametrize("sparse", [True, False])
def test_cosine_of_pairs_is_that_of_the_whole_matrix(sparse: bool) -> None:
    x = attributes()
    first, second = torch.randint(30, (2, 500), generator=generator())
    dense = x.double().numpy()
    lengths = np.linalg.norm(dense, axis=1)
    lengths[lengths == 0] = 1.0
    whole = (dense / lengths[:, None]) @ (dense / lengths[:, None]).T
    found = pair_cosine(x.to_sparse_csr() if sparse else x, first, second)
    np.testing.assert_allclose(found.numpy(), whole[first, second], atol=1e-8)
    assert (found[(first == 4) | (second == 4)] == 0).all()


# Random pairs


def test_a_node_is_drawn_as_often_as_it_has_edges() -> None:
    star = graph_of(torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2]]), 5)
    first, second = random_pairs(star, 100_000, generator())
    assert bool((first != second).all())
    # Degrees 3, 2, 2, 1, 0; a pair of a node with itself is left out.
    share = torch.tensor([3, 2, 2, 1, 0], dtype=torch.float64) / 8
    expected = share[:, None] * share[None, :] * (1 - torch.eye(5))
    expected = expected.sum(1) / expected.sum()
    found = torch.bincount(first, minlength=5) / len(first)
    torch.testing.assert_close(found.double(), expected, atol=0.01, rtol=0)


# Isotonic regression


@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_falling_regression_is_that_of_scipy(length: int) -> None:
    for seed in range(20):
        values = torch.rand(length, generator=generator(seed), dtype=torch.float64)
        weights = torch.rand(length, generator=generator(seed + 99), dtype=torch.float64) + 0.01
        oracle = isotonic_regression(values.numpy(), weights=weights.numpy(), increasing=False).x
        np.testing.assert_allclose(falling_regression(values, weights).numpy(), oracle, atol=1e-12)


# The rate


@pytest.mark.parametrize("null_share", [0.1, 0.4, 0.8])
def test_the_rate_of_a_known_mixture_is_found(null_share: float) -> None:
    # Null: uniform. Alternative: density 4s³, nearly 0 where the null is not, so the share shows.
    draw = torch.rand(200_000, generator=generator(), dtype=torch.float64)
    is_null = torch.rand(200_000, generator=generator(1)) < null_share
    scores = torch.where(is_null, draw, draw**0.25)
    null = torch.rand(100_000, generator=generator(2), dtype=torch.float64)
    rate = local_false_discovery_rate(scores, null)
    truth = null_share / (null_share + (1 - null_share) * 4 * scores**3)
    assert abs(float(rate.mean()) - null_share) < 0.05
    assert float((rate - truth).abs().mean()) < 0.04


@pytest.mark.parametrize("size", [50, 400])
def test_the_mean_rate_is_the_share_also_where_bins_are_pooled(size: int) -> None:
    scores = torch.rand(size, generator=generator(), dtype=torch.float64) ** 0.8
    null = torch.rand(300, generator=generator(1), dtype=torch.float64)
    rate = local_false_discovery_rate(scores, null)
    lowest = scores < torch.sort(scores[rate < rate.max()]).values[0]
    # Where the rate is 1, the share times what the null leads one to expect is what there is.
    expected = (null < scores[~lowest].min()).double().mean()
    assert float(rate.mean()) == pytest.approx(float(lowest.double().mean() / expected))
    assert len(set(rate.tolist())) < 15  # of 40 bins


def test_scores_of_the_null_and_far_from_it_are_told_apart() -> None:
    draw = torch.rand(2, 20_000, generator=generator(), dtype=torch.float64)
    same = local_false_discovery_rate(draw[0], draw[1])
    assert float(same.mean()) > 0.8
    apart = local_false_discovery_rate(draw[0] + 2, draw[1])
    assert float(apart[draw[0] > 0.1].max()) == 0.0


def test_equal_scores_share_one_bin() -> None:
    half = torch.full((100,), 0.5, dtype=torch.float64)
    assert bool((local_false_discovery_rate(half, half) == 1).all())
    many_zeros = torch.cat([torch.zeros(900), torch.linspace(0.1, 1, 100)]).double()
    rate = local_false_discovery_rate(many_zeros, torch.zeros(500).double())
    assert bool((rate[:900] == 1).all())
    assert bool((rate[950:] == 0).all())  # the last zeros share a bin with the lowest others


def test_no_scores_have_no_rates() -> None:
    none = torch.empty(0, dtype=torch.float64)
    assert len(local_false_discovery_rate(none, torch.rand(5).double())) == 0
    assert bool((local_false_discovery_rate(torch.rand(5).double(), none) == 0).all())


# Edges


def two_topics(planted: int) -> tuple[SparseOperator, Tensor, Tensor]:
    """Edges within two topics and ``planted`` between any two nodes; which are planted."""
    draw, size = generator(5), 400
    topic = torch.arange(size) % 2
    x = torch.rand(size, 20, generator=draw)
    x[:, :10] *= (topic == 0).float()[:, None]
    x[:, 10:] *= (topic == 1).float()[:, None]
    same = torch.randint(200, (2, 2_000), generator=draw) * 2
    same = torch.cat([same, same + 1], 1)
    any_two = torch.randint(size, (2, planted), generator=draw)
    return graph_of(torch.cat([same, any_two], 1), size), x, topic


def test_planted_edges_lose_their_weight_and_others_keep_most() -> None:
    adjacency, x, topic = two_topics(planted=2_000)
    adj_norm = normalize_adjacency(adjacency)
    weight = edge_trust(adj_norm, x, generator())
    rows, cols = adj_norm.row_index, adj_norm.col
    between, loops = topic[rows] != topic[cols], rows == cols
    assert bool((weight[loops] == 1).all())
    assert float(weight[between].mean()) < 0.05
    assert float(weight[~between & ~loops].mean()) > 0.6
    assert 0.25 < 1 - float(weight[~loops].mean()) < 0.45  # a third was planted
    dense = adj_norm.with_values(weight).to_dense()
    assert torch.equal(dense, dense.T)
    adjacency, x, _ = two_topics(planted=0)
    adj_norm = normalize_adjacency(adjacency)
    assert float(edge_trust(adj_norm, x, generator()).mean()) > 0.95


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_and_dense_attributes_are_trusted_alike(dtype: torch.dtype) -> None:
    adjacency, x, _ = two_topics(planted=500)
    adj_norm = normalize_adjacency(adjacency.with_values(adjacency.values.to(dtype)))
    x = (x > 0.4).to(dtype)  # many equal cosines, to be equal however they are summed
    dense = edge_trust(adj_norm, x, generator())
    sparse = edge_trust(adj_norm, x.to_sparse_csr(), generator())
    assert dense.dtype == dtype
    assert torch.equal(dense, sparse)
    assert len(set(dense.tolist())) > 3


def test_hubs_count_as_they_do_among_edges_and_nodes_without_edges_do_not() -> None:
    adjacency, x, _ = two_topics(planted=2_000)
    size = adjacency.num_nodes
    more = torch.zeros(size + 1_000, size + 1_000)
    more[:size, :size] = adjacency.to_dense()
    plain = edge_trust(normalize_adjacency(adjacency), x, generator())
    padded = torch.cat([x, torch.zeros(1_000, x.shape[1])])
    longer = edge_trust(normalize_adjacency(operator(more)), padded, generator())
    assert torch.equal(longer[: len(plain)], plain)


def test_attributes_that_say_nothing_leave_no_edge_trusted() -> None:
    adjacency, x, _ = two_topics(planted=0)
    adj_norm = normalize_adjacency(adjacency)
    weight = edge_trust(adj_norm, torch.ones_like(x), generator())
    assert torch.equal(weight, (adj_norm.row_index == adj_norm.col).float())


def test_self_loops_of_a_graph_without_edges_are_trusted() -> None:
    adj_norm = normalize_adjacency(operator(torch.zeros(4, 4)))
    assert torch.equal(edge_trust(adj_norm, torch.rand(4, 3), generator()), torch.ones(4))
