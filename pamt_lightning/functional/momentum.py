"""The momentum update of the soft labels."""

from __future__ import annotations

from torch import Tensor


def blend_soft_labels(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    r"""Move the soft labels towards newly propagated ones (PAMT, Eq. 11).

    .. math:: Y_{soft} \leftarrow \beta Y_{soft} + (1 - \beta) Y^t_{soft}

    Args:
        old: :math:`Y_{soft}`, shape ``[N, C]``.
        new: :math:`Y^t_{soft}`, shape ``[N, C]``.
        momentum: :math:`\beta` in ``[0, 1)``; 0 replaces the soft labels (PAMT_1).

    Returns:
        The updated soft labels, shape ``[N, C]``.
    """
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"`momentum` must lie in [0, 1), got {momentum}.")
    if old.shape != new.shape:
        raise ValueError(
            f"`old` and `new` must have one shape, got {tuple(old.shape)} and {tuple(new.shape)}."
        )
    if momentum == 0.0:
        return new
    return momentum * old + (1.0 - momentum) * new
