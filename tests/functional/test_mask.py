from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from pamt_lightning.functional import (
    mask_adjacency,
    mask_representation,
    renormalize_mask,
)
from pamt_lightning.functional.mask import MaskNormalization, Representation
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.csr import csr_tensor
from pamt_lightning.kernels.operator import SparseOperator
from tests.matrices import operator

NORMALIZATIONS: tuple[MaskNormalization, ...] = get_args(MaskNormalization)


@pytest.fixture
def h() -> Tensor:
    """Probabilities of 4 classes for the 300 nodes."""
    logits = 3 * torch.randn(300, 4, dtype=torch.float64)
    return mask_representation(logits)


# Equation 5


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_representations_are_softmax_and_unit_rows(temperature: float) -> None:
    logits = torch.randn(8, 3, dtype=torch.float64)
    exp = np.exp(logits.numpy() / temperature)
    probs = exp / exp.sum(axis=1, keepdims=True)
    cosine = probs / np.linalg.norm(probs, axis=1, keepdims=True)
    for kind, expected in (("softmax", probs), ("cosine", cosine), ("logits", logits.numpy())):
        actual = mask_representation(logits, kind, temperature)  # type: ignore[arg-type]
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["softmax", "cosine"])
@pytest.mark.parametrize("scale", [0.0, 1e4, -1e30])
def test_representations_of_extreme_rows_are_finite(kind: Representation, scale: float) -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0], [1.0, -1.0, 0.0]]) * scale
    assert torch.isfinite(mask_representation(logits, kind)).all()


# Equation 6


def test_cosine_similarity_is_that_of_scikit_learn(adj_norm: SparseOperator) -> None:
    pairwise = import_module("sklearn.metrics.pairwise")
    logits = torch.randn(300, 4, dtype=torch.float64)
    oracle = pairwise.cosine_similarity(torch.softmax(logits, dim=1).numpy())
    rows, cols = adj_norm.row_index.long(), adj_norm.col.long()
    actual = adj_norm.sample(mask_representation(logits, "cosine"))
    np.testing.assert_allclose(actual.numpy(), oracle[rows, cols], rtol=1e-12)
    torch.testing.assert_close(actual[rows == cols], torch.ones(300, dtype=torch.float64))


# Equation 7


@pytest.mark.parametrize("floor", [0.0, 0.3, 1.0])
def test_the_mask_is_the_dense_product(adj_norm: SparseOperator, h: Tensor, floor: float) -> None:
    adj_mask = mask_adjacency(adj_norm, h, floor=floor)
    factor = floor + (1 - floor) * (h.numpy() @ h.numpy().T)
    expected = adj_norm.to_dense().numpy() * factor
    np.testing.assert_allclose(adj_mask.to_dense().numpy(), expected, rtol=0, atol=1e-15)
    assert torch.equal(adj_mask.col, adj_norm.col)
    assert torch.equal(adj_mask.crow, adj_norm.crow)


def test_a_floor_of_one_or_equal_rows_switch_the_mask_off(
    adj_norm: SparseOperator, h: Tensor
) -> None:
    equal = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64).repeat(300, 1)
    for masked in (mask_adjacency(adj_norm, h, floor=1.0), mask_adjacency(adj_norm, equal)):
        assert torch.equal(masked.values, adj_norm.values)


def test_one_hot_rows_cut_edges_between_classes(
    small_graph: Graph, adj_norm: SparseOperator
) -> None:
    h = torch.nn.functional.one_hot(small_graph.y, 4).double()
    y, rows = small_graph.y, adj_norm.row_index
    same = y[rows] == y[adj_norm.col]
    assert torch.equal(mask_adjacency(adj_norm, h).values, adj_norm.values * same)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_renaming_nodes_renames_the_mask(
    adj_norm: SparseOperator, h: Tensor, kind: MaskNormalization
) -> None:
    order = torch.randperm(300)
    renamed = operator(adj_norm.to_dense()[order][:, order])
    actual = renormalize_mask(mask_adjacency(renamed, h[order]), kind).to_dense()
    expected = renormalize_mask(mask_adjacency(adj_norm, h), kind).to_dense()[order][:, order]
    torch.testing.assert_close(actual, expected)


# Normalisation of the mask


def test_renormalised_masks_are_the_dense_formulas(adj_norm: SparseOperator, h: Tensor) -> None:
    adj_mask = mask_adjacency(adj_norm, h)
    dense = adj_mask.to_dense().numpy()
    mass = dense.sum(axis=1)
    row = dense / mass[:, None]
    sym = dense / np.sqrt(mass[:, None] * mass[None, :])
    for kind, expected in (("none", dense), ("row", row), ("sym", sym)):
        actual = renormalize_mask(adj_mask, kind)  # type: ignore[arg-type]
        np.testing.assert_allclose(actual.to_dense().numpy(), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
@pytest.mark.parametrize("value", [0.0, 1e-42])
def test_rows_without_mass_never_give_nan(kind: MaskNormalization, value: float) -> None:
    crow, col = torch.tensor([0, 2, 4, 4]), torch.tensor([0, 1, 0, 1])
    values = torch.tensor([value, value, value, 3.0])  # row 2 is not stored at all
    adj_mask = operator(csr_tensor(crow, col, values, 3))
    dense = renormalize_mask(adj_mask, kind).to_dense()
    assert torch.isfinite(dense).all()
    assert dense[2].tolist() == [0, 0, 0]
    assert dense[0, 0].item() == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("kind", ["row", "sym"])
def test_negative_weights_are_never_renormalised(
    adj_norm: SparseOperator, h: Tensor, kind: MaskNormalization
) -> None:
    adj_mask = mask_adjacency(adj_norm, h - 0.25)  # as logits as representation would give
    with pytest.raises(ValueError, match=f"`kind`='{kind}' needs a mask without negative weights"):
        renormalize_mask(adj_mask, kind)
    assert renormalize_mask(adj_mask, "none") is adj_mask


# Memory


LARGE_GRAPH = """
import resource
import torch
from pamt_lightning.functional import *
from pamt_lightning.kernels.csr import csr_tensor
from pamt_lightning.kernels.operator import SparseOperator
torch.set_num_threads(1)
n, steps = 200_000, torch.tensor([1, 38, 977, 4_021, 35_353])  # to five nodes on either side
col = (torch.arange(n)[:, None] + torch.cat([steps, -steps])).remainder(n).sort(dim=1).values
col, crow = col.flatten().int(), torch.arange(0, 10 * n + 1, 10, dtype=torch.int32)
adjacency = csr_tensor(crow, col, torch.ones(10 * n), n)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
adj_norm = normalize_adjacency(SparseOperator.from_csr(adjacency))
h = mask_representation(torch.randn(n, 8, generator=torch.Generator().manual_seed(0)))
adj_mask = renormalize_mask(mask_adjacency(adj_norm, h), "sym")
labelled = torch.arange(n) % 8, torch.arange(0, n, 200)
y = propagate_labels(adj_mask, *labelled, 8, num_steps=10, alpha=0.1, reset=True)
assert torch.isfinite(y).all() and (y.sum(1) > 0).float().mean() > 0.99
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(before // 1024, after // 1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report peak memory")
def test_mask_and_propagation_of_a_million_edges_stay_far_below_n_squared() -> None:
    command = [sys.executable, "-W", "ignore", "-c", LARGE_GRAPH]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    before, after = map(int, run.stdout.split())
    # n x n would be 160,000 MB; gathering both ends of all edges at once would take 250 MB more.
    assert after < 1500
    assert after - before < 180
