"""What changes with the epochs of a training."""

from __future__ import annotations

import math

from pamt_lightning.errors import require_in


def adaptive_gamma(epoch: int, epsilon: float = 100.0) -> float:
    r"""PTA's exponent: the longer the network was trained, the more its confidence counts.

    .. math:: \gamma = \ln(1 + t / \epsilon)

    :math:`t` is the number of finished epochs.
    """
    require_in("[0, inf)", epoch=epoch)
    require_in("(0, inf)", epsilon=epsilon)
    return math.log1p(epoch / epsilon)


def rising_weight_decay(epoch: int, start: float, end: float, num_epochs: int) -> float:
    r"""A weight decay that grows by the same factor in each epoch.

    .. math:: \mathrm{wd}_t = \mathrm{wd}_0 \left( \frac{\mathrm{wd}_1}{\mathrm{wd}_0}
        \right)^{\min(t / (T - 1),\, 1)}

    A training that follows it passes through networks from loosely to strongly regularised ones, as
    along a regularisation path.

    Args:
        epoch: Number of finished epochs :math:`t`.
        start: :math:`\mathrm{wd}_0`, of epoch 0.
        end: :math:`\mathrm{wd}_1`, of epoch :math:`T - 1` and all later ones.
        num_epochs: :math:`T`.
    """
    require_in("[0, inf)", epoch=epoch)
    require_in("(0, inf)", start=start, end=end)
    require_in("[1, inf)", num_epochs=num_epochs)
    share = min(epoch / (num_epochs - 1), 1.0) if num_epochs > 1 else 1.0
    return float(start * (end / start) ** share)
