"""Published files to graphs: parse, simplify, check the counts."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import scipy.sparse as sp

from pamt_lightning.data.own.archive import read_npz
from pamt_lightning.data.published.download import Located
from pamt_lightning.data.published.planetoid import read_planetoid, read_planetoid_citeseer
from pamt_lightning.data.published.registry import DatasetSpec
from pamt_lightning.data.raw import RawGraph, largest_component
from pamt_lightning.errors import DatasetIntegrityError
from pamt_lightning.interop.edges import simple_graph


def read_dataset(spec: DatasetSpec, located: Located) -> RawGraph:
    """Read the files of a data set.

    The graph is made undirected, unweighted and free of self-loops, and cut down to its largest
    connected component. Features are float32 CSR with sorted indices, as published: not normalised.
    """
    match located.variant.reader:
        case "planetoid":
            raw = read_planetoid(located.content)
        case "planetoid_citeseer":
            raw = read_planetoid_citeseer(located.content)
        case _:
            # The .npz files have the layout of a user's own graph. In ms_academic the class names
            # are a pickle, which is never opened: the registry has them.
            ((filename, data),) = located.content.items()
            raw = read_npz(filename, data, ignored=("class_names",) if spec.class_names else ())
    raw = largest_component(replace(raw, adjacency=simple_graph(raw.adjacency)))
    raw.adjacency.sort_indices()
    features = cast("sp.csr_array", raw.features).astype(np.float32)  # every reader gives CSR
    features.sum_duplicates()  # sorts the indices too
    counts = {
        "nodes": (spec.num_nodes, raw.num_nodes),
        "edges": (spec.num_edges, raw.num_edges),
        "features": (spec.num_features, features.shape[1]),
        "feature non-zeros": (spec.num_nonzeros, features.nnz),
        "classes": (spec.num_classes, len(np.unique(raw.labels))),
    }
    wrong = [
        f"{name} expected {expected:,}, got {got:,}"
        for name, (expected, got) in counts.items()
        if got != expected
    ]
    if wrong:
        raise DatasetIntegrityError(
            f"Data set `{spec.name}` does not match the registry: {'; '.join(wrong)}."
        )
    return replace(
        raw,
        features=features,
        node_ids=np.array(raw.node_ids.tolist()),  # texts as short as the longest one left
        class_names=spec.class_names or raw.class_names or tuple(map(str, range(spec.num_classes))),
        hashes=located.hashes,
    )
