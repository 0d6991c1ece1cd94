from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pamt_lightning.kernels.csr import (
    csr_tensor,
    entrywise_maximum,
    gram_product,
    products_at_entries,
    row_of_entries,
    scipy_csr,
    sum_of_rows,
    symmetric_pattern,
    transpose_pattern,
)
from tests.matrices import with_index_type


@pytest.fixture
def wide() -> Tensor:
    """A 7 x 4 matrix with an empty row and an empty column."""
    dense = torch.rand(7, 4, dtype=torch.float64)
    dense = dense * (torch.rand(7, 4) < 0.5)
    dense[3], dense[:, 2] = 0, 0
    return dense.to_sparse_csr()


@pytest.mark.parametrize("num_blocks", [1, 2, 3])
def test_transposed_blocks_add_up_to_the_dense_transpose(wide: Tensor, num_blocks: int) -> None:
    t_crow, t_col, order = transpose_pattern(wide.crow_indices(), wide.col_indices(), 4, num_blocks)
    shape = (4 * num_blocks, 7)
    stacked = torch.sparse_csr_tensor(
        t_crow, t_col, wide.values()[order], shape, check_invariants=True
    )
    total = stacked.to_dense().view(num_blocks, 4, 7).sum(0)
    assert torch.equal(total, wide.to_dense().mT)
    assert t_crow.dtype == t_col.dtype == order.dtype == wide.crow_indices().dtype


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_rows_are_a_product_with_the_dense_matrix(wide: Tensor, weighted: bool) -> None:
    rows = torch.rand(3, 4, dtype=torch.float64).mT  # not contiguous
    weights = wide.values() if weighted else None
    actual = sum_of_rows(wide.crow_indices(), wide.col_indices(), rows, weights)
    pattern = wide.to_dense() if weighted else (wide.to_dense() != 0).double()
    torch.testing.assert_close(actual, pattern @ rows)
    assert torch.equal(actual[3], torch.zeros(3, dtype=torch.float64))


def test_products_at_entries_are_those_of_the_dense_product(wide: Tensor) -> None:
    left = torch.rand(7, 3, dtype=torch.float64)
    right = torch.rand(4, 3, dtype=torch.float64)
    rows, cols = wide.to_dense().nonzero(as_tuple=True)
    actual = products_at_entries(wide, left, right)
    torch.testing.assert_close(actual, (left @ right.mT)[rows, cols])


def test_row_numbers_skip_empty_rows() -> None:
    csr = torch.tensor([[0.0, 0, 0], [1, 0, 1], [0, 0, 0]]).to_sparse_csr()
    assert row_of_entries(csr.crow_indices(), 2).tolist() == [1, 1]
    again = csr_tensor(csr.crow_indices(), csr.col_indices(), csr.values(), 3)
    assert torch.equal(again.to_dense(), csr.to_dense())


def test_scipy_gets_the_same_matrix(wide: Tensor) -> None:
    found = scipy_csr(wide.float())
    assert found.dtype == "float64"
    assert torch.equal(torch.from_numpy(found.toarray()), wide.float().double().to_dense())


def test_a_pattern_is_made_symmetric() -> None:
    rows, cols = torch.randint(9, (2, 20))
    dense = torch.zeros(9, 9)
    dense[rows, cols] = dense[cols, rows] = 1.0
    found = symmetric_pattern(rows, cols, 9)
    assert torch.equal(found.to_dense(), dense)
    assert len(found.values()) == int(dense.sum())
    assert symmetric_pattern(rows[:0], cols[:0], 9).to_dense().eq(0).all()


@pytest.mark.parametrize("rows_at_once", [1, 3, 7, 1 << 16])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gram_product_is_the_dense_one_in_any_number_of_blocks(
    wide: Tensor,
    rows_at_once: int,
    sparse: bool,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pamt_lightning.kernels.csr._ROWS_AT_ONCE", rows_at_once)
    dense, matrix = wide.to_dense(), torch.rand(4, 3, dtype=dtype)
    found = gram_product(wide if sparse else dense, matrix)
    assert found.dtype == dtype
    torch.testing.assert_close(found, (dense.mT @ dense).to(dtype) @ matrix)


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_the_entrywise_maximum_is_that_of_the_dense_matrices(kind: torch.dtype) -> None:
    draw = torch.rand(2, 9, 9) - 0.3
    dense = torch.where(torch.rand(2, 9, 9) < 0.4, draw, 0.0)
    dense[0, 2], dense[1, 5] = 0.0, 0.0
    one, other = (with_index_type(each.to_sparse_csr(), kind) for each in dense)
    found = entrywise_maximum(one, other)
    expected = np.maximum(dense[0].numpy(), dense[1].numpy())
    assert torch.equal(found.to_dense(), torch.from_numpy(expected))
    assert len(found.values()) == np.count_nonzero(expected)
    assert (found.dtype, found.crow_indices().dtype) == (torch.float32, kind)
    with_index_type(found, kind)  # torch checks it: sorted columns, among others
    empty = torch.zeros(9, 9).to_sparse_csr()
    assert torch.equal(entrywise_maximum(one, empty).to_dense(), dense[0].clamp(min=0))
