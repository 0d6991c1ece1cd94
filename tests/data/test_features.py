from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.data.features import l1_normalize


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_rows_are_divided_by_their_l1_norm_and_zero_rows_stay(kind: str) -> None:
    rows = np.array([[1, -3, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0.5]], dtype=np.float32)
    features = sp.csr_array(rows) if kind == "sparse" else rows.copy()
    result = l1_normalize(features)
    assert sp.issparse(result) == (kind == "sparse")
    assert result.dtype == np.float32
    dense = result.toarray() if isinstance(result, sp.csr_array) else result
    assert dense.tolist() == [[0.25, -0.75, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    before = features.toarray() if isinstance(features, sp.csr_array) else features
    np.testing.assert_array_equal(before, rows)  # the raw graph is used again


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("size", [3e38, 1e-42])
def test_very_large_and_very_small_rows_are_normalised_too(kind: str, size: float) -> None:
    rows = np.full((1, 4), size, dtype=np.float32)
    result = l1_normalize(sp.csr_array(rows) if kind == "sparse" else rows)
    dense = result.toarray() if isinstance(result, sp.csr_array) else result
    np.testing.assert_allclose(dense, np.full((1, 4), 0.25), rtol=1e-6)


def test_stored_zeros_stay_zeros() -> None:
    stored = sp.csr_array((np.zeros(2, dtype=np.float32), [0, 2], [0, 2, 2]), shape=(2, 3))
    result = l1_normalize(stored)
    assert isinstance(result, sp.csr_array)
    assert result.toarray().tolist() == [[0, 0, 0], [0, 0, 0]]
