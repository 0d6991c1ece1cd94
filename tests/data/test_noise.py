from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.stats import chisquare

from pamt_lightning.data.noise import add_structure_noise, structure_noise_rate
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.data.synthetic import SyntheticOptions, synthetic_graph
from pamt_lightning.errors import InputError
from pamt_lightning.interop.edges import adjacency_of
from pamt_lightning.interop.labels import IntArray

Edges = set[tuple[int, int]]

# A chi-square test with a fixed seed: the value is no matter of luck, so a fair draw stays green.
TOO_UNLIKELY = 1e-3


def graph(labels: list[int] | IntArray, edges: list[tuple[int, int]] | IntArray) -> RawGraph:
    number = np.asarray(labels, dtype=np.int64)
    row, col = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return RawGraph(
        adjacency=adjacency_of(row, col, len(number)),
        features=np.ones((len(number), 1), dtype=np.float32),
        labels=number,
        node_ids=np.array([f"node {i}" for i in range(len(number))]),
        class_names=tuple(str(i) for i in range(number.max() + 1)),
        hashes={"file": "abc"},
        given_splits={"train": np.array([0])},
    )


def edges_of(raw: RawGraph) -> Edges:
    coo = sp.coo_array(raw.adjacency)
    return {(a, b) for a, b in zip(coo.row.tolist(), coo.col.tolist(), strict=True) if a < b}


def blocks() -> RawGraph:
    """500 nodes, 1500 edges, 5 classes, rate 0.3."""
    return synthetic_graph(SyntheticOptions(500, 5, 20, 6.0, homophily=0.7, words_per_node=3.0))


def dense_blocks() -> RawGraph:
    """20 nodes in two classes; 60 edges of 90 inside them, 20 of 100 between them."""
    draw = np.random.default_rng(5)
    pairs = np.array([(a, b) for a in range(20) for b in range(a)])
    is_inside = pairs[:, 0] % 2 == pairs[:, 1] % 2
    inside, across = pairs[is_inside], pairs[~is_inside]
    chosen = np.concatenate([draw.permutation(inside)[:60], draw.permutation(across)[:20]])
    return graph([node % 2 for node in range(20)], chosen)


@pytest.mark.parametrize(
    ("labels", "edges", "rate"),
    [
        ([0, 0, 1, 2], [(0, 1), (1, 2), (2, 3), (0, 3)], 0.75),
        ([0, 0, 1, -1, -1], [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)], 0.5),
        ([0, -1], [], math.nan),
        ([0, -1], [(0, 1)], math.nan),
    ],
)
def test_the_rate_is_the_share_of_labelled_edges_between_classes(
    labels: list[int], edges: list[tuple[int, int]], rate: float
) -> None:
    raw = graph(labels, edges)
    assert structure_noise_rate(raw.adjacency, raw.labels) == pytest.approx(rate, nan_ok=True)


@pytest.mark.parametrize("rate", [0, 0.1, 0.123456, 0.3, 0.3001, 0.31, 0.5, 0.6, 0.9, 1])
def test_the_rate_is_achieved_to_less_than_one_edge(rate: float) -> None:
    raw = blocks()
    noisy, achieved = add_structure_noise(raw, rate, 3)
    assert achieved == structure_noise_rate(noisy.adjacency, raw.labels)
    assert round(achieved * 1500) == 450 + round(1500 * (rate - 0.3))
    assert abs(achieved - rate) <= 0.5 / 1500 + 1e-12
    assert (edges_of(noisy) == edges_of(raw)) == (achieved == 0.3)
    assert noisy.num_edges == 1500
    assert noisy.adjacency.indices.dtype == raw.adjacency.indices.dtype


@pytest.mark.parametrize("rate", [0.1, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_edges_that_meet_in_a_dense_graph_are_drawn_anew_and_all_else_stays(
    rate: float, seed: int
) -> None:
    raw = dense_blocks()
    edges, labels = edges_of(raw), raw.labels.tolist()
    noisy, achieved = add_structure_noise(raw, rate, seed)
    assert achieved == rate
    assert len(edges_of(noisy)) == 80
    for name in ("features", "labels", "node_ids", "class_names", "hashes", "given_splits"):
        assert getattr(noisy, name) is getattr(raw, name)
    assert (edges_of(raw), raw.labels.tolist()) == (edges, labels)  # the input is not rewired


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_a_seed_always_gives_the_same_bits_and_another_one_moves_other_edges(rate: float) -> None:
    first = add_structure_noise(blocks(), rate, 11)[0]
    np.random.seed(0)
    second = add_structure_noise(blocks(), rate, 11)[0]
    for part in ("data", "indices", "indptr"):
        arrays = (getattr(each.adjacency, part) for each in (first, second))
        assert len({array.tobytes() for array in arrays}) == 1
    old = edges_of(blocks())
    new, other = edges_of(first) - old, edges_of(add_structure_noise(blocks(), rate, 1)[0]) - old
    assert len(new & other) < len(new) / 4


@pytest.mark.parametrize(("rate", "kind"), [(0.6, "inside"), (0.1, "across")])
def test_edges_of_one_kind_become_the_other_and_keep_an_end(rate: float, kind: str) -> None:
    raw = blocks()
    noisy, _ = add_structure_noise(raw, rate, 0)
    removed = sorted(edges_of(raw) - edges_of(noisy))
    new = sorted(edges_of(noisy) - edges_of(raw))
    assert len(removed) == len(new) == round(1500 * abs(rate - 0.3))
    kinds = [
        {"inside" if raw.labels[a] == raw.labels[b] else "across" for a, b in part}
        for part in (removed, new)
    ]
    assert kinds == [{kind}, {"inside", "across"} - {kind}]
    # Each new edge has an old one of its own.
    shares_end = sp.csr_array([[not set(edge).isdisjoint(old) for old in removed] for edge in new])
    assert (maximum_bipartite_matching(shares_end, perm_type="column") >= 0).all()


def test_edges_kept_ends_and_new_ends_are_drawn_evenly() -> None:
    # 4000 edges without a common end in class 1; isolated nodes: 10 of class 0, 30 of class 2. So
    # the end that a moved edge keeps is the one in class 1, and it identifies the edge.
    order = np.random.default_rng(7).permutation(8040)
    pairs = order[:8000].reshape(-1, 2)
    labels = np.ones(8040, dtype=np.int64)
    labels[order[8000:8010]] = 0
    labels[order[8010:]] = 2
    raw = graph(labels, pairs)
    noisy, _ = add_structure_noise(raw, 0.5, 0)
    new = np.array(sorted(edges_of(noisy) - edges_of(raw)))
    in_class_1 = raw.labels[new] == 1
    assert (in_class_1.sum(axis=1) == 1).all()
    kept, moved = new[in_class_1], new[~in_class_1]

    pair_of, side_of = np.empty((2, raw.num_nodes), dtype=np.int64)
    pair_of[pairs] = np.arange(4000)[:, None]
    side_of[pairs.min(axis=1)], side_of[pairs.max(axis=1)] = 0, 1
    assert len(set(pair_of[kept])) == 2000  # one new edge for each edge that went
    assert chisquare(np.bincount(side_of[kept])).pvalue > TOO_UNLIKELY
    assert chisquare(np.bincount(pair_of[kept] // 200)).pvalue > TOO_UNLIKELY

    hits = np.bincount(moved, minlength=raw.num_nodes)[raw.labels != 1]
    assert hits.sum() == 2000
    assert chisquare(hits).pvalue > TOO_UNLIKELY  # 40 nodes in two classes of unlike size


@pytest.mark.parametrize(
    ("raw", "rate", "expected"),
    [
        # (0, 1) moves. Both of its ends already have an edge to 2, so 3, 4, 5 are left to draw.
        (
            graph([0, 0, 1, 1, 2, 1], [(0, 1), (0, 2), (1, 2)]),
            1,
            {(end, node): 1 / 6 for end in (0, 1) for node in (3, 4, 5)},
        ),
        # (0, 3) moves. Keeping 0 leaves one node, keeping 3 leaves two; the coin stays fair.
        (
            graph([0, 0, 0, 1, 1, 1], [(0, 1), (0, 3)]),
            0,
            {(0, 2): 1 / 2, (3, 4): 1 / 4, (3, 5): 1 / 4},
        ),
    ],
)
def test_a_single_move_follows_the_described_odds(
    raw: RawGraph, rate: float, expected: dict[tuple[int, int], float]
) -> None:
    drawn: Counter[tuple[int, int]] = Counter()
    for seed in range(600):
        drawn.update(edges_of(add_structure_noise(raw, rate, seed)[0]) - edges_of(raw))
    assert set(drawn) == set(expected)
    counts, odds = [drawn[edge] for edge in expected], np.array([*expected.values()])
    assert chisquare(counts, 600 * odds).pvalue > TOO_UNLIKELY


@pytest.mark.parametrize("seed", range(20))
def test_an_edge_that_cannot_move_is_given_back_for_one_that_can(seed: int) -> None:
    # Alone in their classes, 0 and 1 have no same-class partner: only (0, 2) can move, to (2, 4).
    raw = graph([0, 1, 2, 2, 2], [(0, 1), (0, 2), (2, 3)])
    noisy, achieved = add_structure_noise(raw, 1 / 3, seed)
    assert edges_of(noisy) == {(0, 1), (2, 3), (2, 4)}
    assert achieved == 1 / 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 1.1}, "`rate` must be a number"),
        ({"seed": -1}, "`seed` must be a whole number"),
        ({"raw": graph([0, 0, 1, -1, -1], [(0, 1)])}, "2 of 5 nodes"),
        ({"raw": graph([0, 1], [])}, "needs edges"),
        # One class; 4 edges for 3 places; 3 edges for 2 places; a place that no end can reach.
        ({"raw": graph([0, 0, 0], [(0, 1)])}, "of 1 cannot .* no free place between "),
        ({"raw": graph([0, 0, 0, 1], [(0, 1), (0, 2), (1, 2), (0, 3)])}, "no free place between "),
        ({"raw": graph([0, 0, 1, 1], [(0, 1), (0, 2), (0, 3)]), "rate": 0}, "free place inside "),
        ({"raw": graph([0, 1, 2, 2], [(0, 1)]), "rate": 0.0}, "of 0.0 .* no free place inside "),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        add_structure_noise(**{"raw": blocks(), "rate": 1, "seed": 0, **arguments})
