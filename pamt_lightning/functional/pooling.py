"""One prediction from several: temperatures, and logarithmic pooling of class probabilities."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import Bounds, minimize, minimize_scalar
from torch import Tensor

from pamt_lightning.errors import require_in, require_shape

_LOWEST = 1e-7  # of a probability, so that one network alone cannot exclude a class
_MOST = 10.0  # a temperature lies between 1 / 10 and 10


def log_probabilities(probs: Tensor) -> Tensor:
    """Logarithms of probabilities, which are finite and in double precision."""
    return probs.double().clamp(min=_LOWEST).log()


def fit_sharpness(log_probs: Tensor, target: Tensor, ridge: float = 1.0) -> float:
    r"""The inverse temperature with which probabilities fit labels best.

    .. math:: \min_s\; -\sum_i \log \mathrm{softmax}(s \log p_i)_{y_i} + \tfrac{\rho}{2} (\ln s)^2

    Args:
        log_probs: :math:`\log p`, shape ``[M, C]``.
        target: Class :math:`y` of each node, shape ``[M]``.
        ridge: :math:`\rho`, the pull towards 1.
    """
    require_shape("target", target.shape, "M", M=len(log_probs))

    def loss(log_sharpness: float) -> float:
        scaled = torch.log_softmax(math.exp(log_sharpness) * log_probs, dim=1)
        return float(-scaled.gather(1, target[:, None]).sum()) + 0.5 * ridge * log_sharpness**2

    most = math.log(_MOST)
    return math.exp(float(minimize_scalar(loss, bounds=(-most, most), method="bounded").x))


def fit_pool(log_probs: Tensor, target: Tensor, ridge: float) -> Tensor:
    r"""The weights with which pooled predictions fit labels best, drawn towards equal weights.

    .. math:: \min_{w \ge 0}\; -\sum_i \log \mathrm{softmax}\Big(\sum_v w_v \log p_{vi}\Big)_{y_i}
        + \tfrac{\rho}{2} \sum_v (w_v - 1/V)^2

    A convex problem, solved by L-BFGS-B.

    Args:
        log_probs: :math:`\log p` of each of V predictions, shape ``[V, M, C]``.
        target: Class :math:`y` of each node, shape ``[M]``.
        ridge: :math:`\rho`; without labels, or if it is large, the weights are equal.

    Returns:
        :math:`w` in double precision, shape ``[V]``; the weights need not sum to one.
    """
    require_shape("log_probs", log_probs.shape, "V M C", M=len(target))
    require_in("(0, inf)", ridge=ridge)
    equal = torch.full((len(log_probs),), 1.0 / len(log_probs), dtype=torch.float64)
    log_probs, target = log_probs.double().cpu(), target.cpu()

    def loss(point: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        weights = torch.from_numpy(point)
        scores = torch.log_softmax(torch.tensordot(weights, log_probs, 1), dim=1)
        error = scores.exp()
        error[torch.arange(len(target)), target] -= 1.0
        gradient = (log_probs * error).sum((1, 2)) + ridge * (weights - equal)
        value = -scores.gather(1, target[:, None]).sum()
        value = value + 0.5 * ridge * (weights - equal).square().sum()
        return float(value), gradient.numpy()

    limits = Bounds(0.0, np.inf)
    found = minimize(loss, equal.numpy(), jac=True, bounds=limits, method="L-BFGS-B")
    return torch.from_numpy(found.x)


def pool(log_probs: Tensor, weights: Tensor) -> Tensor:
    r"""Logarithmic pooling: a class must be likely in all predictions that count.

    .. math:: p_i = \mathrm{softmax}\Big(\sum_v w_v \log p_{vi}\Big)

    Args:
        log_probs: :math:`\log p` of each of V predictions, shape ``[V, M, C]``.
        weights: :math:`w`, shape ``[V]``.

    Returns:
        Class probabilities, shape ``[M, C]``.
    """
    require_shape("weights", weights.shape, "V", V=len(log_probs))
    return torch.softmax(torch.tensordot(weights.to(log_probs), log_probs, 1), dim=1)
