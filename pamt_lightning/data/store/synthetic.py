"""A synthetic graph of any size, drawn straight into a store: a block in memory at a time."""

from __future__ import annotations

from pathlib import Path

import scipy.sparse as sp
from tqdm import tqdm

from pamt_lightning.data.own.common import MAX_SPARSE_DENSITY
from pamt_lightning.data.scaling import ScaleName
from pamt_lightning.data.store.writer import GraphStoreWriter
from pamt_lightning.data.synthetic import BlockModel
from pamt_lightning.data.synthetic_options import SyntheticOptions

_NODES_AT_ONCE = 1 << 18
_EDGES_AT_ONCE = 1 << 22


def write_synthetic(
    folder: str | Path, options: SyntheticOptions, scale_features: ScaleName | None = None
) -> None:
    """Draw a graph of the model of `synthetic_graph` into a store.

    What is held in memory is some 40 bytes per node, and a block of edges and attributes. It is not
    the graph that `synthetic_graph` draws with this seed, as the random numbers are used in another
    order, and it has a few edges less than asked for: pairs that are drawn twice count once.

    Args:
        folder: The store; it must not exist.
        options: Parameters of the model.
        scale_features: As in `GraphStoreWriter`.
    """
    model = BlockModel(options)
    num_edges = model.num_inside + model.num_across
    bar = tqdm(total=options.num_nodes + num_edges, desc="drawing", disable=None, unit_scale=True)
    writer = GraphStoreWriter(
        folder, options.num_features, model.class_names, scale_features=scale_features
    )
    with bar, writer:
        is_sparse = True
        for start in range(0, options.num_nodes, _NODES_AT_ONCE):
            labels = model.labels[start : start + _NODES_AT_ONCE]
            words = model.draw_words(labels)
            if start == 0:
                is_sparse = _density(words) < MAX_SPARSE_DENSITY
            writer.add_nodes(words if is_sparse else words.toarray(), labels)
            bar.update(len(labels))
        for draw, count in (
            (model.draw_inside, model.num_inside),
            (model.draw_across, model.num_across),
        ):
            for start in range(0, count, _EDGES_AT_ONCE):
                ends = draw(min(_EDGES_AT_ONCE, count - start))
                writer.add_edges(*ends)
                bar.update(len(ends[0]))
        bar.set_description("sorting")


def _density(words: sp.csr_array) -> float:
    return float(words.nnz) / (words.shape[0] * words.shape[1])
