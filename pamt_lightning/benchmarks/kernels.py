"""Refresh against the dense formula, sparse products against a copy of their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from pamt_lightning.benchmarks.epochs import Case
from pamt_lightning.benchmarks.timing import Row, compare, seconds_of, sides_with_copy
from pamt_lightning.functional import one_hot_rows, propagate
from pamt_lightning.kernels.features import SparseFeatures
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.sharding import RowShare

_BAND = 2000  # largest distance between the numbers of two nearby neighbours
_DEGREE, _COLUMNS = 20, 16  # of the graphs of `propagation_rows`


@torch.no_grad()
def refresh_row(case: Case, rounds: int) -> Row:
    """Mask and K steps of propagation: at the edges only, and with dense ``[N, N]`` matrices."""
    model, batch = case.new_model().eval(), case.data.full_batch()
    logits = batch.outputs(model.net)
    adj_norm = batch.adj_norm.to_dense()
    index = batch.train_index
    start = one_hot_rows(batch.graph.y, index, model.num_classes, batch.dtype)

    def at_the_edges() -> Tensor:
        return model.propagated_labels(model.masked_adjacency(batch, logits), batch)

    def with_dense_matrices() -> Tensor:
        h = torch.softmax(logits, 1)
        mask = h @ h.T
        mask *= adj_norm
        y = start
        for _ in range(model.num_steps):
            y = torch.addmm(model.alpha * start, mask, y, alpha=1 - model.alpha)
            y[index] = start[index]
        return y

    torch.testing.assert_close(at_the_edges(), with_dense_matrices(), rtol=1e-3, atol=1e-5)
    sides = {
        "at the edges": partial(seconds_of, at_the_edges),
        "dense": partial(seconds_of, with_dense_matrices),
    }
    return compare(case.name, sides, rounds, f"mask and {model.num_steps} steps")


@torch.no_grad()
def first_layer_row(case: Case, rounds: int) -> Row:
    """The product of sparse attributes and the weights of the first layer."""
    x, hidden_dim = case.data.graph.x, int(case.options["hidden_dim"])
    features = SparseFeatures.from_csr(x)
    weight = torch.randn(x.shape[1], hidden_dim)
    result = 4.0 * x.shape[0] * hidden_dim
    num_bytes = _bytes(x.crow_indices(), x.col_indices(), x.values(), weight) + result
    sides = sides_with_copy(lambda: features.linear(weight), num_bytes)
    return compare(case.name, sides, rounds, f"hidden {hidden_dim}")


def propagation_rows(num_edges: int, rounds: int) -> Iterator[Row]:
    """One step of propagation on a graph with random neighbours, then with nearby ones.

    The bytes are the column and value of each stored entry and the row of Y that it points to, and
    the pointer, result and start of each row. If Y were in a cache, its rows would be read once
    instead of once per entry; the note gives the ratio to that bound.
    """
    num_nodes = 2 * num_edges // _DEGREE
    y = torch.rand(num_nodes, _COLUMNS)
    entries = num_nodes * _DEGREE
    fixed = 8.0 * entries + 4.0 * num_nodes + 2 * _bytes(y)
    num_bytes = fixed + 4.0 * _COLUMNS * entries
    for kind in ("random", "near"):
        adj = _regular_graph(num_nodes, nearby=kind == "near")
        step = partial(propagate, adj, y, num_steps=1, alpha=0.1)
        row = compare(f"{kind} neighbours", sides_with_copy(step, num_bytes), rounds)
        cached = row.ratio * num_bytes / (fixed + _bytes(y))
        yield replace(row, note=f"{_COLUMNS} columns; {cached:.1f} × if each row of Y moved once")


def _regular_graph(num_nodes: int, *, nearby: bool) -> SparseOperator:
    """A graph in which all nodes have equally many neighbours, at random or with near numbers."""
    generator = torch.Generator().manual_seed(0)
    columns = torch.randint(num_nodes, (num_nodes, _DEGREE), generator=generator)
    if nearby:
        nodes = torch.arange(num_nodes).unsqueeze(1)
        columns = (nodes + columns % _BAND - _BAND // 2) % num_nodes
    col = columns.sort(dim=1).values.to(torch.int32).flatten()
    crow = torch.arange(num_nodes + 1, dtype=torch.int32) * _DEGREE
    return SparseOperator(crow, col, torch.full((len(col),), 1 / _DEGREE), RowShare.of(num_nodes))


def _bytes(*tensors: Tensor) -> float:
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
