"""An attributed, degree-corrected block model: graphs of any size with known properties.

Each class is a block. An edge stays inside a block with probability `homophily`, and its ends are
drawn in proportion to node weights that follow a power law. Each class has one topic, a set of
words; a word of a node comes from the topic of its class with probability `feature_signal`, else
from a random topic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from pamt_lightning.data.raw import RawGraph
from pamt_lightning.errors import InputError, require_in
from pamt_lightning.interop.edges import adjacency_of
from pamt_lightning.interop.labels import IntArray

# Repeated edges are drawn again, which would take forever in a graph fuller than this.
_MAX_FILL = 0.5


@dataclass(frozen=True)
class SyntheticOptions:
    """Arguments of the synthetic graph, as options of a configuration.

    Args:
        num_nodes: Number of nodes n.
        num_classes: Number of classes c; their sizes differ by one at most.
        num_features: Number of words d.
        average_degree: Mean number of neighbours.
        homophily: Share of edges inside a class, in [0, 1]; with 1 / c edges carry no information.
        feature_signal: How much features reveal of the class, from 0 (nothing) to 1 (all words are
            from the topic of the class).
        degree_exponent: Exponent of the power law of expected degrees, above 2; smaller is more
            uneven, infinity makes all equal.
        words_per_node: Mean number of words drawn for a node; repeated words count once.
        seed: Seed of all random numbers; the same seed gives the same graph.
    """

    num_nodes: int = 3000
    num_classes: int = 6
    num_features: int = 1000
    average_degree: float = 5.0
    homophily: float = 0.75
    feature_signal: float = 0.3
    degree_exponent: float = 3.0
    words_per_node: float = 20.0
    seed: int = 0


def synthetic_graph(options: SyntheticOptions) -> RawGraph:
    """Draw a graph whose edges and features both reveal the classes, as strongly as asked."""
    model, num_nodes = BlockModel(options), options.num_nodes
    inside = _draw_distinct(model, model.draw_inside, model.num_inside)
    across = _draw_distinct(model, model.draw_across, model.num_across)
    low, high = np.divmod(np.concatenate([inside, across]), num_nodes)
    return RawGraph(
        adjacency=adjacency_of(low.astype(np.int32), high.astype(np.int32), num_nodes),
        features=model.draw_words(model.labels),
        labels=model.labels,
        node_ids=np.arange(num_nodes),
        class_names=model.class_names,
    )


class BlockModel:
    """The model: draws classes, edges inside and across classes, and words, as many as asked."""

    def __init__(self, options: SyntheticOptions) -> None:
        _check(options)
        self.options = options
        self.random = np.random.default_rng(options.seed)
        num_nodes, num_classes = options.num_nodes, options.num_classes
        self.labels: IntArray = self.random.permutation(np.arange(num_nodes) % num_classes)
        self.class_names = tuple(f"class_{number}" for number in range(num_classes))
        sizes = np.bincount(self.labels)
        self.num_inside, self.num_across = _numbers_of_edges(options, sizes)
        # All nodes lie on a line, class by class, each as wide as its weight: a uniform point on
        # the stretch of a class hits its nodes in proportion to their weights.
        weights = (1.0 - self.random.random(num_nodes)) ** (-1.0 / (options.degree_exponent - 1.0))
        weights = np.minimum(weights, math.sqrt(num_nodes))  # else one node could take most edges
        self._by_class = np.argsort(self.labels, kind="stable")
        self._ends = np.cumsum(weights[self._by_class])
        self._last = np.cumsum(sizes) - 1
        self._stretch_end = self._ends[self._last]
        self._stretch_start = np.concatenate([[0.0], self._stretch_end[:-1]])

    def draw_inside(self, count: int) -> tuple[IntArray, IntArray]:
        """Draw ends of edges inside classes; pairs may repeat, and an end may meet itself."""
        classes = self._draw_classes(count)
        return self._draw_nodes(classes), self._draw_nodes(classes)

    def draw_across(self, count: int) -> tuple[IntArray, IntArray]:
        """Draw ends of edges between classes; pairs may repeat."""
        classes, num_classes = self._draw_classes(count), self.options.num_classes
        others = (classes + self.random.integers(1, num_classes, size=count)) % num_classes
        return self._draw_nodes(classes), self._draw_nodes(others)

    def draw_words(self, labels: IntArray) -> sp.csr_array:
        """Draw the words of nodes of these classes."""
        options, random, num_classes = self.options, self.random, self.options.num_classes
        num_words = np.maximum(1, random.poisson(options.words_per_node, len(labels)))
        total = int(num_words.sum())
        topic = random.integers(num_classes, size=total, dtype=np.int32)
        is_own = random.random(total, dtype=np.float32) < options.feature_signal
        np.copyto(topic, np.repeat(labels, num_words), where=is_own, casting="same_kind")
        # The words of topic t are t, t + c, t + 2c, ...; squaring makes the first ones frequent.
        first = np.arange(num_classes, dtype=np.int32)
        topic_size = (options.num_features - 1 - first) // num_classes + 1
        rank = (topic_size[topic] * random.random(total, dtype=np.float32) ** 2).astype(np.int32)
        words = topic + num_classes * np.minimum(rank, topic_size[topic] - 1)
        indptr = np.concatenate([[0], np.cumsum(num_words)])
        features = sp.csr_array(
            (np.ones(total, dtype=np.float32), words.astype(np.int32), indptr.astype(np.int32)),
            shape=(len(labels), options.num_features),
        )
        features.sum_duplicates()
        features.data[:] = 1.0
        return features

    def _draw_nodes(self, classes: IntArray) -> IntArray:
        start, end = self._stretch_start[classes], self._stretch_end[classes]
        point = start + self.random.random(len(classes)) * (end - start)
        place = np.searchsorted(self._ends, point, "right")
        # Rounding may put a point on the end of the stretch, the first node of the next class.
        nodes: IntArray = self._by_class[np.minimum(place, self._last[classes])]
        return nodes

    def _draw_classes(self, count: int) -> IntArray:
        # Sorted, so that consecutive searches stay in one stretch; the order does not matter.
        num_classes = self.options.num_classes
        shares = np.full(num_classes, 1 / num_classes)
        return np.repeat(np.arange(num_classes), self.random.multinomial(count, shares))


def _numbers_of_edges(options: SyntheticOptions, sizes: IntArray) -> tuple[int, int]:
    """Numbers of edges inside classes and between them."""
    num_nodes = options.num_nodes
    num_edges = max(1, round(num_nodes * options.average_degree / 2))
    num_inside = round(num_edges * options.homophily)
    pairs_inside = int((sizes * (sizes - 1) // 2).sum())
    pairs_across = num_nodes * (num_nodes - 1) // 2 - pairs_inside
    for wanted, possible, where in (
        (num_inside, pairs_inside, "inside classes"),
        (num_edges - num_inside, pairs_across, "between classes"),
    ):
        if wanted > _MAX_FILL * possible:
            raise InputError(
                f"`average_degree` must leave the graph sparse, got {options.average_degree}: it "
                f"asks for {wanted} edges {where}, of {possible} possible ones. Lower it, or raise "
                "`num_nodes`."
            )
    return num_inside, num_edges - num_inside


def _draw_distinct(
    model: BlockModel, draw: Callable[[int], tuple[IntArray, IntArray]], count: int
) -> IntArray:
    """Draw pairs until ``count`` differ, as ``smaller * n + larger``."""
    edges = np.empty(0, dtype=np.int64)
    while (missing := count - len(edges)) > 0:
        a, b = draw(missing + missing // 20 + 16)
        new = (np.minimum(a, b) * model.options.num_nodes + np.maximum(a, b))[a != b]
        edges = np.sort(np.concatenate([edges, new]))
        # Not numpy.unique: it hashes integers, which takes 20 times as long as sorting.
        edges = edges[np.diff(edges, prepend=-1) != 0]
    keep = np.ones(len(edges), dtype=np.bool_)
    keep[model.random.choice(len(edges), len(edges) - count, replace=False)] = False
    return edges[keep]


def _check(options: SyntheticOptions) -> None:
    num_nodes, num_classes = options.num_nodes, options.num_classes
    require_in("[2, inf)", whole=True, num_classes=num_classes)
    require_in(f"[{2 * num_classes}, inf)", whole=True, num_nodes=num_nodes)
    require_in(f"[{num_classes}, inf)", whole=True, num_features=options.num_features)
    require_in("[0, inf)", whole=True, seed=options.seed)
    require_in(f"(0, {num_nodes - 1}]", average_degree=options.average_degree)
    require_in(f"(0, {options.num_features}]", words_per_node=options.words_per_node)
    require_in("(2, inf]", degree_exponent=options.degree_exponent)
    require_in("[0, 1]", homophily=options.homophily, feature_signal=options.feature_signal)
