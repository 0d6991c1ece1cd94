"""The simplified graph convolution of Wu and others."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pamt_lightning.errors import require_in
from pamt_lightning.functional import smooth
from pamt_lightning.kernels.features import Features
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.nn.mlp import InputLinear


class SGC(nn.Module):
    r"""Logistic regression on propagated attributes (Wu et al. 2019, arXiv:1902.07153, Eq. 8).

    .. math:: Z = \hat{A}^K X W + b

    Deviation: its authors store :math:`\hat{A}^K X`, which is no longer sparse. The product is
    associative, so here :math:`X W` comes first and the graph is multiplied with C columns: the
    same values, without an [N, F] matrix. No steps give logistic regression.
    """

    def __init__(self, num_features: int, num_classes: int, num_steps: int = 2) -> None:
        super().__init__()
        require_in("[1, inf)", num_classes=num_classes)
        require_in("[0, inf)", num_steps=num_steps)
        self.num_steps = num_steps
        self.input = InputLinear(num_features, num_classes, bias=False)
        self.bias = nn.Parameter(torch.zeros(num_classes))

    def forward(self, x: Tensor | Features, adj_norm: SparseOperator) -> Tensor:
        """Logits ``[N, C]`` of attributes ``[N, F]`` over Â ``[N, N]``."""
        return smooth(adj_norm, self.input(x), num_steps=self.num_steps, alpha=0.0) + self.bias
