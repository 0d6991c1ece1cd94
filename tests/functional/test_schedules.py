from __future__ import annotations

import math
from itertools import pairwise

import pytest

from pamt_lightning.functional import adaptive_gamma, rising_weight_decay


def test_gamma_grows_as_the_logarithm_of_the_epochs() -> None:
    for epoch, epsilon in ((0, 100.0), (1, 100.0), (250, 100.0), (30, 7.0)):
        expected = math.log(1 + epoch / epsilon)
        assert adaptive_gamma(epoch, epsilon) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("start", "end"), [(2e-4, 1e-2), (1.0, 1e-3), (0.5, 0.5)])
@pytest.mark.parametrize("num_epochs", [2, 7, 600])
def test_the_decay_goes_from_start_to_end_by_equal_factors_and_stays(
    start: float, end: float, num_epochs: int
) -> None:
    found = [rising_weight_decay(epoch, start, end, num_epochs) for epoch in range(num_epochs + 9)]
    assert found[0] == start
    factor = (end / start) ** (1 / (num_epochs - 1))
    for before, after in pairwise(found[:num_epochs]):
        assert after / before == pytest.approx(factor, rel=1e-12)
    assert found[num_epochs - 1 :] == pytest.approx([end] * 10, rel=1e-12)


def test_the_decay_of_a_single_epoch_is_the_last() -> None:
    assert rising_weight_decay(0, 0.1, 0.3, 1) == pytest.approx(0.3)
