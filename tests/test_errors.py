from __future__ import annotations

import math
import re
from typing import Any

import pytest

from pamt_lightning.errors import (
    CheckpointError,
    InputError,
    did_you_mean,
    error_context,
    require_in,
)


def test_only_a_close_word_is_suggested() -> None:
    assert did_you_mean("modle", ["data", "model"]) == " Did you mean 'model'?"
    assert did_you_mean("nothing like it", ["data", "model"]) == did_you_mean(3, []) == ""


def test_the_source_is_put_in_front_of_input_errors_only() -> None:
    with pytest.raises(InputError, match=r"^a\.yaml: lr is wrong\.$"), error_context("a.yaml"):
        raise CheckpointError("lr is wrong.")
    with pytest.raises(InputError, match=r"^lr is wrong\.$"), error_context(""):
        raise CheckpointError("lr is wrong.")
    with pytest.raises(ZeroDivisionError, match="x"), error_context("a.yaml"):
        raise ZeroDivisionError("x")


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("[0, 1]", [0, 0.5, 1], [-0.1, 1.1, math.nan, True, "0.3", None]),
        ("(0, 1)", [0.5], [0, 1]),
        ("[2, inf)", [2, 1e9], [1.9, math.inf]),
        ("(2, inf]", [math.inf], [2]),
    ],
)
def test_a_number_outside_its_interval_is_reported(
    interval: str, inside: list[Any], outside: list[Any]
) -> None:
    for value in inside:
        require_in(interval, rate=value)
    for value in outside:
        message = re.escape(f"`rate` must be a number in {interval}, got {value!r}.")
        with pytest.raises(InputError, match=message):
            require_in(interval, other=inside[0], rate=value)


@pytest.mark.parametrize("value", [1.0, 1.5, True, "1", None, 3])
def test_a_whole_number_may_be_required(value: Any) -> None:
    require_in("[0, 2]", whole=True, seed=2)
    with pytest.raises(InputError, match=re.escape(f"whole number in [0, 2] (two), got {value!r}")):
        require_in("[0, 2]", whole=True, note=" (two)", seed=value)
