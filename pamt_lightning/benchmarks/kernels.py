"""Refresh against the dense formula; products against what the memory allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from pamt_lightning.benchmarks.clock import Row, against_bound, compare, seconds_of
from pamt_lightning.benchmarks.epochs import Options, new_model
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.functional import one_hot_rows, propagate
from pamt_lightning.nn import SparseFeatures, sparse_linear


@torch.no_grad()
def refresh_row(data: GraphDataModule, options: Options, rounds: int) -> Row:
    """Mask and K steps of propagation: at the edges alone, and with dense ``[N, N]`` matrices."""
    model = new_model(data, options)
    model.eval()
    prepared = model.prepare(data.graph)
    logits = model.net(prepared.x)
    dense = prepared.adj_norm.to_dense()
    sparse_result = dense_result = torch.empty(0)

    def at_the_edges() -> None:
        nonlocal sparse_result
        sparse_result = model.propagated_labels(model._mask_of(logits, prepared), prepared)

    def with_dense_matrices() -> None:
        nonlocal dense_result
        h = torch.softmax(logits, 1)
        h = h / h.norm(dim=1, keepdim=True)
        mask = h @ h.T
        mask *= dense
        index = prepared.train_index
        start = one_hot_rows(data.graph.y, index, model.num_classes, h.dtype)
        y = start
        for _ in range(model.num_steps):
            y = torch.addmm(model.alpha * start, mask, y, alpha=1 - model.alpha)
            y[index] = start[index]
        dense_result = y

    at_the_edges()
    works = {
        "at the edges": lambda: seconds_of(at_the_edges),
        "dense": lambda: seconds_of(with_dense_matrices),
    }
    row = compare(data.dataset_name, works, rounds, "mask and 10 steps")
    torch.testing.assert_close(sparse_result, dense_result, rtol=1e-3, atol=1e-5)
    return row


@torch.no_grad()
def first_layer_row(data: GraphDataModule, hidden_dim: int, rounds: int) -> Row:
    """The product of attributes and first weights against the bytes of both and of the result."""
    x = SparseFeatures.from_csr(data.graph.x)
    weight = torch.randn(x.shape[1], hidden_dim)
    result = 4.0 * x.shape[0] * hidden_dim
    num_bytes = _bytes(x.crow, x.col, x.values, weight) + result
    return against_bound(
        data.dataset_name,
        lambda: sparse_linear(x, weight),
        num_bytes,
        rounds,
        f"hidden {hidden_dim}",
        {"entries": len(x.values)},
    )


def _bytes(*tensors: Tensor) -> float:
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors))


def propagation_rows(num_nodes: int, degree: int, columns: int, rounds: int) -> Iterator[Row]:
    """One step on a graph with random neighbours, and on one whose neighbours are near.

    What must move: each entry's column, its value and the row of Y that it points to, and each
    row's pointer, its result and its start. Were Y in a cache (which it is not on a random graph of
    this size), the rows would be read once instead of once per entry; the notes give that bound.
    """
    y = torch.rand(num_nodes, columns)
    for kind in ("random", "near"):
        adj = _regular_graph(num_nodes, degree, kind)
        entries = num_nodes * degree
        fixed = 8.0 * entries + 4.0 * num_nodes + 2 * _bytes(y)
        at_once = fixed + _bytes(y)
        num_bytes = fixed + 4.0 * columns * entries
        row = against_bound(
            f"{kind} neighbours",
            lambda adj=adj: propagate(adj, y, num_steps=1, alpha=0.1),  # type: ignore[misc]
            num_bytes,
            rounds,
            counts={"nodes": num_nodes, "entries": entries, "columns": columns},
        )
        other = row.ratio * num_bytes / at_once
        note = f"{columns} columns; {other:.1f} × if each row of Y moved once"
        yield replace(row, note=note)


def _regular_graph(num_nodes: int, degree: int, kind: str) -> Tensor:
    """Every node with as many neighbours, at random or among the 2,000 numbers around it."""
    draw = torch.Generator().manual_seed(0)
    columns = torch.randint(num_nodes, (num_nodes, degree), generator=draw)
    if kind == "near":
        columns = (torch.arange(num_nodes).unsqueeze(1) + columns % 2000 - 1000) % num_nodes
    col = columns.sort(dim=1).values.to(torch.int32).flatten()
    crow = torch.arange(num_nodes + 1, dtype=torch.int32) * degree
    values = torch.full((len(col),), 1.0 / degree)
    shape = (num_nodes, num_nodes)
    return torch.sparse_csr_tensor(crow, col, values, shape, check_invariants=False)
