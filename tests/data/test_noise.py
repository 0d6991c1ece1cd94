from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.stats import chisquare

from pamt_lightning.data.noise import add_structure_noise, structure_noise_rate
from pamt_lightning.data.raw import IntArray, RawGraph, simple_graph
from pamt_lightning.data.synthetic import synthetic_graph
from pamt_lightning.errors import InputError

Edges = set[tuple[int, int]]

# A chi-square test with a fixed seed: the value is no matter of luck, so a fair draw stays green.
TOO_UNLIKELY = 1e-3


def graph(labels: list[int] | IntArray, edges: list[tuple[int, int]]) -> RawGraph:
    number = np.asarray(labels, dtype=np.int64)
    row, col = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    shape = (len(number), len(number))
    return RawGraph(
        adjacency=simple_graph(sp.coo_array((np.ones(len(row)), (row, col)), shape=shape)),
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


def blocks(seed: int = 0) -> RawGraph:
    """500 nodes, 1500 edges, 5 classes, rate 0.3."""
    return synthetic_graph(500, 5, 20, 6.0, homophily=0.7, words_per_node=3.0, seed=seed)


def dense_blocks() -> RawGraph:
    """20 nodes in two classes; 60 edges of 90 inside them, 20 of 100 between them."""
    draw = np.random.default_rng(5)
    pairs = [(a, b) for a in range(20) for b in range(a)]
    inside = [pair for pair in pairs if pair[0] % 2 == pair[1] % 2]
    across = [pair for pair in pairs if pair[0] % 2 != pair[1] % 2]
    chosen = [inside[i] for i in draw.permutation(90)[:60]]
    chosen += [across[i] for i in draw.permutation(100)[:20]]
    return graph([node % 2 for node in range(20)], chosen)


def lone_pairs() -> tuple[RawGraph, IntArray]:
    """4000 edges without a common end in class 1; isolated nodes: 10 of class 0, 30 of class 2.

    Returns:
        The graph, and the pairs ``[4000, 2]``. So the end that a moved edge keeps is the one in
        class 1, and it identifies the edge that was moved.
    """
    order = np.random.default_rng(7).permutation(8040)
    pairs = order[:8000].reshape(-1, 2)
    labels = np.ones(8040, dtype=np.int64)
    labels[order[8000:8010]] = 0
    labels[order[8010:]] = 2
    return graph(labels, [(a, b) for a, b in pairs.tolist()]), pairs


# ---- the rate -------------------------------------------------------------------------------


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


# ---- what stays, what changes ---------------------------------------------------------------


@pytest.mark.parametrize("rate", [0, 0.1, 0.123456, 0.31, 0.5, 0.6, 0.9, 1])
def test_the_asked_rate_is_achieved_to_less_than_one_edge(rate: float) -> None:
    raw = blocks()
    noisy, achieved = add_structure_noise(raw, rate, 0)
    assert achieved == structure_noise_rate(noisy.adjacency, raw.labels)
    assert round(achieved * 1500) == 450 + round(1500 * (rate - 0.3))
    assert abs(achieved - rate) <= 0.5 / 1500 + 1e-12


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("raw", [blocks(), blocks(1)])
def test_the_graph_stays_simple_and_keeps_its_number_of_edges(raw: RawGraph, rate: float) -> None:
    adjacency = add_structure_noise(raw, rate, 3)[0].adjacency
    dense = adjacency.toarray()
    assert dense.sum() == adjacency.nnz == raw.adjacency.nnz
    assert set(np.unique(dense)) == {0.0, 1.0}
    assert (dense == dense.T).all()
    assert not dense.diagonal().any()
    assert adjacency.dtype == raw.adjacency.dtype
    assert adjacency.indices.dtype == raw.adjacency.indices.dtype
    assert adjacency.has_sorted_indices


@pytest.mark.parametrize("rate", [0.1, 0.9])
@pytest.mark.parametrize("seed", range(10))
def test_edges_that_meet_in_a_dense_graph_are_drawn_anew(rate: float, seed: int) -> None:
    raw = dense_blocks()
    noisy, achieved = add_structure_noise(raw, rate, seed)
    assert achieved == rate
    assert len(edges_of(noisy)) == 80


def test_everything_but_the_edges_is_untouched() -> None:
    raw = dense_blocks()
    edges, labels = edges_of(raw), raw.labels.tolist()
    noisy, _ = add_structure_noise(raw, 0.5, 0)
    for name in ("features", "labels", "node_ids", "class_names", "hashes", "given_splits"):
        assert getattr(noisy, name) is getattr(raw, name)
    assert edges_of(raw) == edges  # the input itself is not rewired
    assert raw.labels.tolist() == labels


@pytest.mark.parametrize("rate", [0.3, 450 / 1500, 0.3001])
def test_nothing_changes_at_the_graphs_own_rate(rate: float) -> None:
    raw = blocks()
    noisy, achieved = add_structure_noise(raw, rate, 0)
    assert edges_of(noisy) == edges_of(raw)
    assert achieved == 0.3


def test_the_same_seed_gives_the_same_bits_whatever_else_was_drawn() -> None:
    first = add_structure_noise(blocks(), 0.6, 11)[0].adjacency
    np.random.seed(0)
    second = add_structure_noise(blocks(), 0.6, 11)[0].adjacency
    for part in ("data", "indices", "indptr"):
        assert getattr(first, part).tobytes() == getattr(second, part).tobytes()


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_another_seed_moves_other_edges(rate: float) -> None:
    raw = blocks()
    first, second = (edges_of(add_structure_noise(raw, rate, seed)[0]) for seed in (0, 1))
    new, other = first - edges_of(raw), second - edges_of(raw)
    assert len(new & other) < len(new) / 4


@pytest.mark.parametrize(("rate", "kind"), [(0.6, "inside"), (0.1, "across")])
def test_only_edges_of_the_one_kind_are_moved_and_only_to_the_other(rate: float, kind: str) -> None:
    raw = blocks()
    noisy, _ = add_structure_noise(raw, rate, 0)
    removed, new = edges_of(raw) - edges_of(noisy), edges_of(noisy) - edges_of(raw)
    assert len(removed) == len(new) == round(1500 * abs(rate - 0.3))
    kinds = [
        {"inside" if raw.labels[a] == raw.labels[b] else "across" for a, b in part}
        for part in (removed, new)
    ]
    assert kinds == [{kind}, {"inside", "across"} - {kind}]


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_each_moved_edge_shares_an_end_with_an_edge_of_its_own_that_went(rate: float) -> None:
    raw = blocks()
    noisy, _ = add_structure_noise(raw, rate, 0)
    removed = sorted(edges_of(raw) - edges_of(noisy))
    new = sorted(edges_of(noisy) - edges_of(raw))
    shares_end = sp.csr_array([[not set(edge).isdisjoint(old) for old in removed] for edge in new])
    partner = maximum_bipartite_matching(shares_end, perm_type="column")
    assert (partner >= 0).all()


# ---- randomness -----------------------------------------------------------------------------


def test_edges_kept_ends_and_new_ends_are_drawn_evenly() -> None:
    raw, pairs = lone_pairs()
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
    ("labels", "edges", "rate", "expected"),
    [
        # (0, 1) moves. Both of its ends already have an edge to 2, so 3, 4, 5 are left to draw.
        (
            [0, 0, 1, 1, 2, 1],
            [(0, 1), (0, 2), (1, 2)],
            1,
            {(end, node): 1 / 6 for end in (0, 1) for node in (3, 4, 5)},
        ),
        # (0, 3) moves. Keeping 0 leaves one node, keeping 3 leaves two; the coin stays fair.
        (
            [0, 0, 0, 1, 1, 1],
            [(0, 1), (0, 3)],
            0,
            {(0, 2): 1 / 2, (3, 4): 1 / 4, (3, 5): 1 / 4},
        ),
    ],
    ids=["raise", "lower"],
)
def test_a_single_move_follows_the_described_odds(
    labels: list[int],
    edges: list[tuple[int, int]],
    rate: float,
    expected: dict[tuple[int, int], float],
) -> None:
    raw = graph(labels, edges)
    drawn: Counter[tuple[int, int]] = Counter()
    for seed in range(600):
        drawn.update(edges_of(add_structure_noise(raw, rate, seed)[0]) - edges_of(raw))
    assert set(drawn) == set(expected)
    counts, odds = [drawn[edge] for edge in expected], np.array([*expected.values()])
    assert chisquare(counts, 600 * odds).pvalue > TOO_UNLIKELY


# ---- what cannot be done --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_an_edge_that_cannot_move_is_given_back_for_one_that_can(seed: int) -> None:
    # Alone in their classes, 0 and 1 have no same-class partner: only (0, 2) can move, to (2, 4).
    raw = graph([0, 1, 2, 2, 2], [(0, 1), (0, 2), (2, 3)])
    noisy, achieved = add_structure_noise(raw, 1 / 3, seed)
    assert edges_of(noisy) == {(0, 1), (2, 3), (2, 4)}
    assert achieved == 1 / 3


@pytest.mark.parametrize(
    ("labels", "edges", "rate", "where"),
    [
        ([0, 0, 0], [(0, 1)], 1.0, "between"),  # one class
        ([0, 0, 0, 1], [(0, 1), (0, 2), (1, 2), (0, 3)], 1.0, "between"),  # 4 edges, 3 places
        ([0, 0, 1, 1], [(0, 1), (0, 2), (0, 3)], 0.0, "inside"),  # 3 edges, 2 places
        ([0, 1, 2, 2], [(0, 1)], 0.0, "inside"),  # the place is out of reach of both ends
    ],
)
def test_a_rate_for_which_there_is_no_place_is_refused(
    labels: list[int], edges: list[tuple[int, int]], rate: float, where: str
) -> None:
    with pytest.raises(InputError, match=rf"`rate` of {rate} cannot .* no free place {where} "):
        add_structure_noise(graph(labels, edges), rate, 0)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("rate", [-0.1, 1.1, math.nan, math.inf, True, "0.3", None]),
        ("seed", [-1, 1.5, True, None]),
    ],
)
def test_a_rate_or_seed_out_of_range_is_refused(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InputError, match=f"`{name}` must be a"):
            add_structure_noise(blocks(), **{"rate": 0.5, "seed": 0, name: value})


def test_a_graph_with_unlabelled_nodes_or_without_edges_is_refused() -> None:
    with pytest.raises(InputError, match="2 of 5 nodes"):
        add_structure_noise(graph([0, 0, 1, -1, -1], [(0, 1)]), 0.0, 0)
    with pytest.raises(InputError, match="needs edges"):
        add_structure_noise(graph([0, 1], []), 0.5, 0)


@pytest.mark.parametrize("flaw", [(0, 0), (0, 3)], ids=["self-loop", "one-way edge"])
def test_a_graph_that_is_not_simple_is_refused(flaw: tuple[int, int]) -> None:
    raw = graph([0, 0, 1, 1], [(0, 1), (2, 3)])
    adjacency = raw.adjacency.tolil()
    adjacency[flaw] = 1.0
    raw = replace(raw, adjacency=sp.csr_array(adjacency))
    with pytest.raises(InputError, match="undirected graph without self-loops"):
        add_structure_noise(raw, 1.0, 0)
