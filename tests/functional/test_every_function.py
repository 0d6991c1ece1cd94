"""Every function names the argument that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning import functional as fn
from tests.matrices import operator

ADJ = operator(torch.eye(3))  # 3 nodes, 3 stored entries
NAN, INF = float("nan"), float("inf")


def ones(*shape: int) -> Tensor:
    return torch.ones(shape)


SHAPES: list[tuple[Callable[..., Any], str, list[tuple[int, ...]]]] = [
    (lambda x: fn.edge_scores(ADJ, x, ones(3, 2)), "at_row", [(4, 2), (3,)]),
    (lambda x: fn.edge_scores(ADJ, ones(3, 2), x), "at_col", [(4, 2), (3,), (3, 1)]),
    (lambda x: fn.edge_softmax(ADJ, x), "scores", [(4, 2), (3,), (3, 2, 1)]),
    (lambda x: fn.attention_sum(ADJ, x, ones(3, 2, 3)), "weights", [(4, 2), (3,), (3, 2, 1)]),
    (lambda x: fn.attention_sum(ADJ, ones(3, 2), x), "h", [(4, 2, 3), (3, 3, 3), (3, 2)]),
    (lambda x: fn.gaussian_convolution(x, ones(3, 2), ADJ, 1.0), "mean", [(3,), (4, 2)]),
    (lambda x: fn.gaussian_convolution(ones(3, 2), x, ADJ, 1.0), "variance", [(3, 1), (2, 2)]),
    (lambda x: fn.kl_to_standard_normal(x, x), "mean", [(3,)]),
    (lambda x: fn.kl_to_standard_normal(ones(3, 2), x), "variance", [(1, 2), (3, 1)]),
    (lambda x: fn.soft_cross_entropy(x, x), "logits", [(3,), (3, 2, 1)]),
    (lambda x: fn.soft_cross_entropy(ones(3, 2), x), "soft_labels", [(3, 3), (1, 2)]),
    (lambda x: fn.soft_cross_entropy(ones(3, 2), ones(3, 2), x), "weights", [(3, 1), (2,)]),
    (lambda x: fn.blend_soft_labels(ones(3, 2), x, 0.5), "new", [(1, 2), (3, 1)]),
    (lambda x: fn.mask_adjacency(ADJ, x), "h", [(2, 2), (4, 2), (3,), (3, 2, 1)]),
    (lambda x: fn.propagate(ADJ, x, num_steps=1, alpha=0.1), "y0", [(), (3,), (3, 2, 1)]),
    (
        lambda x: fn.propagate(x, ones(4, 2), num_steps=1, alpha=0.1),
        "adj",
        [(3, 3), (4, 3), (3, 4)],
    ),
    (lambda x: fn.pair_cosine(ones(3, 2), torch.arange(2), x), "second", [(3,), (1,)]),
    (lambda x: fn.attribute_neighbours(x, 1), "x", [(3,), (3, 2, 1)]),
    (fn.inverse_document_frequency, "x", [(3,), (3, 2, 1)]),
    (lambda x: fn.edge_trust(ADJ, x, torch.Generator()), "x", [(4, 2), (2, 2)]),
    (lambda x: fn.join_graphs(ADJ, x), "neighbours", [(4, 4), (3, 2), (3,)]),
    (lambda x: fn.principal_directions(x, 1), "x", [(3,), (3, 2, 1)]),
    (lambda x: fn.fit_sharpness(ones(3, 2), x), "target", [(4,), (3, 1)]),
    (lambda x: fn.fit_pool(x, torch.arange(3), 1.0), "log_probs", [(3, 2), (2, 4, 2)]),
    (lambda x: fn.pool(ones(2, 3, 4), x), "weights", [(3,), (2, 1)]),
    (lambda x: fn.drop_nodes(ones(3, 2), x, 0.5), "kept", [(2,), (3, 1)]),
    (lambda x: fn.mean_of_hops(ADJ, x, 1), "x", [(4, 2), (3,)]),
    (lambda x: fn.consistency_loss(x, 0.5), "probs", [(3, 2), (3,)]),
]
VALUES: list[tuple[Callable[..., Any], str, list[Any]]] = [
    (partial(fn.gaussian_convolution, ones(3, 2), ones(3, 2), ADJ), "gamma", [-0.1, NAN, INF]),
    (partial(fn.blend_soft_labels, ones(3, 2), ones(3, 2)), "momentum", [-0.1, 1.0, 1.5, NAN]),
    (partial(fn.confidence_weights, ones(3, 2)), "gamma", [-0.5, NAN]),
    (partial(fn.drop_nodes, ones(3, 2), ones(3)), "rate", [-0.1, 1.0, NAN]),
    (partial(fn.mean_of_hops, ADJ, ones(3, 2)), "num_hops", [-1, 0.5]),
    (partial(fn.sharpen, ones(3, 2)), "temperature", [0.0, -1.0, NAN]),
    (fn.adaptive_gamma, "epoch", [-1]),
    (partial(fn.adaptive_gamma, 1), "epsilon", [0.0, -1.0, NAN]),
    (partial(fn.mask_representation, ones(3, 2)), "kind", ["sigmoid"]),
    (partial(fn.mask_representation, ones(3, 2)), "temperature", [0.0, -1.0, NAN]),
    (partial(fn.mask_adjacency, ADJ, ones(3, 2)), "floor", [-0.1, 1.1, NAN]),
    (partial(fn.renormalize_mask, ADJ), "kind", ["column"]),
    (partial(fn.attribute_neighbours, ones(3, 2)), "k", [0, -1, 1.5]),
    (partial(fn.principal_directions, ones(3, 2)), "count", [0, -1, 1.5]),
    (partial(fn.principal_directions, ones(3, 2), 1), "num_rounds", [0, 0.5]),
    (partial(fn.fit_pool, ones(2, 3, 2), torch.arange(3)), "ridge", [0.0, -1.0, NAN, INF]),
    (partial(fn.rising_weight_decay, start=1.0, end=2.0, num_epochs=3), "epoch", [-1]),
    (partial(fn.rising_weight_decay, 1, end=2.0, num_epochs=3), "start", [0.0, -1.0, NAN]),
    (partial(fn.rising_weight_decay, 1, 1.0, num_epochs=3), "end", [0.0, INF]),
    (partial(fn.rising_weight_decay, 1, 1.0, 2.0), "num_epochs", [0, -1]),
    (partial(fn.propagate, ADJ, ones(3, 2), num_steps=1), "alpha", [-0.1, 1.1, NAN]),
    (partial(fn.propagate, ADJ, ones(3, 2), alpha=0.1), "num_steps", [-1]),
]


@pytest.mark.parametrize(
    ("call", "name", "shape"), [(call, name, s) for call, name, shapes in SHAPES for s in shapes]
)
def test_a_wrong_shape_is_refused(
    call: Callable[..., Any], name: str, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must be .*got {re.escape(str(shape))}"):
        call(ones(*shape))


@pytest.mark.parametrize(
    ("call", "name", "value"), [(call, name, v) for call, name, values in VALUES for v in values]
)
def test_a_value_out_of_range_is_refused(call: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must .*got {re.escape(repr(value))}"):
        call(**{name: value})
