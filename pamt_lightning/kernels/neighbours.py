"""The most similar rows of an attribute matrix, without the matrix of all similarities."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from pamt_lightning.errors import InputError
from pamt_lightning.kernels.csr import scipy_csr, sum_of_rows

MAX_EXACT_ROWS = 100_000  # exact search takes O(N²) time: about a minute here, on one core
_BLOCK_ENTRIES = 1 << 23  # 64 MB of similarities in double precision
_BLOCK_ROWS = 128  # a block of dense rows stays in a cache: half the time of blocks of 400
_SCALE = 1e9  # similarities are compared to nine decimals, so the order of a sum does not matter

# Rows of length 1, in single or double precision.
_Matrix: TypeAlias = "sp.csr_array | NDArray[np.float32] | NDArray[np.float64]"


def nearest_rows(x: Tensor, weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Pairs of each row of ``x * weights`` and the ``k`` other rows with the largest cosine.

    Cosines are rounded to nine decimals; of equal ones the lower row number comes first. A row has
    fewer than ``k`` others if fewer have a positive cosine. Up to `MAX_EXACT_ROWS` rows the result
    is exact, beyond them an approximate index is used, which misses some pairs.

    Args:
        x: Shape ``[N, F]``, dense or CSR.
        weights: Of the columns, shape ``[F]``.
        k: At least 1.

    Returns:
        The row and the other row of each pair, both ``[M]``, in no particular order.
    """
    unit = _unit_rows(x, weights)
    k = min(k, x.shape[0] - 1)
    stored = unit.astype(bool).sum(1)
    rows = np.flatnonzero(stored)
    if k < 1 or len(rows) < 2:
        pairs = torch.empty(2, 0, dtype=torch.int64)
    elif x.shape[0] > MAX_EXACT_ROWS:
        pairs = _approximate(unit, rows, k)
    else:
        pairs = _exact(unit, rows, stored, k)
    return pairs[0].to(x.device), pairs[1].to(x.device)


def _unit_rows(x: Tensor, weights: Tensor) -> _Matrix:
    """``x * weights`` with rows of length 1 or 0, in double precision."""
    if x.layout != torch.sparse_csr:
        dense = (x.double() * weights).cpu().numpy()
        return dense / _inverse_safe(np.linalg.norm(dense, axis=1))[:, None]
    matrix = scipy_csr(x)
    values = matrix.data * weights.double().cpu().numpy()[matrix.indices]
    per_row = np.diff(matrix.indptr)
    row = np.repeat(np.arange(x.shape[0]), per_row)
    lengths = np.sqrt(np.bincount(row, values * values, minlength=x.shape[0]))
    values /= np.repeat(_inverse_safe(lengths), per_row)
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _inverse_safe(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(lengths > 0, lengths, 1.0)


# Exact ---------------------------------------------------------------------------------------


def _exact(unit: _Matrix, rows: NDArray[np.int64], stored: NDArray[np.int64], k: int) -> Tensor:
    """Search in single precision; repeat in double precision where that may have erred."""
    # Filled block by block: small results kept between large blocks would split the heap.
    others = torch.full((unit.shape[0], k), -1)
    unsure = np.zeros(unit.shape[0], dtype=bool)
    single = unit.astype(np.float32)
    for block in _blocks(rows, unit.shape):
        products = _products(single, block)
        products[block, torch.arange(len(block))] = -2.0  # no row is its own neighbour
        top = products.topk(k + 1, dim=0)
        # A sum of m rounded products of unit rows errs by at most about (m + 2) ε/2.
        error = torch.from_numpy(stored[block] + 4) * (torch.finfo(torch.float32).eps / 2)
        last, next_one = top.values[k - 1], top.values[k]
        unsure[block] = (last - next_one <= 2 * error) | (last <= error)
        others[block] = top.indices[:k].T
    for block in _blocks(np.flatnonzero(unsure), unit.shape):
        others[block] = _exact_block(unit, block, k)
    row, place = (others >= 0).nonzero(as_tuple=True)
    return torch.stack([row, others[row, place]])


def _exact_block(unit: _Matrix, block: NDArray[np.int64], k: int) -> Tensor:
    """The nearest rows ``[B, k]`` of a block of rows in double precision; -1 if there are fewer."""
    num_rows = unit.shape[0]
    # Rounded cosines and then the row number, lower first, as one whole number below 2^53.
    keys = _products(unit, block).mul_(_SCALE).round_().mul_(num_rows)
    keys += torch.arange(num_rows - 1, -1, -1)[:, None]
    keys[block, torch.arange(len(block))] = -1.0
    top = keys.topk(k, dim=0)
    return torch.where(top.values >= num_rows, top.indices, -1).T


def _products(x: _Matrix, block: NDArray[np.int64]) -> Tensor:
    """``x @ x[block].T``, shape ``[N, B]``.

    A sum of dense rows, which in single precision takes a seventh of the time of SciPy's product of
    two sparse matrices.
    """
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x @ x[block].T)
    dense = torch.from_numpy(x[block].toarray(order="F").T)
    crow, col, values = (torch.from_numpy(part) for part in (x.indptr, x.indices, x.data))
    return sum_of_rows(crow, col, dense, values)


def _blocks(rows: NDArray[np.int64], shape: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
    """The rows in blocks of bounded memory, with a progress bar if it takes long."""
    step = max(1, min(_BLOCK_ROWS, _BLOCK_ENTRIES // max(shape)))
    with tqdm(
        total=len(rows),
        desc="attribute neighbours",
        unit="node",
        leave=False,
        delay=2.0,
        disable=None,
    ) as bar:
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            yield block
            bar.update(len(block))


# Approximate ---------------------------------------------------------------------------------


def _approximate(unit: _Matrix, rows: NDArray[np.int64], k: int) -> Tensor:
    """Nearest neighbour descent (Dong et al. 2011), in one thread so that it can be repeated."""
    index_class = _require_pynndescent(unit.shape[0])
    k = min(k, len(rows) - 1)
    searched = min(2 * k + 10, len(rows))  # more than wanted: fewer are missed
    # Of too few rows near enough, the rest are numbered -1; they are left out below.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to correctly find n_neighbors")
        index = index_class(
            unit[rows].astype(np.float32),
            metric="cosine",
            n_neighbors=searched,
            random_state=0,
            n_jobs=1,
        )
        others, distances = index.neighbor_graph
    valid = (others >= 0) & (distances < 1.0) & (others != np.arange(len(rows))[:, None])
    valid &= np.cumsum(valid, axis=1) <= k  # each row is sorted by distance
    return torch.from_numpy(np.stack([np.repeat(rows, valid.sum(1)), rows[others[valid]]]))


def _require_pynndescent(num_rows: int) -> Any:
    """The class of the index, or the error that says how to install it."""
    try:
        from pynndescent import NNDescent
    except ImportError:
        raise InputError(
            f"attribute neighbours of more than {MAX_EXACT_ROWS:,} nodes, here {num_rows:,}, need "
            "PyNNDescent, the extra `neighbours`: in the project's folder, "
            'pip install -c constraints.txt -e ".[neighbours]".'
        ) from None
    return NNDescent
