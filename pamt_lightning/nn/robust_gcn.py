"""Robust GCN: a graph convolution whose hidden states are Gaussians."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

from pamt_lightning.errors import require_in
from pamt_lightning.functional.gaussian import (
    VARIANCE_FLOOR,
    gaussian_convolution,
    kl_to_standard_normal,
)
from pamt_lightning.kernels.dropout import dropout
from pamt_lightning.kernels.features import Features
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.nn.mlp import InputLinear


class RobustGCN(nn.Module):
    r"""Two layers of Gaussian convolution, where uncertain neighbours weigh less.

    Zhu, Zhang, Cui and Zhu, "Robust Graph Convolutional Networks Against Adversarial Attacks",
    KDD 2019:

    .. math:: M_1 = \mathrm{ELU}(X W_{\mu,1}), \quad \Sigma_1 = \mathrm{ReLU}(X W_{\sigma,1}), \quad
        (M, \Sigma) = \mathrm{conv}(M_1, \Sigma_1)

    .. math:: M_2 = \mathrm{ELU}(M W_{\mu,2}), \quad \Sigma_2 = \mathrm{ReLU}(\Sigma W_{\sigma,2}),
        \quad (M', \Sigma') = \mathrm{conv}(M_2, \Sigma_2)

    with the convolution of `gaussian_convolution` and dropout before each of the four maps.

    Logits are a sample :math:`M' + \varepsilon \odot \sqrt{\Sigma'}` in training and the mean
    :math:`M'` otherwise. There are ``hidden_dim`` hidden means and as many variances.
    """

    def __init__(
        self,
        num_features: int,
        hidden_dim: int,
        num_classes: int,
        dropout: float = 0.6,
        gamma: float = 1.0,
    ) -> None:
        super().__init__()
        require_in("[1, inf)", hidden_dim=hidden_dim, num_classes=num_classes)
        require_in("[0, inf)", gamma=gamma)
        self.dropout = dropout
        self.gamma = gamma
        # Means and variances side by side: one sparse product gives both.
        self.input = InputLinear(num_features, 2 * hidden_dim, dropout, bias=False)
        self.output_mean = nn.Linear(hidden_dim, num_classes, bias=False)
        self.output_variance = nn.Linear(hidden_dim, num_classes, bias=False)
        with torch.no_grad():  # Glorot's rule for each of the four matrices
            for half in self.input.weight.chunk(2, dim=1):
                nn.init.xavier_uniform_(half)
        nn.init.xavier_uniform_(self.output_mean.weight)
        nn.init.xavier_uniform_(self.output_variance.weight)

    def forward(self, x: Tensor | Features, adj_norm: SparseOperator) -> Tensor:
        """Logits ``[N, C]`` of attributes ``[N, F]`` over Â ``[N, N]``."""
        return self._logits(*self._input_gaussian(x), adj_norm)

    def forward_with_kl(
        self, x: Tensor | Features, adj_norm: SparseOperator
    ) -> tuple[Tensor, Tensor]:
        r"""Logits as of ``forward``, and the KL term of the loss.

        The term is that of the first layer before its convolution, :math:`(M_1, \Sigma_1)`: the
        sum over nodes of `kl_to_standard_normal`. The authors give it the weight 5e-4.
        """
        mean, variance = self._input_gaussian(x)
        kl = kl_to_standard_normal(mean, variance).sum()
        return self._logits(mean, variance, adj_norm), kl

    def _input_gaussian(self, x: Tensor | Features) -> tuple[Tensor, Tensor]:
        mean, variance = self.input(x).chunk(2, dim=1)
        return elu(mean), torch.relu(variance)

    def _logits(self, mean: Tensor, variance: Tensor, adj_norm: SparseOperator) -> Tensor:
        mean, variance = gaussian_convolution(mean, variance, adj_norm, self.gamma)
        mean = elu(self.output_mean(dropout(mean, self.dropout, self.training)))
        variance = torch.relu(self.output_variance(dropout(variance, self.dropout, self.training)))
        mean, variance = gaussian_convolution(mean, variance, adj_norm, self.gamma)
        # Deviation: the authors also sample for predictions, which then differ from call to call.
        if not self.training:
            return mean
        # The slope of a root is infinite at zero.
        return mean + torch.randn_like(mean) * torch.sqrt(variance + VARIANCE_FLOOR)
