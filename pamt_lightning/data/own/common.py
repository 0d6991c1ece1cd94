"""What the two layouts of a user's own graph share: class names and the storage of features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Features = sp.csr_array | npt.NDArray[np.float32]

# Below this share of non-zero entries attributes are taken for words: kept sparse, scaled by rows.
MAX_SPARSE_DENSITY = 0.25

_INTEGER = re.compile(r"[+-]?[0-9]+")


def sort_class_names(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct class names in order: by number if all are integers, else by alphabet.

    >>> sort_class_names(["10", "2", "10"])
    ('2', '10')
    >>> sort_class_names(["10", "2", "b"])
    ('10', '2', 'b')
    """
    distinct = set(names)
    if all(_INTEGER.fullmatch(name) for name in distinct):
        # The name itself breaks the tie of "1" and "01", which are two classes.
        return tuple(sorted(distinct, key=lambda name: (int(name), name)))
    return tuple(sorted(distinct))


def fits_float32(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Which values are finite and stay finite as float32 (NaN compares false)."""
    fits: npt.NDArray[np.bool_] = np.abs(values) <= np.finfo(np.float32).max
    return fits


def pack_features(values: npt.NDArray[np.generic]) -> Features:
    """A block of rows as float32, sparse if few entries differ from zero."""
    block = values.astype(np.float32)
    if np.count_nonzero(block) < MAX_SPARSE_DENSITY * block.size:
        return sp.csr_array(block)
    return block


def stack_features(blocks: Sequence[Features], num_features: int) -> Features:
    """Put packed blocks of rows on top of each other, sparse if the whole is."""
    num_rows = sum(int(block.shape[0]) for block in blocks)
    stored = sum(
        block.nnz if isinstance(block, sp.csr_array) else np.count_nonzero(block)
        for block in blocks
    )
    if stored < MAX_SPARSE_DENSITY * num_rows * num_features:
        return sp.csr_array(sp.vstack([sp.csr_array(block) for block in blocks], format="csr"))
    dense = np.empty((num_rows, num_features), dtype=np.float32)
    start = 0
    for block in blocks:
        stop = start + int(block.shape[0])
        dense[start:stop] = block.toarray() if isinstance(block, sp.csr_array) else block
        start = stop
    return dense
