"""How reliable each edge is, estimated from the attributes alone: no label, no network."""

from __future__ import annotations

import torch
from torch import Tensor

from pamt_lightning.errors import require_shape
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.kernels.pairs import pair_products

_BINS = 40  # fewer if many scores are equal
_RANDOM_PAIRS = 1 << 16


def pair_cosine(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Cosine of the attributes ``[N, F]``, dense or CSR, of both nodes of each pair.

    Values ``[M]`` are in double precision, rounded to nine decimals so that the order of a sum does
    not matter; 0 if a node has no attributes.
    """
    require_shape("second", second.shape, "M", M=len(first))
    nodes = torch.arange(x.shape[0], device=first.device)
    squares = pair_products(x, nodes, nodes)
    lengths = (squares[first] * squares[second]).sqrt()
    return (pair_products(x, first, second) / lengths).nan_to_num(0.0).round(decimals=9)


def random_pairs(
    adj: SparseOperator, num_pairs: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Pairs of nodes as edges would join them at random, with the degrees that the nodes have.

    A node is drawn in proportion to its number of edges, self-loops not counted. Pairs of a node
    with itself are left out, so there are fewer than ``num_pairs``.
    """
    rows = adj.row_index.long()
    ends = rows[rows != adj.col]
    if len(ends) == 0:
        return ends, ends
    draw = torch.randint(len(ends), (2, num_pairs), generator=generator).to(ends.device)
    first, second = ends[draw[0]], ends[draw[1]]
    differ = first != second
    return first[differ], second[differ]


def local_false_discovery_rate(scores: Tensor, null: Tensor) -> Tensor:
    r"""The probability that a score was drawn from the null distribution (Efron et al. 2001).

    Scores are a mixture :math:`f = \pi_0 f_0 + (1 - \pi_0) f_1` of the null and a distribution of
    higher scores, so the probability is :math:`\pi_0 f_0(s) / f(s)`. Both densities are histograms
    over quantiles of the scores, :math:`f_0 / f` is made to fall with :math:`s` (isotonic
    regression), and :math:`\pi_0` is the largest share that leaves no probability above 1: an upper
    bound, which is reached if the lowest scores all come from the null.

    ``null`` are scores drawn from :math:`f_0`; the mean of the result is :math:`\pi_0`.
    """
    if len(scores) == 0 or len(null) == 0:
        return torch.zeros_like(scores)
    # Not torch.quantile, which takes at most 16 million values.
    place = torch.arange(1, _BINS, device=scores.device) * len(scores) // _BINS
    ordered = scores.sort().values
    cuts = torch.unique(ordered[place])
    cuts = cuts[cuts > ordered[0]]  # so that the first bin holds a score, as all others do
    bins = torch.bucketize(scores, cuts, right=True)
    observed = torch.bincount(bins, minlength=len(cuts) + 1).double() / len(scores)
    drawn = torch.bincount(torch.bucketize(null, cuts, right=True), minlength=len(cuts) + 1)
    expected = drawn.double() / len(null)
    # The share of the null in both histograms together lies in [0, 1); their quotient does not.
    both = observed + expected
    share = falling_regression(expected / both, both)
    ratio = share / (1.0 - share)
    return (ratio / ratio[0]).clamp(max=1.0)[bins]


def falling_regression(values: Tensor, weights: Tensor) -> Tensor:
    r"""The non-increasing sequence that is nearest to ``values`` in weighted squares.

    .. math:: \hat{v}_i = \min_{j \le i} \max_{k \ge i}
        \frac{\sum_{l=j}^{k} w_l v_l}{\sum_{l=j}^{k} w_l}

    Takes :math:`O(B^2)` memory for ``[B]`` values and positive weights.
    """
    zero = values.new_zeros(1)
    sums = torch.cat([zero, torch.cumsum(values * weights, 0)])
    masses = torch.cat([zero, torch.cumsum(weights, 0)])
    # Entry [j, k] is the mean from j to k, for k >= j.
    mean = (sums[None, 1:] - sums[:-1, None]) / (masses[None, 1:] - masses[:-1, None])
    index = torch.arange(len(values), device=values.device)
    mean = torch.where(index[:, None] <= index[None, :], mean, -torch.inf)
    highest = mean.flip(1).cummax(1).values.flip(1)  # [j, i]: the largest mean from j to i or later
    highest = torch.where(index[:, None] <= index[None, :], highest, torch.inf)
    return highest.amin(0)


def edge_trust(adj: SparseOperator, x: Tensor, generator: torch.Generator) -> Tensor:
    r"""The probability that an edge was not drawn at random.

    .. math:: T_{ij} = 1 - \mathrm{fdr}(\cos(x_i, x_j))

    The null distribution is that of pairs of nodes drawn at random in proportion to their degrees.
    Edges whose attributes look like such pairs are not trusted; self-loops are. Where attributes
    are unrelated to edges, all edges look random and none is trusted.

    Args:
        adj: A symmetric matrix, shape ``[N, N]``.
        x: Attributes, dense or CSR, shape ``[N, F]``.
        generator: For the random pairs, on the CPU.

    Returns:
        :math:`T` at the stored entries of ``adj``, shape ``[nnz]``.
    """
    require_shape("x", x.shape, "N F", N=adj.num_nodes)
    rows, cols = adj.row_index.long(), adj.col.long()
    once = rows < cols
    scores = pair_cosine(x, rows[once], cols[once])
    null = pair_cosine(x, *random_pairs(adj, _RANDOM_PAIRS, generator))
    weight = 1.0 - local_false_discovery_rate(scores, null)
    # Both directions of an edge get the same value, which was computed once.
    keys = torch.minimum(rows, cols) * adj.num_nodes + torch.maximum(rows, cols)
    edges = rows != cols
    trust = torch.ones_like(adj.values)
    trust[edges] = weight.to(trust.dtype)[torch.searchsorted(keys[once], keys[edges])]
    return trust
