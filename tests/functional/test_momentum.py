from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from pamt_lightning.functional import blend_soft_labels


@pytest.mark.parametrize("momentum", [0.1, 0.25, 0.5, 0.99])
def test_the_update_is_equation_11(generator: torch.Generator, momentum: float) -> None:
    old, new = torch.rand(2, 7, 3, generator=generator, dtype=torch.float64)
    expected = momentum * old.numpy() + (1 - momentum) * new.numpy()
    actual = blend_soft_labels(old, new, momentum)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-14)


def test_many_updates_forget_the_start_as_a_power_of_the_momentum() -> None:
    start, new = torch.ones(2, 2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)
    labels = start
    for _ in range(5):
        labels = blend_soft_labels(labels, new, 0.5)
    assert torch.equal(labels, start / 32)


def test_momentum_zero_replaces_the_labels(generator: torch.Generator) -> None:
    old = torch.full((4, 2), float("nan"))  # 0 * NaN would show
    new = torch.rand(4, 2, generator=generator)
    assert torch.equal(blend_soft_labels(old, new, 0.0), new)


def test_equal_labels_stay(generator: torch.Generator) -> None:
    labels = torch.rand(4, 2, generator=generator)
    torch.testing.assert_close(blend_soft_labels(labels, labels, 0.3), labels)


def test_neither_argument_is_modified(generator: torch.Generator) -> None:
    old, new = torch.rand(2, 4, 2, generator=generator)
    before = old.clone(), new.clone()
    blend_soft_labels(old, new, 0.5)
    assert torch.equal(old, before[0])
    assert torch.equal(new, before[1])


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 1.5, float("nan")])
def test_momentum_must_lie_in_its_range(momentum: float) -> None:
    message = f"`momentum` must lie in [0, 1), got {momentum}."
    with pytest.raises(ValueError, match=re.escape(message)):
        blend_soft_labels(torch.ones(1, 1), torch.ones(1, 1), momentum)


def test_shapes_must_agree() -> None:
    message = "`old` and `new` must have one shape, got (3, 2) and (1, 2)."
    with pytest.raises(ValueError, match=re.escape(message)):
        blend_soft_labels(torch.ones(3, 2), torch.ones(1, 2), 0.5)
