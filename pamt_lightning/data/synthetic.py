"""An attributed, degree-corrected block model: a graph of any size with known properties.

Each class is a block. Both ends of an edge are in one block with the chance `homophily`, and nodes
of a block are met in proportion to a weight that follows a power law. Each word belongs to one
topic, and each class has one topic; a word of a node is from the topic of its class with the chance
`feature_signal`, else from a random topic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.raw import IntArray, RawGraph, simple_graph
from pamt_lightning.data.synthetic_options import SyntheticOptions
from pamt_lightning.errors import InputError

FloatArray: TypeAlias = npt.NDArray[np.float64]

# Draws that repeat an edge are drawn anew; a graph this full would be drawn for ever.
_MAX_FILL = 0.5


def synthetic_graph(
    num_nodes: int = 3000,
    num_classes: int = 6,
    num_features: int = 1000,
    average_degree: float = 5.0,
    homophily: float = 0.75,
    feature_signal: float = 0.3,
    degree_exponent: float = 3.0,
    words_per_node: float = 20.0,
    seed: int = 0,
) -> RawGraph:
    """Draw a graph whose edges and features both tell about the classes, as strongly as asked.

    Args:
        num_nodes: Number of nodes n.
        num_classes: Number of classes c; their sizes differ by one at most.
        num_features: Number of words d.
        average_degree: Mean number of neighbours; edges are n times this by 2.
        homophily: Share of edges inside a class, in [0, 1]; 1 / c means edges tell nothing.
        feature_signal: What features tell about the class, from 0 (nothing) to 1 (all words are
            from the class's own topic).
        degree_exponent: Exponent of the power law of expected degrees, above 2; smaller is more
            uneven, infinity makes all equal.
        words_per_node: Mean number of words drawn for a node; repeated words count once.
        seed: Seed of all random numbers; the same seed gives the same graph.

    Raises:
        InputError: An argument is out of its range, or so many edges do not fit into the classes.
    """
    options = SyntheticOptions(
        num_nodes=num_nodes,
        num_classes=num_classes,
        num_features=num_features,
        average_degree=average_degree,
        homophily=homophily,
        feature_signal=feature_signal,
        degree_exponent=degree_exponent,
        words_per_node=words_per_node,
        seed=seed,
    )
    model = BlockModel(options)
    random = model.random
    inside = _draw_distinct(random, model.draw_inside, model.num_inside, num_nodes)
    across = _draw_distinct(random, model.draw_across, model.num_across, num_nodes)
    edges = np.concatenate([inside, across])
    ones = np.ones(len(edges), dtype=np.float32)
    pairs = tuple(part.astype(np.int32) for part in np.divmod(edges, num_nodes))
    return RawGraph(
        adjacency=simple_graph(sp.coo_array((ones, pairs), shape=(num_nodes, num_nodes))),
        features=model.draw_words(model.labels),
        labels=model.labels,
        node_ids=np.arange(num_nodes),
        class_names=model.class_names,
    )


class BlockModel:
    """The model itself: draws classes, edges and words, as many at a time as one likes.

    Args:
        options: Its parameters.

    Attributes:
        random: The source of all its random numbers.
        labels: Class of each node.
        class_names: Names of the classes.
        num_inside: Number of edges inside classes.
        num_across: Number of edges between classes.

    Raises:
        InputError: As in `synthetic_graph`.
    """

    def __init__(self, options: SyntheticOptions) -> None:
        _check(options)
        self.options = options
        self.random = np.random.default_rng(options.seed)
        num_nodes, num_classes = options.num_nodes, options.num_classes
        self.labels: IntArray = self.random.permutation(np.arange(num_nodes) % num_classes)
        self.class_names = tuple(f"class_{number}" for number in range(num_classes))
        sizes = np.bincount(self.labels)
        self.num_inside, self.num_across = _numbers_of_edges(options, sizes)
        # All nodes in a row, class by class, each as wide as its weight: a uniform point on the
        # stretch of a class hits its nodes in proportion to their weights.
        weights = (1.0 - self.random.random(num_nodes)) ** (-1.0 / (options.degree_exponent - 1.0))
        np.minimum(weights, math.sqrt(num_nodes), out=weights)  # else one node may take most edges
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
        """Draw the words of some nodes.

        Args:
            labels: Their classes.
        """
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
        # Rounding may put a point on the very end, which is the next class's first node.
        nodes: IntArray = self._by_class[np.minimum(place, self._last[classes])]
        return nodes

    def _draw_classes(self, count: int) -> IntArray:
        # Sorted, as their order is lost anyway, so that searches stay in one stretch for a while.
        num_classes = self.options.num_classes
        shares = np.full(num_classes, 1 / num_classes)
        return np.repeat(np.arange(num_classes), self.random.multinomial(count, shares))


def _numbers_of_edges(options: SyntheticOptions, sizes: IntArray) -> tuple[int, int]:
    """How many edges there are inside classes and between them."""
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
    random: np.random.Generator,
    draw: Callable[[int], tuple[IntArray, IntArray]],
    count: int,
    num_nodes: int,
) -> IntArray:
    """Draw pairs until ``count`` differ, as ``smaller * n + larger``."""
    edges = np.empty(0, dtype=np.int64)
    while (missing := count - len(edges)) > 0:
        a, b = draw(missing + missing // 20 + 16)
        new = (np.minimum(a, b) * num_nodes + np.maximum(a, b))[a != b]
        edges = np.sort(np.concatenate([edges, new]))
        # Not numpy.unique: it hashes integers, which takes 20 times as long as sorting.
        edges = edges[np.diff(edges, prepend=-1) != 0]
    keep = np.ones(len(edges), dtype=np.bool_)
    keep[random.choice(len(edges), len(edges) - count, replace=False)] = False
    return edges[keep]


def _check(options: SyntheticOptions) -> None:
    _check_whole("num_classes", options.num_classes, 2)
    _check_whole("num_nodes", options.num_nodes, 2 * options.num_classes)
    _check_whole("num_features", options.num_features, options.num_classes)
    _check_whole("seed", options.seed, 0)
    _check_above("average_degree", options.average_degree, 0, options.num_nodes - 1)
    _check_above("words_per_node", options.words_per_node, 0, options.num_features)
    _check_above("degree_exponent", options.degree_exponent, 2, math.inf)
    _check_share("homophily", options.homophily)
    _check_share("feature_signal", options.feature_signal)


def _check_whole(name: str, value: int, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InputError(f"`{name}` must be a whole number of at least {minimum}, got {value!r}.")


def _check_above(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not (isinstance(value, int | float) and low < value <= high):
        raise InputError(
            f"`{name}` must be a number above {low} and at most {high}, got {value!r}."
        )


def _check_share(name: str, value: float) -> None:
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0 <= value <= 1):
        raise InputError(f"`{name}` must be a number from 0 to 1, got {value!r}.")
