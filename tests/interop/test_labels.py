from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pamt_lightning.errors import InputError
from pamt_lightning.interop.labels import encode_labels, number_labels, sort_class_names

NAN = float("nan")


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        (["10", "", "9", "-1"], ("-1", "9", "10"), [2, -1, 1, 0]),  # by number
        (["1", "01", "1"], ("01", "1"), [1, 0, 1]),  # two classes
        (["dog", "", "10"], ("10", "dog"), [1, -1, 0]),
    ],
)
def test_classes_are_numbered_in_the_order_of_their_names(
    labels: list[str], names: tuple[str, ...], numbers: list[int]
) -> None:
    assert sort_class_names(filter(None, labels)) == names
    assert number_labels(labels, names).tolist() == numbers


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        (["b", None, "a", "", " a "], ("a", "b"), [1, -1, 0, -1, 0]),
        ([3, -1, 10, 3], ("3", "10"), [0, -1, 1, 0]),
        ([3.0, NAN, 10.0], ("3", "10"), [0, -1, 1]),  # what pandas makes of missing integers
        ([True, False], ("False", "True"), [1, 0]),
        ([1, "1", None, -1, NAN], ("1",), [0, 0, -1, -1, -1]),
        (pd.Series(["x", pd.NA, "y"]), ("x", "y"), [0, -1, 1]),
        (pd.Categorical(["x", None, "y"]), ("x", "y"), [0, -1, 1]),
        (torch.tensor([[1], [0]]), ("0", "1"), [1, 0]),
        (np.array([b"x", b""]), ("x",), [0, -1]),
        ([], (), []),
        ([-1, -1], (), [-1, -1]),
    ],
)
def test_labels_of_any_kind_become_numbers(
    labels: Any, names: tuple[str, ...], numbers: list[int]
) -> None:
    found, classes = encode_labels(labels)
    assert classes == names
    assert found.tolist() == numbers
    assert found.dtype == np.int64


def test_with_class_names_whole_numbers_are_positions_and_texts_are_names() -> None:
    assert encode_labels([1, -1], ["b", "a"])[0].tolist() == [1, -1]
    assert encode_labels(["a", None, "b"], ["b", "a"])[0].tolist() == [1, -1, 0]
    with pytest.raises(InputError, match=r"positions from 0 to 1 .* got 2"):
        encode_labels([2], ["b", "a"])
    with pytest.raises(InputError, match=r"'c', which is not a class name \(b, a\)"):
        encode_labels(["c"], ["b", "a"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5], "classes, got numbers with a fraction"),
        ([float("inf")], "fraction or infinite"),
        ([-2], "0 and more, got -2"),
        (np.zeros((2, 2), dtype=int), r"one label per node, got shape \(2, 2\)"),
        (np.array(["2026-01-01"], dtype="M8[D]"), "numbers or texts"),
    ],
)
def test_what_is_no_label_is_refused(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_labels(labels)
