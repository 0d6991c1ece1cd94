import pytest
import torch
from torch.nn.functional import linear

from pamt_lightning.kernels.columns import (
    by_column,
    few_columns,
    linear_by_column,
    row_log_softmax,
    row_softmax,
    take_rows_by_column,
    unit_rows,
)

SIZES = pytest.mark.parametrize("columns", [1, 3, 7, 15, 16, 40])


@SIZES
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_softmax_and_its_logarithm_are_torchs(columns: int, layout: str) -> None:
    x = 5 * torch.randn(23, columns, dtype=torch.float64)
    x = x if layout == "rows" else by_column(x)
    upstream = torch.randn(23, columns, dtype=torch.float64)
    torch.testing.assert_close(unit_rows(x), x / x.norm(dim=1, keepdim=True))
    assert unit_rows(x).is_contiguous()
    for own, theirs in ((row_softmax, torch.softmax), (row_log_softmax, torch.log_softmax)):
        leaf = x.clone().requires_grad_()
        found, expected = own(leaf), theirs(leaf, dim=1)
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-15)
        grads = [torch.autograd.grad(out, leaf, upstream)[0] for out in (found, expected)]
        torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-14)


@SIZES
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_linear_map_is_torchs(columns: int, with_bias: bool) -> None:
    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64).requires_grad_()

    x, weight, bias = draw(23, 9), draw(columns, 9), draw(columns) if with_bias else None
    leaves = [leaf for leaf in (x, weight, bias) if leaf is not None]
    upstream = torch.randn(23, columns, dtype=torch.float64)
    found, expected = linear_by_column(x, weight, bias), linear(x, weight, bias)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        *(torch.autograd.grad(out, leaves, upstream) for out in (found, expected)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_few_columns_are_kept_by_column_and_stay_so() -> None:
    x = torch.rand(23, 7)
    kept = by_column(x)
    assert torch.equal(kept, x)
    for matrix in (kept, row_softmax(kept), row_log_softmax(x)):
        assert matrix.t().is_contiguous()
    assert linear_by_column(x, torch.rand(5, 7), None).t().is_contiguous()
    assert by_column(kept).data_ptr() == kept.data_ptr()
    many = torch.rand(23, 40)
    assert by_column(many) is many
    assert row_softmax(many).is_contiguous()


@SIZES
def test_rows_are_taken_in_either_layout(columns: int) -> None:
    x, index = torch.rand(23, columns), torch.tensor([3, 0, 22, 3])
    for matrix in (x, by_column(x)):
        found = take_rows_by_column(matrix, index)
        assert torch.equal(found, x[index])
        assert (found.t() if columns < 16 else found).is_contiguous()


def test_other_devices_keep_rows() -> None:
    assert few_columns(3, torch.device("cpu"))
    assert not few_columns(3, torch.device("cuda"))
