from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.data.raw import RawGraph
from pamt_lightning.data.synthetic import SyntheticOptions, synthetic_graph
from pamt_lightning.errors import InputError


def draw(*sizes: int, **options: Any) -> RawGraph:
    return synthetic_graph(SyntheticOptions(*sizes, **options))


def words(raw: RawGraph) -> sp.csr_array:
    assert isinstance(raw.features, sp.csr_array)
    return raw.features


def test_the_graph_is_of_the_given_size() -> None:
    raw = draw(1003, 5, 200, average_degree=7.0, homophily=0.6, seed=3)
    assert (raw.num_nodes, raw.num_edges, raw.features.shape) == (1003, 3510, (1003, 200))
    assert raw.node_ids.tolist() == list(range(1003))
    assert len(raw.class_names) == 5
    # Classes are of one size and in no order.
    assert sorted(np.bincount(raw.labels).tolist()) == [200, 200, 201, 201, 201]
    assert np.mean(raw.labels[1:] == raw.labels[:-1]) < 0.3


@pytest.mark.parametrize("homophily", [0.0, 0.25, 0.8, 1.0])
def test_the_share_of_edges_inside_a_class_is_the_homophily(homophily: float) -> None:
    raw = draw(homophily=homophily)
    coo = raw.adjacency.tocoo()
    inside = raw.labels[coo.row] == raw.labels[coo.col]
    assert inside.mean() == pytest.approx(homophily, abs=1 / raw.num_edges)


def test_edges_across_classes_reach_all_classes_alike() -> None:
    raw = draw(6000, num_classes=4, homophily=0.0, average_degree=20.0)
    one = np.eye(4)[raw.labels]
    between = one.T @ (raw.adjacency @ one)
    np.testing.assert_allclose(between[~np.eye(4, dtype=bool)], 10_000, rtol=0.05)


def test_degrees_follow_the_power_law_of_the_exponent() -> None:
    even, middle, uneven = (
        np.diff(draw(100_000, average_degree=20.0, degree_exponent=exponent).adjacency.indptr)
        for exponent in (math.inf, 3.0, 2.2)
    )
    for degrees in (even, middle, uneven):
        assert degrees.mean() == pytest.approx(20.0)
    # With equal weights degrees are Poisson: their variance is their mean.
    assert even.var() == pytest.approx(20.0, rel=0.05)
    assert np.median(uneven) < np.median(middle) < np.median(even)
    # Exponent 3: twice the degree is met by a quarter of the nodes.
    share = np.mean(middle >= 80) / np.mean(middle >= 40)
    assert share == pytest.approx(0.25, abs=0.03)


def test_words_are_zeros_and_ones_and_as_many_as_asked_for() -> None:
    x = words(draw(num_features=100_000, words_per_node=12.0))
    assert set(x.data.tolist()) == {1.0}
    assert x.dtype == np.float32
    assert x.has_canonical_format
    assert x.nnz / x.shape[0] == pytest.approx(12.0, rel=0.03)
    assert np.diff(x.indptr).min() >= 1


@pytest.mark.parametrize("num_features", [6, 7, 1000])
def test_every_word_occurs_and_some_are_frequent(num_features: int) -> None:
    counts = np.sort(words(draw(num_features=num_features, words_per_node=6.0)).sum(axis=0))
    assert counts[0] > 0
    if num_features == 1000:  # were all words alike, 50 would be a tenth of 500
        assert counts[-50:].sum() > counts[:500].sum() / 2


@pytest.mark.parametrize("signal", [0.0, 0.5, 1.0])
def test_the_signal_is_the_share_of_words_that_are_not_from_a_random_topic(signal: float) -> None:
    # So many features that hardly a word is drawn twice.
    raw = draw(num_features=100_000, feature_signal=signal)
    coo = words(raw).tocoo()
    is_own = coo.col % 6 == raw.labels[coo.row]
    assert is_own.mean() == pytest.approx(signal + (1 - signal) / 6, abs=0.01)


def test_the_graph_depends_on_its_seed_alone() -> None:
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    first, again, other = (draw(500, seed=seed) for seed in (1, 1, 2))
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]
    for name in ("adjacency", "features"):
        a, b, c = (getattr(raw, name) for raw in (first, again, other))
        assert a.indices.tobytes() == b.indices.tobytes() != c.indices.tobytes()
        assert a.indptr.tobytes() == b.indptr.tobytes() != c.indptr.tobytes()
    assert first.labels.tobytes() == again.labels.tobytes() != other.labels.tobytes()


@pytest.mark.parametrize(
    ("name", "value", "limits"),
    [
        ("num_nodes", 11, "[12, inf)"),
        ("num_nodes", 1e3, "[12, inf)"),
        ("num_classes", 1, "[2, inf)"),
        ("num_features", 5, "[6, inf)"),
        ("seed", -1, "[0, inf)"),
        ("average_degree", 0, "(0, 2999]"),
        ("words_per_node", 1001, "(0, 1000]"),
        ("degree_exponent", 2, "(2, inf]"),
        ("homophily", 1.01, "[0, 1]"),
        ("feature_signal", -0.1, "[0, 1]"),
    ],
)
def test_each_option_is_checked(name: str, value: Any, limits: str) -> None:
    with pytest.raises(InputError, match=re.escape(f" number in {limits}, got {value}")) as error:
        draw(**{name: value})
    assert f"`{name}`" in str(error.value)


def test_edges_that_do_not_fit_into_the_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"`average_degree` .* 8\.0: .* inside classes, of 270"):
        draw(60, average_degree=8.0, homophily=1.0)


@pytest.mark.parametrize("exponent", [2.01, math.inf])
def test_a_full_graph_gets_all_its_edges_however_often_draws_repeat(exponent: float) -> None:
    raw = draw(60, average_degree=4.5, homophily=1.0, degree_exponent=exponent)
    assert raw.num_edges == 135  # half of all pairs inside classes


@pytest.mark.slow
def test_a_million_nodes_are_drawn() -> None:
    raw = draw(1_000_000, 10, 5000, average_degree=10.0)
    assert raw.adjacency.nnz == 10_000_000
    assert words(raw).nnz > 19_000_000
