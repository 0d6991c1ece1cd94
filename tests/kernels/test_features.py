"""Dense and sparse features: products, gradients, rows and dropout against dense matrices."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import (
    DenseFeatures,
    Features,
    SparseFeatures,
    as_features,
    is_sparse_enough,
)
from tests.matrices import with_index_type

INDEX_TYPES = pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
KINDS = pytest.mark.parametrize("kind", ["sparse", "dense"])


def random_csr(index_type: torch.dtype = torch.int64) -> Tensor:
    """A 12 x 9 matrix with a third of its entries stored; row 3 and column 5 are empty."""
    dense = torch.randn(12, 9, dtype=torch.float64)
    dense[torch.rand(12, 9) > 0.33] = 0
    dense[3], dense[:, 5] = 0, 0
    return with_index_type(dense.to_sparse_csr(), index_type)


def features(csr: Tensor, kind: str) -> Features:
    return as_features(csr if kind == "sparse" else csr.to_dense())


def dense_of(x: Features) -> Tensor:
    return x.matrix if isinstance(x, DenseFeatures) else x.to_dense().matrix


def wide_features(rows: int, index_type: torch.dtype = torch.int32) -> SparseFeatures:
    """Enough entries that the transpose is kept in several blocks of rows."""
    dense = torch.randn(rows, 4, dtype=torch.float64)
    dense[torch.rand(rows, 4) < 0.5] = 0
    dense[5], dense[rows // 2 :, 2] = 0, 0
    return SparseFeatures.from_csr(with_index_type(dense.to_sparse_csr(), index_type))


# Products --------------------------------------------------------------------------------------


@KINDS
@INDEX_TYPES
def test_product_and_gradient_are_those_of_dense_autograd(
    index_type: torch.dtype, kind: str
) -> None:
    csr = random_csr(index_type)
    x = features(csr, kind)
    weight = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    sign = torch.randn(4, 12, dtype=torch.float64).mT  # not contiguous
    out, expected = x.linear(weight), csr.to_dense() @ weight
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)
    grads = [torch.autograd.grad((o.tanh() * sign).sum(), weight)[0] for o in (out, expected)]
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-14)
    assert not out[3].any()
    assert not grads[0][5].any()
    (summed,) = torch.autograd.grad(x.linear(weight).sum(), weight)  # expanded from one number
    torch.testing.assert_close(summed, csr.to_dense().sum(0).unsqueeze(1).expand(9, 4))


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (4, 1)])
def test_a_matrix_without_stored_entries_gives_zeros(shape: tuple[int, int]) -> None:
    weight = torch.ones(shape[1], 2, requires_grad=True)
    out = as_features(torch.zeros(shape).to_sparse_csr()).linear(weight)
    (grad,) = torch.autograd.grad(out.sum(), weight)
    assert torch.equal(out, torch.zeros(shape[0], 2))
    assert torch.equal(grad, torch.zeros(shape[1], 2))


def test_bits_do_not_depend_on_the_number_of_threads(small_graph: Graph) -> None:
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        # Wide enough that torch divides the work.
        start = torch.randn(60, 512, generator=torch.Generator().manual_seed(0))
        weight = start.requires_grad_()
        torch.manual_seed(0)
        out = as_features(small_graph.x).dropout(0.5, True).linear(weight)
        results.append((out, *torch.autograd.grad(out.square().sum(), weight)))
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


# The transpose ---------------------------------------------------------------------------------


@INDEX_TYPES
@pytest.mark.parametrize(("rows", "blocks"), [(1500, 1), (2048, 2), (2049, 2), (7001, 6)])
def test_blocks_give_the_gradient_of_the_whole(
    rows: int, blocks: int, index_type: torch.dtype
) -> None:
    x = wide_features(rows, index_type)
    assert x.pattern.num_blocks == blocks
    few_per_column = torch.eye(rows).to_sparse_csr()
    assert SparseFeatures.from_csr(few_per_column).pattern.num_blocks == 1
    crow, col, _ = x.pattern.transposed
    for number in range(blocks):  # each holds rows of its own
        inside = col[crow[4 * number] : crow[4 * (number + 1)]]
        assert rows * number // blocks <= inside.min() <= inside.max()
        assert inside.max() < rows * (number + 1) // blocks
    weight = torch.ones(4, 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.arange(3.0 * rows, dtype=torch.float64).reshape(rows, 3) / rows
    (grad,) = torch.autograd.grad(x.linear(weight), weight, upstream)
    torch.testing.assert_close(grad, dense_of(x).T @ upstream)


@INDEX_TYPES
def test_dropout_of_a_known_transpose_gives_the_same_values(index_type: torch.dtype) -> None:
    """The mask is put in the order of the transpose, not the values: the results are equal."""
    x = wide_features(3000, index_type)
    for known in (False, True):
        torch.manual_seed(0)
        dropped = x.dropout(0.4, True)
        assert (dropped.masked_from is not None) == known
        plain = SparseFeatures(x.pattern, dropped.values)
        assert torch.equal(dropped.t_values, plain.t_values)
        assert dropped.pattern is x.pattern
    assert 0.3 < (dropped.values == 0).double().mean() < 0.5


# Rows, types and devices -----------------------------------------------------------------------


@INDEX_TYPES
@KINDS
@pytest.mark.parametrize(
    "rows",
    [slice(0, 12), slice(3, 7), slice(10, 40), slice(4, 4), [0, 1, 2], [11, 3, 0], [4, 4], []],
)
def test_taken_rows_are_those_of_a_dense_matrix(
    rows: Any, kind: str, index_type: torch.dtype
) -> None:
    csr = random_csr(index_type)
    x = features(csr, kind)
    index = rows if isinstance(rows, slice) else torch.tensor(rows, dtype=torch.int64)
    taken = x.take_rows(index)
    expected = csr.to_dense()[index]
    assert taken.shape == tuple(expected.shape)
    assert torch.equal(dense_of(taken), expected)
    assert taken.first_row == (rows.start if isinstance(rows, slice) else 0)
    if isinstance(taken, SparseFeatures) and isinstance(x, SparseFeatures):
        assert taken.pattern.crow.dtype == taken.pattern.col.dtype == index_type
        if isinstance(rows, slice):
            assert taken.first_entry == csr.crow_indices()[rows.start]
            same = taken.values.untyped_storage().data_ptr()
            assert same == x.values.untyped_storage().data_ptr()


@KINDS
def test_features_go_to_a_device_or_type_or_stay(kind: str) -> None:
    x = features(random_csr(), kind).take_rows(slice(2, 9))
    assert x.to(torch.device("cpu")) is x
    assert x.to(torch.float64) is x
    there = x.to(torch.device("meta"))
    assert (there.device.type, there.shape, there.first_row) == ("meta", x.shape, 2)
    single = x.to(torch.float32)
    assert torch.equal(dense_of(single), dense_of(x).float())
    assert single.first_row == 2


@pytest.mark.parametrize(("stored", "enough"), [(39, True), (40, True), (41, False)])
def test_density_decides_whether_sparse_is_faster(stored: int, enough: bool) -> None:
    dense = torch.zeros(100)
    dense[:stored] = 2.0
    x = SparseFeatures.from_csr(dense.view(10, 10).to_sparse_csr())
    assert is_sparse_enough(len(x.values), *x.shape) == enough
    assert torch.equal(x.to_dense().matrix, dense.view(10, 10))


# Dropout ---------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_dropout_keeps_zeros_scales_the_rest_and_has_the_right_mean(kind: str, rate: float) -> None:
    torch.manual_seed(0)
    dense = torch.zeros(400, 50)
    dense[:, ::2] = 3.0
    x = features(dense.to_sparse_csr(), kind)
    out = dense_of(x.dropout(rate, True))
    assert torch.equal(out[:, 1::2], torch.zeros(400, 25))
    kept = out[:, ::2]
    keeps = 1 - round(rate * 2**16) / 2**16  # the rate is a multiple of 2^-16
    assert torch.allclose(kept[kept != 0], torch.tensor(3.0 / keeps), rtol=1e-6)
    deviation = math.sqrt(rate * (1 - rate) / kept.numel())
    assert abs((kept != 0).float().mean().item() - (1 - rate)) < 5 * deviation
    assert kept.mean().item() == pytest.approx(3.0, abs=5 * 3 * deviation / (1 - rate))
    for axis in (0, 1):  # whole rows or columns would make shares of 0 and 1
        shares = (kept != 0).float().mean(dim=axis)
        assert shares.max() - shares.min() < 1
    assert torch.equal(dense_of(x), dense)


@KINDS
def test_dropout_draws_nothing_in_evaluation_or_without_rate(small_graph: Graph, kind: str) -> None:
    x = features(small_graph.x, kind)
    before = torch.get_rng_state()
    assert x.dropout(0.5, False) is x
    assert x.dropout(0.0, True) is x
    assert torch.equal(torch.get_rng_state(), before)


@KINDS
@pytest.mark.parametrize("cuts", [[0], [4], [1, 2, 7], [5, 5, 290], [299]])
def test_parts_drop_together_what_the_whole_would(
    small_graph: Graph, kind: str, cuts: list[int]
) -> None:
    x = features(small_graph.x, kind)
    torch.manual_seed(3)
    expected = dense_of(x.dropout(0.4, True))
    hidden = torch.rand(300, 8)
    torch.manual_seed(4)
    expected_hidden, _ = x.relu_dropout(hidden.clone(), 0.4, True)
    found, found_hidden = [], []
    for first, last in zip([0, *cuts], [*cuts, 300], strict=True):
        part = x.take_rows(slice(first, last))
        torch.manual_seed(3)
        found.append(dense_of(part.dropout(0.4, True)))
        torch.manual_seed(4)
        found_hidden.append(part.relu_dropout(hidden[first:last].clone(), 0.4, True)[0])
    assert torch.equal(torch.cat(found), expected)
    assert torch.equal(torch.cat(found_hidden), expected_hidden)


# What is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x", [torch.ones(2, 3), torch.ones(2, 3).to_sparse(), torch.ones(1, 2, 3).to_sparse_csr()]
)
def test_only_csr_matrices_are_sparse_features(x: Tensor) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {x.layout} of shape {tuple(x.shape)}")):
        SparseFeatures.from_csr(x)


@KINDS
@pytest.mark.parametrize("shape", [(8, 3), (10, 3), (9,)])
def test_the_weight_must_fit_the_attributes(shape: tuple[int, ...], kind: str) -> None:
    x = features(random_csr(), kind)
    with pytest.raises(ValueError, match=re.escape(f"F=9, got {shape}.")):
        x.linear(torch.ones(shape))
