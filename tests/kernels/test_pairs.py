from __future__ import annotations

import pytest
import torch

from pamt_lightning.kernels import pairs
from pamt_lightning.kernels.pairs import pair_products


@pytest.mark.parametrize("at_once", [1 << 22, 30, 1])
@pytest.mark.parametrize("sparse", [True, False])
def test_products_are_those_of_the_whole_matrix(
    sparse: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "_ENTRIES_AT_ONCE", at_once)
    x = torch.rand(30, 12)
    x[x < 0.6] = 0.0
    x[4] = 0.0
    first, second = torch.randint(30, (2, 101))
    found = pair_products(x.to_sparse_csr() if sparse else x, first, second)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, (x.double() @ x.double().T)[first, second])
    assert pair_products(x, first[:0], second[:0]).shape == (0,)
