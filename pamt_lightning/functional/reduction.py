"""Fewer attributes that hold most of what all of them say."""

from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.errors import require_in, require_shape
from pamt_lightning.kernels.csr import gram_product


def principal_directions(x: Tensor, count: int, *, num_rounds: int = 3) -> Tensor:
    r"""Orthonormal directions :math:`R` for which :math:`\|X R\|` is nearly as large as possible.

    .. math:: R \leftarrow \mathrm{orth}(X^\top X R)

    repeated from a random start: subspace iteration, which approaches the span of the leading right
    singular vectors of :math:`X` (Halko, Martinsson and Tropp 2011, arXiv:0909.4061, Alg. 4.4).
    Attributes are not centred, so sparse ones stay sparse. The random numbers are the same in every
    call.

    Args:
        x: :math:`X`, dense or CSR, shape ``[N, F]``; it may be mapped from a file.
        count: Number of directions; all of F or more give the identity.
        num_rounds: How often the equation is applied, a pass over the attributes each.

    Returns:
        :math:`R` in single precision, shape ``[F, min(count, F)]``.
    """
    require_shape("x", x.shape, "N F")
    require_in("[1, inf)", whole=True, count=count, num_rounds=num_rounds)
    num_features = x.shape[1]
    if count >= num_features:
        return torch.eye(num_features, device=x.device)
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(num_features, count, generator=generator)
    for _ in range(num_rounds):
        directions = torch.linalg.qr(gram_product(x, directions)).Q
    return directions.to(x.device)
