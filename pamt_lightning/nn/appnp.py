"""APPNP: predict, then propagate, trained end to end."""

from __future__ import annotations

from torch import Tensor, nn

from pamt_lightning.errors import require_in
from pamt_lightning.functional import smooth
from pamt_lightning.kernels.features import Features
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.nn.mlp import MLP


class APPNP(nn.Module):
    r"""An MLP whose output is propagated (Gasteiger et al. 2019, arXiv:1810.05997, Eq. 4 to 6).

    .. math:: H = f_\theta(X), \qquad Z^{(k)} = (1 - \alpha)\, \hat{A} Z^{(k-1)} + \alpha H

    Deviation: the paper also drops entries of :math:`\hat{A}` at each step; its authors' PyTorch
    code does not by default, and neither does this.

    An ``alpha`` of 1 or no steps give the MLP.
    """

    def __init__(
        self,
        num_features: int,
        hidden_dim: int,
        num_classes: int,
        dropout: float = 0.5,
        alpha: float = 0.1,
        num_steps: int = 10,
    ) -> None:
        super().__init__()
        require_in("[0, 1]", alpha=alpha)
        require_in("[0, inf)", num_steps=num_steps)
        self.alpha = alpha
        self.num_steps = num_steps
        self.mlp = MLP(num_features, hidden_dim, num_classes, dropout, bias=False)

    def forward(self, x: Tensor | Features, adj_norm: SparseOperator) -> Tensor:
        """Logits ``[N, C]`` of attributes ``[N, F]`` over Â ``[N, N]``."""
        return self.propagate(self.mlp(x), adj_norm)

    def propagate(self, logits: Tensor, adj_norm: SparseOperator) -> Tensor:
        """The second half of `forward`: from the MLP's logits to the propagated ones."""
        return smooth(adj_norm, logits, num_steps=self.num_steps, alpha=self.alpha)
