from __future__ import annotations

import math

import pytest
import torch

from pamt_lightning.kernels.dropout import dropout, relu_dropout


@pytest.mark.parametrize("rate", [1e-9, 0.9999999])
def test_dropout_at_the_ends_of_its_range_stays_finite(rate: float) -> None:
    torch.manual_seed(0)
    out = dropout(torch.ones(100_001), rate, training=True)  # not a multiple of four
    assert torch.isfinite(out).all()
    kept = (out != 0).float().mean().item()
    assert kept == 1.0 if rate < 0.5 else kept < 1e-3


@pytest.mark.parametrize("cuts", [[0], [4], [1, 2, 7], [5, 5, 400], [399]])
def test_parts_drop_together_what_the_whole_would(cuts: list[int]) -> None:
    whole = torch.ones(401)
    torch.manual_seed(3)
    expected, after = dropout(whole, 0.4, training=True), torch.get_rng_state()
    found = []
    for first, part in zip([0, *cuts], whole.tensor_split(cuts), strict=True):
        torch.manual_seed(3)
        found.append(dropout(part, 0.4, training=True, first=first))
        assert torch.equal(torch.get_rng_state(), after)
    assert torch.equal(torch.cat(found), expected)
    assert not torch.equal(dropout(whole, 0.4, training=True), expected)  # the next draw


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("training", [False, True])
def test_relu_dropout_is_relu_and_then_dropout(rate: float, training: bool) -> None:
    x = torch.randn(31, 7, dtype=torch.float64)
    upstream = torch.randn(31, 7, dtype=torch.float64)
    results = []
    for fused in (True, False):
        torch.manual_seed(5)
        leaf = x.clone().requires_grad_()
        if fused:
            out, scale = relu_dropout(leaf * 1, rate, training, first=3)
            out = scale * out
        else:
            out = dropout(torch.relu(leaf), rate, training, first=3)
        (grad,) = torch.autograd.grad(out, leaf, upstream)
        results.append((out.detach(), grad, torch.get_rng_state()))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-14, atol=0)
    if rate and training:
        assert (results[0][0] == 0).double().mean() > 0.6


def test_rectifier_and_dropout_overwrite_their_argument() -> None:
    x = torch.randn(8, 4)
    assert relu_dropout(x, 0.5, True)[0] is x


def test_draws_of_different_seeds_are_independent() -> None:
    """All come from one stream: its stretches must agree no more than by chance."""
    draws = []
    for seed in range(4):
        torch.manual_seed(seed)
        draws += [dropout(torch.ones(200_000), 0.5, True) > 0 for _ in range(3)]
    bound = 5 * 0.5 / math.sqrt(200_000)
    for i, one in enumerate(draws):
        assert abs(one.double().mean() - 0.5) < bound
        for other in draws[:i]:
            for lag in (0, 1, 4):
                agree = (one[lag:] == other[: len(other) - lag]).double().mean()
                assert abs(agree - 0.5) < bound
