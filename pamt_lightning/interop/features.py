"""Attributes of nodes as a float32 matrix; columns from the structure for graphs without any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.errors import InputError

Features: TypeAlias = sp.csr_array | npt.NDArray[np.float32]

# Below this share of non-zero entries features are treated as words: kept sparse, scaled by rows.
MAX_SPARSE_DENSITY = 0.25

_NUM_POSITIONS = 64
_HOP_WEIGHTS = (1.0, 1.0, 1.0, 1.0)


def fits_float32(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Which values are finite and stay finite as float32 (NaN compares false)."""
    fits: npt.NDArray[np.bool_] = np.abs(values) <= np.finfo(np.float32).max
    return fits


def pack_features(values: npt.NDArray[np.generic]) -> Features:
    """Rows of features as float32, sparse if few entries differ from zero."""
    block = values.astype(np.float32)
    if np.count_nonzero(block) < MAX_SPARSE_DENSITY * block.size:
        return sp.csr_array(block)
    return block


def as_matrix(features: Any) -> Features:
    """A NumPy, SciPy, torch or pandas matrix of numbers as float32; sparse ones stay sparse."""
    if hasattr(features, "detach"):  # torch, which this module does not import
        features = _from_torch(features.detach().cpu())
    if sp.issparse(features):
        matrix = sp.csr_array(features)  # type: ignore[call-overload]
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        _check_kind(matrix.dtype)
        _check_values(matrix.data)
        words: sp.csr_array = matrix.astype(np.float32)
        return words
    dense = np.asarray(features)
    if dense.ndim == 1 and dense.dtype.kind in "biuf":
        dense = dense[:, None]
    if dense.ndim != 2:
        raise InputError(f"`features` must have shape [nodes, attributes], got {dense.shape}.")
    _check_kind(dense.dtype)
    _check_values(dense)
    return np.ascontiguousarray(dense, dtype=np.float32)


def structural_features(adjacency: sp.csr_array) -> tuple[Features, tuple[str, ...]]:
    """Columns for nodes without attributes, and their names: degrees, PageRank and positions.

    Positions are sums of random projections that are averaged over one to four hops (Chen et al.
    2019, FastRP): nodes that are close in the graph get similar ones. They compare nodes of one
    graph, not nodes of different graphs.
    """
    num_nodes = int(adjacency.shape[0])
    degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    inverse = 1.0 / np.where(degree > 0, degree, 1.0)
    walk = sp.csr_array(sp.diags_array(inverse) @ adjacency)
    columns = [np.log1p(degree), np.log1p(walk @ degree), _log_page_rank(walk, num_nodes)]
    names = ["log_degree", "log_neighbour_degree", "log_pagerank"]
    size = min(_NUM_POSITIONS, max(1, num_nodes))
    part = np.random.default_rng(0).standard_normal((num_nodes, size))
    total = np.zeros_like(part)
    for weight in _HOP_WEIGHTS:
        part = walk @ part
        length = np.linalg.norm(part, axis=1, keepdims=True)
        total += weight * part / np.where(length > 0, length, 1.0)
    names += [f"position_{number}" for number in range(1, size + 1)]
    stacked = np.column_stack([*columns, total])
    return stacked.astype(np.float32), tuple(names)


def _log_page_rank(walk: sp.csr_array, num_nodes: int) -> npt.NDArray[np.float64]:
    """Logarithm of n times PageRank, with damping 0.85; nodes without edges keep the jumps."""
    rank = np.ones(num_nodes)
    for _ in range(30):
        rank = 0.15 + 0.85 * (walk.T @ rank)
    return np.log(rank)


def check_names(names: Sequence[str] | None, num_features: int) -> tuple[str, ...]:
    """The names of the columns as texts, one for each; empty without names."""
    found = tuple(str(name) for name in names or ())
    if len(found) not in (0, num_features):
        raise InputError(f"`feature_names` must be {num_features} names, got {len(found)}.")
    if len({*found}) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(f"`feature_names` must be unique, got {twice!r} more than once.")
    return found


def _from_torch(tensor: Any) -> Any:
    if str(tensor.layout) == "torch.strided":
        return tensor.numpy()
    coo = tensor.to_sparse_coo().coalesce()
    row, col = coo.indices().numpy()
    return sp.csr_array(sp.coo_array((coo.values().numpy(), (row, col)), shape=tuple(coo.shape)))


def _check_kind(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"`features` must be numbers, got {dtype}.")


def _check_values(values: npt.NDArray[Any]) -> None:
    wrong = values[~fits_float32(values)]
    if len(wrong):
        raise InputError(
            f"`features` must be finite (no NaN or inf) and at most 3.4e38, got {wrong.flat[0]} "
            f"({len(wrong):,} such). Replace missing values, for instance by 0."
        )
