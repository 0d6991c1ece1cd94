from __future__ import annotations

import numpy as np
import pytest

from pamt_lightning.data.raw import adjacency_of, number_labels, pack_features, sort_class_names


def test_direction_repetition_and_self_loops_of_edges_do_not_matter() -> None:
    found = adjacency_of(np.array([1, 0, 0, 2, 1]), np.array([0, 1, 1, 2, 2]), 4)
    expected = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert found.toarray().tolist() == expected
    assert found.has_canonical_format
    assert found.dtype == np.float32


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


@pytest.mark.parametrize(("ones", "is_sparse"), [(24, True), (25, False)])
def test_features_are_sparse_below_a_quarter_of_non_zeros(ones: int, is_sparse: bool) -> None:
    values = (np.arange(100) < ones).reshape(20, 5)
    packed = pack_features(values)
    assert hasattr(packed, "toarray") == is_sparse
    assert packed.dtype == np.float32
