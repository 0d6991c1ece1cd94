"""A small graph, sparse and dense, and the comparison of two graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from pamt_lightning.data.raw import RawGraph
from pamt_lightning.data.synthetic import SyntheticOptions, synthetic_graph

RAW = synthetic_graph(SyntheticOptions(num_nodes=200, num_features=30, words_per_node=4))


def as_array(features: Any) -> np.ndarray:
    dense: np.ndarray = features.toarray() if hasattr(features, "toarray") else features
    return dense


def assert_same(found: RawGraph, expected: RawGraph) -> None:
    assert abs(found.adjacency - expected.adjacency).nnz == 0
    assert found.adjacency.has_canonical_format
    np.testing.assert_array_equal(found.labels, expected.labels, strict=True)
    np.testing.assert_array_equal(found.node_ids, expected.node_ids)
    ours, theirs = found.features, expected.features
    assert sp.issparse(ours) == sp.issparse(theirs)
    np.testing.assert_array_equal(as_array(ours), as_array(theirs), strict=True)
    assert found.class_names == expected.class_names
    assert found.feature_names == expected.feature_names


DENSE = replace(RAW, features=as_array(RAW.features))
