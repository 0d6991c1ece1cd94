"""Structure noise: edges rewired until a given share of them joins nodes of different classes.

An oracle corruption: it reads the true labels of all nodes, test nodes included. It measures how
methods cope with unreliable edges and is part of none of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from pamt_lightning.data.raw import RawGraph
from pamt_lightning.errors import InputError, require_in
from pamt_lightning.interop.edges import adjacency_of
from pamt_lightning.interop.labels import IntArray

# An edge whose moved end finds no free place in _MAX_DRAWS draws is put back and another edge is
# taken, up to _MAX_TAKES times. Sparse graphs need a handful of draws and never put an edge back.
_MAX_DRAWS = 50
_MAX_TAKES = 20


def structure_noise_rate(adjacency: sp.csr_array, labels: IntArray) -> float:
    """Share of undirected edges whose ends have different labels.

    Edges with an unlabelled end (-1) are left out; nan if there are no others.
    """
    low, high = (labels[ends] for ends in _edges(adjacency))
    known = (low >= 0) & (high >= 0)
    count = np.count_nonzero(known)
    return np.count_nonzero(known & (low != high)) / count if count else float("nan")


def add_structure_noise(raw: RawGraph, rate: float, seed: int) -> tuple[RawGraph, float]:
    """Rewire edges at random until the share of inter-class edges is ``rate``.

    To raise the rate from r₀ to r, round(|E|·(r - r₀)) same-class edges are taken at random; each
    keeps one end (fair coin), and the other moves to a uniform node of another class, drawn anew if
    that edge exists. To lower it, the reverse. Returns also the rate achieved, which differs from
    ``rate`` by less than one edge.
    """
    require_in("[0, 1]", rate=rate)
    require_in("[0, inf)", whole=True, seed=seed)
    if num_unlabelled := np.count_nonzero(raw.labels < 0):
        raise InputError(
            "Structure noise needs a label for every node, since it moves edges by the true "
            f"classes, but {num_unlabelled} of {raw.num_nodes} nodes have none."
        )
    if raw.num_edges == 0:
        raise InputError("Structure noise needs edges to move, but the graph has none.")
    if (raw.adjacency.data != 1).any():
        raise InputError("Structure noise moves edges of unweighted graphs: leave out the weights.")
    start = structure_noise_rate(raw.adjacency, raw.labels)
    num_moves = round(raw.num_edges * (rate - start))
    if num_moves == 0:
        return raw, start
    edges = _move(np.random.default_rng(seed), raw, abs(num_moves), across=num_moves > 0)
    if edges is None:
        raise InputError(
            f"A noise `rate` of {rate} cannot be reached: of {abs(num_moves)} edges to move, some "
            f"find no free place {'between' if num_moves > 0 else 'inside'} classes. Ask for a "
            f"rate nearer to the graph's own, which is {start:.4f}."
        )
    low, high = (ends.astype(np.int32) for ends in np.divmod(edges, raw.num_nodes))
    adjacency = adjacency_of(low, high, raw.num_nodes)
    return replace(raw, adjacency=adjacency), structure_noise_rate(adjacency, raw.labels)


def _edges(adjacency: sp.csr_array) -> tuple[IntArray, IntArray]:
    """The smaller and the larger end of each undirected edge."""
    row = np.repeat(np.arange(adjacency.shape[0], dtype=np.int64), np.diff(adjacency.indptr))
    upper = row < adjacency.indices
    return row[upper], adjacency.indices[upper].astype(np.int64)


def _move(
    random: np.random.Generator, raw: RawGraph, count: int, *, across: bool
) -> IntArray | None:
    """All edges, as ``low * n + high``, after ``count`` have become inter- or same-class ones.

    None if no place is found for some.
    """
    num_nodes, labels = raw.num_nodes, raw.labels
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    by_class = np.argsort(labels, kind="stable")

    low, high = _edges(raw.adjacency)
    is_wanted = (labels[low] != labels[high]) == across
    edges = low * num_nodes + high
    # Places are taken by edges of the wanted kind alone: others cannot equal a moved edge.
    taken, pool = np.sort(edges[is_wanted]), edges[~is_wanted]
    num_inside = int((sizes * (sizes - 1) // 2).sum())
    num_places = num_nodes * (num_nodes - 1) // 2 - num_inside if across else num_inside
    if len(taken) + count > num_places:
        return None

    for _ in range(_MAX_TAKES):
        pool = random.permutation(pool)
        pending, pool = pool[:count], pool[count:]
        kept = np.where(random.integers(2, size=count) == 0, *np.divmod(pending, num_nodes))
        for _ in range(_MAX_DRAWS):
            size, start = sizes[labels[kept]], starts[labels[kept]]
            place = random.integers(num_nodes - size if across else size)
            # Skip the kept end's class, or stay in it and maybe hit the kept end itself.
            place += size * (place >= start) if across else start
            moved = by_class[place]
            drawn = np.minimum(kept, moved) * num_nodes + np.maximum(kept, moved)
            order = np.argsort(drawn, kind="stable")  # the first of equals wins, in random order
            drawn = drawn[order]
            accepted = np.diff(drawn, prepend=-1) != 0
            accepted &= np.searchsorted(taken, drawn) == np.searchsorted(taken, drawn, "right")
            accepted &= (kept != moved)[order]
            taken = np.sort(np.concatenate([taken, drawn[accepted]]), kind="stable")
            left = np.sort(order[~accepted])
            pending, kept = pending[left], kept[left]
            if len(left) == 0:
                return np.concatenate([pool, taken])
        pool, count = np.concatenate([pool, pending]), len(pending)
    return None
