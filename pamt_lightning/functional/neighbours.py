"""Which nodes have the most similar attributes."""

from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.errors import require_in, require_shape
from pamt_lightning.functional.normalize import normalize_symmetric
from pamt_lightning.kernels.csr import entrywise_maximum, symmetric_pattern
from pamt_lightning.kernels.neighbours import nearest_rows
from pamt_lightning.kernels.operator import SparseOperator


def inverse_document_frequency(x: Tensor) -> Tensor:
    r"""How much it says that a node has an attribute: little if many nodes have it.

    .. math:: w_j = \ln(N / \mathrm{df}_j), \qquad \mathrm{df}_j = |\{i : x_{ij} \neq 0\}|

    Weights ``[F]`` are in double precision, 0 for an attribute that no node has. Dense attributes
    are measurements, not words: their weights are 1.
    """
    require_shape("x", x.shape, "N F")
    if x.layout != torch.sparse_csr:
        return torch.ones(x.shape[1], dtype=torch.float64, device=x.device)
    nodes = torch.bincount(x.col_indices()[x.values() != 0], minlength=x.shape[1]).double()
    return torch.where(nodes > 0, (x.shape[0] / nodes).log(), 0.0)


def attribute_neighbours(x: Tensor, k: int) -> Tensor:
    r"""Join each node with the ``k`` other nodes whose attributes are most similar.

    .. math:: A_{ij} = 1 \iff j \in \mathrm{top}_k(i) \lor i \in \mathrm{top}_k(j), \qquad
        \mathrm{sim}(i, j) = \cos(w \odot x_i, w \odot x_j)

    :math:`w` is the `inverse_document_frequency`. Similarities are compared to nine decimals; of
    equal ones the lower node number comes first. Nodes without a positive similarity are not
    joined, so a node without attributes has no neighbours.

    Args:
        x: Attributes, dense or CSR, shape ``[N, F]``.
        k: Number of neighbours of a node, before those that choose it are added; at least 1.

    Returns:
        A symmetric CSR tensor of ones with an empty diagonal, shape ``[N, N]``.

    Raises:
        InputError: If there are more than 100,000 nodes and the extra ``neighbours``, which finds
            nearly all of these neighbours, is not installed.
    """
    require_shape("x", x.shape, "N F")
    require_in("[1, inf)", whole=True, k=k)
    return symmetric_pattern(*nearest_rows(x, inverse_document_frequency(x), k), x.shape[0])


def join_graphs(adj: SparseOperator, neighbours: Tensor) -> SparseOperator:
    r"""One normalised graph with the edges of two.

    .. math:: \hat{B} = D^{-1/2} B D^{-1/2}, \qquad B_{ij} = \max(A_{ij}, S_{ij})

    Args:
        adj: :math:`A`, weights in ``[0, 1]`` with ones on the diagonal, symmetric ``[N, N]``.
        neighbours: :math:`S`, a symmetric CSR tensor such as that of `attribute_neighbours`.
    """
    require_shape("neighbours", neighbours.shape, "N N", N=adj.num_nodes)
    joined = entrywise_maximum(adj.to_csr(), neighbours)
    return normalize_symmetric(SparseOperator.from_csr(joined, adj.dtype))
