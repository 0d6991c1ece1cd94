from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from pamt_lightning.graph import Graph
from pamt_lightning.nn import SparseFeatures, is_sparse_enough, sparse_linear


def random_csr(
    generator: torch.Generator,
    shape: tuple[int, int] = (12, 9),
    index_type: torch.dtype = torch.int64,
) -> Tensor:
    """Random entries, a third of them stored; row 3 and column 5 are empty."""
    dense = torch.randn(shape, generator=generator, dtype=torch.float64)
    dense[torch.rand(shape, generator=generator) > 0.33] = 0
    dense[3], dense[:, 5] = 0, 0
    csr = dense.to_sparse_csr()
    return torch.sparse_csr_tensor(
        csr.crow_indices().to(index_type),
        csr.col_indices().to(index_type),
        csr.values(),
        csr.shape,
        check_invariants=True,
    )


def dense_of(x: SparseFeatures) -> Tensor:
    return torch.sparse_csr_tensor(
        x.crow, x.col, x.values, x.shape, check_invariants=True
    ).to_dense()


def transpose_of(x: SparseFeatures) -> Tensor:
    """The dense form of what is stored as transpose; torch checks that columns are sorted."""
    return torch.sparse_csr_tensor(
        *x.pattern.transposed[:2], x.t_values, x.shape[::-1], check_invariants=True
    ).to_dense()


INDEX_TYPES = pytest.mark.parametrize("index_type", [torch.int32, torch.int64])


@INDEX_TYPES
def test_the_stored_transpose_is_the_transpose(
    generator: torch.Generator, index_type: torch.dtype
) -> None:
    csr = random_csr(generator, index_type=index_type)
    x = SparseFeatures.from_csr(csr)
    assert x.shape == (12, 9)
    assert torch.equal(dense_of(x), csr.to_dense())
    assert torch.equal(transpose_of(x), csr.to_dense().T)
    for index in (x.crow, x.col, *x.pattern.transposed[:2]):
        assert index.dtype == index_type


@INDEX_TYPES
def test_the_product_and_its_gradient_are_those_of_dense_autograd(
    generator: torch.Generator, index_type: torch.dtype
) -> None:
    csr = random_csr(generator, index_type=index_type)
    start = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    sign = torch.randn(12, 4, generator=generator, dtype=torch.float64)
    grads = []
    outputs = []
    for product in (
        lambda w: sparse_linear(SparseFeatures.from_csr(csr), w),
        lambda w: csr.to_dense() @ w,
    ):
        weight = start.clone().requires_grad_()
        out = product(weight)
        (out.tanh() * sign).sum().backward()
        outputs.append(out.detach())
        grads.append(weight.grad)
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=1e-14)
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-14)
    assert torch.equal(outputs[0][3], torch.zeros(4, dtype=torch.float64))
    assert grads[0] is not None
    assert torch.equal(grads[0][5], torch.zeros(4, dtype=torch.float64))


def test_the_gradient_passes_gradcheck(generator: torch.Generator) -> None:
    x = SparseFeatures.from_csr(random_csr(generator))
    weight = torch.randn(9, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: sparse_linear(x, w), (weight,))


def test_a_gradient_that_is_not_contiguous_gives_the_same(generator: torch.Generator) -> None:
    csr = random_csr(generator)
    weight = torch.randn(9, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(3, 12, generator=generator, dtype=torch.float64).T
    out = sparse_linear(SparseFeatures.from_csr(csr), weight)
    (grad,) = torch.autograd.grad(out, weight, upstream)
    torch.testing.assert_close(grad, csr.to_dense().T @ upstream)
    (grad,) = torch.autograd.grad(
        sparse_linear(SparseFeatures.from_csr(csr), weight).sum(), weight
    )  # expanded from one number
    torch.testing.assert_close(grad, csr.to_dense().sum(0).unsqueeze(1).expand(9, 3))


@INDEX_TYPES
@pytest.mark.parametrize("rows", [slice(0, 12), slice(3, 7), slice(10, 40), slice(4, 4)])
def test_a_slice_of_rows_is_that_of_the_dense_matrix_and_copies_nothing(
    generator: torch.Generator, rows: slice, index_type: torch.dtype
) -> None:
    x = SparseFeatures.from_csr(random_csr(generator, index_type=index_type))
    taken = x.take_rows(rows)
    assert torch.equal(dense_of(taken), dense_of(x)[rows])
    assert torch.equal(transpose_of(taken), dense_of(x)[rows].T)
    assert taken.crow.dtype == taken.col.dtype == index_type
    for part, whole in ((taken.col, x.col), (taken.values, x.values)):
        assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (4, 1)])
def test_a_matrix_without_stored_entries_gives_zeros(shape: tuple[int, int]) -> None:
    x = SparseFeatures.from_csr(torch.zeros(shape).to_sparse_csr())
    weight = torch.ones(shape[1], 2, requires_grad=True)
    out = sparse_linear(x, weight)
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(out.detach(), torch.zeros(shape[0], 2))
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.zeros(shape[1], 2))


def test_empty_last_rows_and_columns_are_kept() -> None:
    dense = torch.tensor([[0.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    x = SparseFeatures.from_csr(dense.to_sparse_csr())
    assert x.shape == (4, 4)
    weight = torch.arange(8.0).reshape(4, 2)
    assert torch.equal(sparse_linear(x, weight), dense @ weight)


def test_values_take_the_type_that_is_asked_for(generator: torch.Generator) -> None:
    csr = random_csr(generator)
    assert SparseFeatures.from_csr(csr).values.dtype == torch.float64
    x = SparseFeatures.from_csr(csr, torch.float32)
    assert x.values.dtype == torch.float32
    assert torch.equal(x.values, csr.values().float())


def test_other_values_reach_the_product_and_the_gradient(generator: torch.Generator) -> None:
    x = SparseFeatures.from_csr(random_csr(generator))
    factor = torch.arange(12.0, dtype=torch.float64).unsqueeze(1)
    other = x.with_values(x.values * factor.flatten().repeat_interleave(x.crow.diff()))
    dense = dense_of(x) * factor
    weight = torch.randn(9, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    out = sparse_linear(other, weight)
    torch.testing.assert_close(out, dense @ weight)
    (grad,) = torch.autograd.grad(out.sum(), weight)
    torch.testing.assert_close(grad, dense.sum(0).unsqueeze(1).expand(9, 3))


@INDEX_TYPES
@pytest.mark.parametrize("rows", [[0, 1, 2], [11, 3, 0], [4, 4], [3], []])
def test_taken_rows_are_those_of_the_dense_matrix(
    generator: torch.Generator, rows: list[int], index_type: torch.dtype
) -> None:
    x = SparseFeatures.from_csr(random_csr(generator, index_type=index_type))
    index = torch.tensor(rows, dtype=torch.int64)
    taken = x.take_rows(index)
    assert taken.shape == (len(rows), 9)
    assert torch.equal(dense_of(taken), dense_of(x)[index])
    assert torch.equal(transpose_of(taken), dense_of(x)[index].T)
    for stored in (taken.crow, taken.col, taken.pattern.transposed[1]):
        assert stored.dtype == index_type
    weight = torch.randn(9, 2, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(sparse_linear(taken, weight), (dense_of(x) @ weight)[index])


def bits(graph: Graph, threads: int) -> tuple[Tensor, Tensor]:
    torch.set_num_threads(threads)
    # Wide enough that torch does split the work.
    start = torch.randn(60, 512, generator=torch.Generator().manual_seed(0))
    weight = start.requires_grad_()
    out = sparse_linear(SparseFeatures.from_csr(graph.x), weight)
    out.square().sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    return out.detach(), weight.grad


def test_bits_do_not_depend_on_the_number_of_threads(small_graph: Graph) -> None:
    one, two = bits(small_graph, 1), bits(small_graph, 2)
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])


def test_float32_is_close_to_float64(small_graph: Graph, generator: torch.Generator) -> None:
    weight = torch.randn(60, 8, generator=generator)
    single = sparse_linear(SparseFeatures.from_csr(small_graph.x), weight)
    double = sparse_linear(SparseFeatures.from_csr(small_graph.x, torch.float64), weight.double())
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-5)


def test_features_are_frozen(generator: torch.Generator) -> None:
    x: Any = SparseFeatures.from_csr(random_csr(generator))
    with pytest.raises(dataclasses.FrozenInstanceError):
        x.values = None


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (torch.ones(2, 3), "got torch.strided of shape (2, 3)."),
        (torch.ones(2, 3).to_sparse(), "got torch.sparse_coo of shape (2, 3)."),
        (torch.ones(1, 2, 3).to_sparse_csr(), "got torch.sparse_csr of shape (1, 2, 3)."),
    ],
)
def test_only_csr_matrices_are_taken(x: Tensor, got: str) -> None:
    message = f"`x` must be a sparse CSR matrix [N, F], {got}"
    with pytest.raises(ValueError, match=re.escape(message)):
        SparseFeatures.from_csr(x)


@pytest.mark.parametrize("shape", [(8, 3), (10, 3), (9,)])
def test_the_weight_must_fit_the_columns(
    generator: torch.Generator, shape: tuple[int, ...]
) -> None:
    x = SparseFeatures.from_csr(random_csr(generator))
    message = f"`weight` must be [F, D] with F=9 (columns of `x`), got {shape}."
    with pytest.raises(ValueError, match=re.escape(message)):
        sparse_linear(x, torch.ones(shape))


def wide_features(rows: int, index_type: torch.dtype = torch.int32) -> SparseFeatures:
    """Enough entries that the transpose is kept in several blocks of rows."""
    draw = torch.Generator().manual_seed(0)
    dense = torch.randn(rows, 4, generator=draw, dtype=torch.float64)
    dense[torch.rand(rows, 4, generator=draw) < 0.5] = 0
    dense[5], dense[rows // 2 :, 2] = 0, 0
    csr = dense.to_sparse_csr()
    index = (csr.crow_indices().to(index_type), csr.col_indices().to(index_type))
    return SparseFeatures.from_csr(
        torch.sparse_csr_tensor(*index, csr.values(), csr.shape, check_invariants=True)
    )


@INDEX_TYPES
@pytest.mark.parametrize(("rows", "blocks"), [(1500, 1), (2048, 2), (2049, 2), (7001, 6)])
def test_a_transpose_in_blocks_gives_the_gradient_of_the_whole(
    rows: int, blocks: int, index_type: torch.dtype
) -> None:
    x = wide_features(rows, index_type)
    assert x.pattern.num_blocks == blocks
    crow, col, order = x.pattern.transposed
    assert len(crow) == 4 * blocks + 1
    assert {crow.dtype, col.dtype, order.dtype} == {index_type}
    parts = torch.sparse_csr_tensor(
        crow, col, x.t_values, (4 * blocks, rows), check_invariants=True
    )
    torch.testing.assert_close(parts.to_dense().view(blocks, 4, rows).sum(0), dense_of(x).T)
    for number, block in enumerate(parts.to_dense().view(blocks, 4, rows)):
        inside = block.any(0).nonzero().flatten()
        assert rows * number // blocks <= inside.min() <= inside.max()
        assert inside.max() < rows * (number + 1) // blocks
    weight = torch.ones(4, 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.arange(3.0 * rows, dtype=torch.float64).reshape(rows, 3) / rows
    (grad,) = torch.autograd.grad(sparse_linear(x, weight), weight, upstream)
    torch.testing.assert_close(grad, dense_of(x).T @ upstream)


@INDEX_TYPES
def test_masked_features_are_those_with_the_values_multiplied(index_type: torch.dtype) -> None:
    x = wide_features(3000, index_type)
    kept = (torch.rand(len(x.values), generator=torch.Generator().manual_seed(1)) < 0.6).byte()
    plain = x.with_values(x.values * kept * 1.5)
    for used_before in (False, True):
        masked = x.masked(kept, 1.5)
        assert (masked.masked_from is not None) == used_before
        assert torch.equal(masked.values, plain.values)
        assert torch.equal(masked.t_values, plain.t_values)
        assert masked.pattern is x.pattern
    assert 0.3 < (masked.values == 0).double().mean() < 0.5


def test_few_entries_per_feature_are_not_cut_into_blocks() -> None:
    """A block costs a row of the result per feature, so it must sum many entries."""
    eye = torch.eye(5000).to_sparse_csr()
    assert SparseFeatures.from_csr(eye).pattern.num_blocks == 1


def test_features_go_to_a_device_or_stay(generator: torch.Generator) -> None:
    x = SparseFeatures.from_csr(random_csr(generator)).take_rows(slice(2, 9))
    assert x.to(torch.device("cpu")) is x
    there = x.to(torch.device("meta"))
    assert {there.crow.device.type, there.col.device.type, there.values.device.type} == {"meta"}
    assert (there.shape, there.first_entry) == (x.shape, x.first_entry)


@pytest.mark.parametrize(("stored", "enough"), [(39, True), (40, True), (41, False)])
def test_density_decides_whether_sparse_is_faster(stored: int, enough: bool) -> None:
    dense = torch.zeros(100)
    dense[:stored] = 2.0
    x = SparseFeatures.from_csr(dense.view(10, 10).to_sparse_csr())
    assert is_sparse_enough(len(x.values), *x.shape) == enough
    assert torch.equal(x.to_dense(), dense.view(10, 10))
