"""Products of pairs of rows of an attribute matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.kernels.csr import scipy_csr

_ENTRIES_AT_ONCE = 1 << 22  # bounds the memory of the two gathered blocks of rows


def pair_products(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """``(x[first] * x[second]).sum(1)`` in double precision, for a dense or CSR ``x``."""
    sparse = x.layout == torch.sparse_csr
    matrix = scipy_csr(x) if sparse else None
    stored = len(x.values()) if sparse else x.numel()
    step = max(1, _ENTRIES_AT_ONCE // max(1, stored // max(1, x.shape[0])))
    found = torch.empty(len(first), dtype=torch.float64, device=x.device)
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        one, two = first[part], second[part]
        if matrix is None:
            found[part] = (x[one].double() * x[two].double()).sum(1)
        else:  # SciPy multiplies sparse rows entry by entry; torch has nothing like it
            products = matrix[one.cpu().numpy()].multiply(matrix[two.cpu().numpy()])
            found[part] = torch.from_numpy(products.sum(1))
    return found
