from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.symmetric import apply_symmetric, symmetric_product


def test_map_and_gradient_are_those_of_dense_matrices(adj_norm: SparseOperator) -> None:
    h = torch.randn(300, 5, dtype=torch.float64, requires_grad=True)
    slopes = torch.randn(5, 300, dtype=torch.float64).mT  # not contiguous
    dense, calls = adj_norm.to_dense(), []

    def twice(y: Tensor) -> Tensor:
        calls.append(y)
        return adj_norm @ (adj_norm @ y)

    for out, matrix in (
        (symmetric_product(adj_norm, h), dense),
        (apply_symmetric(twice, h), dense @ dense),
    ):
        torch.testing.assert_close(out, matrix @ h)
        (grad,) = torch.autograd.grad(out, h, slopes)
        torch.testing.assert_close(grad, matrix.mT @ slopes)
    assert len(calls) == 2  # the backward pass is the map itself
