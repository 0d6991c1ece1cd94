from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pamt_lightning.data.raw import (
    RawGraph,
    check_distinct,
    check_positions,
    largest_component,
    not_utf8,
    renumber_classes,
    take_nodes,
)
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.interop.edges import adjacency_of

RAW = RawGraph(
    adjacency=adjacency_of(np.array([3, 1, 0]), np.array([1, 4, 2]), 5),
    features=np.arange(5, dtype=np.float32)[:, None],
    labels=np.array([0, 1, -1, 1, 0]),
    node_ids=np.array(list("abcde")),
    class_names=("x", "y"),
    given_splits={"train": np.array([0])},
)


def test_the_largest_component_keeps_order_and_drops_splits() -> None:
    found = largest_component(RAW)
    assert found.node_ids.tolist() == ["b", "d", "e"]
    assert found.adjacency.toarray().tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert np.asarray(found.features).tolist() == [[1], [3], [4]]
    assert found.labels.tolist() == [1, 1, 0]
    assert found.given_splits == {}
    assert largest_component(found) is found


def test_weights_stay_with_their_edges() -> None:
    weighted = RAW.adjacency.copy()
    weighted.data = np.where(weighted.data > 0, [2, 3, 2, 3, 5, 5], 0).astype(np.float32)
    symmetric = weighted.maximum(weighted.T).tocsr()
    found = take_nodes(replace(RAW, adjacency=symmetric), np.array([4, 1]))
    assert found.adjacency[0, 1] == symmetric[4, 1]


def test_classes_are_numbered_as_in_training() -> None:
    found = renumber_classes(RAW, ("w", "y", "x"), "mine")
    assert found.labels.tolist() == [2, 1, -1, 1, 2]
    with pytest.raises(CheckpointError, match=r"mine has class 'x', .*its classes: w, y"):
        renumber_classes(RAW, ("w", "y"), "mine")


def test_positions_are_whole_numbers_inside_the_graph() -> None:
    assert check_positions(np.array([2, 0], dtype=np.uint8), 3, "it").tolist() == [2, 0]
    for wrong, message in (
        (np.array([True, False]), r"got bool of shape \(2,\)"),
        (np.array([[1]]), r"with 1 dimension\(s\)"),
        (np.array([3, 5]), r"from 0 to 2, got 3 \(2 such"),
    ):
        with pytest.raises(InputError, match=f"^it must .*{message}"):
            check_positions(wrong, 3, "it")
    with pytest.raises(InputError, match="distinct, got 'a' more than once"):
        check_distinct(np.array(["a", "b", "a"]), "ids")


def test_the_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "text.csv"
    file.write_bytes("gut\nschön\n".encode() + b"sch\xf6n\n")
    assert str(not_utf8(file)).startswith(f"{file}, line 3: ")
