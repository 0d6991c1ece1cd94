from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.data.scaling import ScaleName, Scaling, column_order, normalize_rows
from pamt_lightning.errors import CheckpointError, InputError


@pytest.mark.parametrize("layout", [sp.csr_array, np.array])
@pytest.mark.parametrize(
    ("kind", "first", "share"),
    [("l1", [3 / 7, -4 / 7, 0, 0], 0.25), ("l2", [0.6, -0.8, 0, 0], 0.5)],
)
def test_rows_are_divided_by_their_norm_however_large_and_zero_rows_stay(
    layout: Any, kind: ScaleName, first: list[float], share: float
) -> None:
    rows = np.array([[3, -4, 0, 0], [0] * 4, [0, 0, 0, 0.5], [3e38] * 4, [1e-42] * 4], np.float32)
    expected = [first, [0] * 4, [0, 0, 0, 1], [share] * 4, [share] * 4]
    features = layout(rows)
    result: Any = normalize_rows(features, kind)
    assert sp.issparse(result) == sp.issparse(features)
    assert result.dtype == np.float32
    dense = result.toarray() if layout is sp.csr_array else result
    assert dense[1:3].tolist() == expected[1:3]
    np.testing.assert_allclose(dense, np.array(expected), rtol=1e-6)
    before = features.toarray() if layout is sp.csr_array else features
    np.testing.assert_array_equal(before, rows)  # the raw graph is used again


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_rows_are_normalised_as_by_scikit_learn(kind: ScaleName) -> None:
    random = np.random.default_rng(0)
    dense = random.normal(size=(30, 20)) * (random.random((30, 20)) < 0.2)
    expected = import_module("sklearn.preprocessing").normalize(dense, kind)
    for features in (dense, sp.csr_array(dense)):
        scaled: Any = Scaling.of(features, kind).apply(features)
        found = scaled.toarray() if isinstance(features, sp.csr_array) else scaled
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_stored_zeros_stay_zeros() -> None:
    stored = sp.csr_array((np.zeros(2, dtype=np.float32), [0, 2], [0, 2, 2]), shape=(2, 3))
    result = normalize_rows(stored)
    assert isinstance(result, sp.csr_array)
    assert result.toarray().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_scaling_is_chosen_by_layout_and_can_be_named() -> None:
    dense = np.array([[1.0, 5.0], [3.0, 5.0]], dtype=np.float32)
    sparse = sp.csr_array(dense)
    assert Scaling.of(sparse).kind == "l2"
    assert Scaling.of(dense).kind == "standard"
    assert Scaling.of(dense, "none").apply(dense) is dense
    with pytest.raises(InputError, match="would make sparse attributes dense"):
        Scaling.of(sparse, "standard")


def test_standard_scaling_is_that_of_scikit_learn() -> None:
    preprocessing = import_module("sklearn.preprocessing")
    random = np.random.default_rng(0)
    training, new = (random.normal(3, 9, (20, 4)).astype(np.float32) for _ in range(2))
    training[:, 2] = 7.0  # a constant column
    oracle = preprocessing.StandardScaler().fit(training.astype(np.float64))
    expected = oracle.transform(new.astype(np.float64))
    for features in (new, sp.csr_array(new)):
        found = np.asarray(Scaling.of(training).apply(features))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_columns_are_put_in_order_by_name() -> None:
    assert column_order(("a", "b", "c"), ("c", "a", "b"), "new") == [2, 0, 1]
    assert column_order((), ("c", "a", "b"), "new") is None
    assert column_order(("a", "b"), ("a", "b"), "new") is None
    with pytest.raises(CheckpointError, match=r"the columns a, b, d; in new `c` is not among them"):
        column_order(("a", "b", "c"), ("a", "b", "d"), "new")
