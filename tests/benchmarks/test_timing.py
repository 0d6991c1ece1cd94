from __future__ import annotations

import pytest

from pamt_lightning.benchmarks import timing
from pamt_lightning.benchmarks.timing import compare, sides_with_copy


def test_the_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    first, second = iter([1.0, 2.0, 4.0]), iter([3.0, 2.0, 8.0])
    row = compare("x", {"a": lambda: next(first), "b": lambda: next(second)}, 3)
    assert row.ratio == 2.0
    assert row.spread == (1.0, 3.0)
    assert dict(row.seconds) == {"a": 2.0, "b": 3.0}


def test_the_time_of_a_copy_is_proportional_to_the_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing, "COPIED", 1 << 20)
    few, many = (sides_with_copy(lambda: None, count)["its bytes"] for count in (1e6, 1e9))
    assert few() < 0.1 * many()
