from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.errors import InputError
from pamt_lightning.interop.edges import (
    Opposite,
    Repeated,
    adjacency_of,
    id_array,
    positions_of,
    undirected_graph,
)


def test_direction_repetition_and_self_loops_of_edges_do_not_matter() -> None:
    found = adjacency_of(np.array([1, 0, 0, 2, 1]), np.array([0, 1, 1, 2, 2]), 4)
    expected = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert found.toarray().tolist() == expected
    assert found.has_canonical_format
    assert found.dtype == np.float32


def matrix(*edges: tuple[int, int, float]) -> sp.coo_array:
    row, col, weight = zip(*edges, strict=True)
    return sp.coo_array((np.array(weight, dtype=float), (row, col)), shape=(4, 4))


# 0-1 three times in one direction and once back, 1-2 in one, a self-loop, an edge of weight 0.
EDGES = matrix(
    (0, 1, 2.0), (0, 1, 3.0), (0, 1, 1.0), (1, 0, 4.0), (1, 2, 5.0), (3, 3, 9.0), (2, 3, 0.0)
)


@pytest.mark.parametrize(
    ("repeated", "opposite", "first", "second"),
    [
        ("sum", "max", 6.0, 5.0),
        ("max", "max", 4.0, 5.0),
        ("count", "max", 3.0, 1.0),
        ("ignore", "max", 1.0, 1.0),
        ("sum", "sum", 10.0, 5.0),
        ("max", "sum", 7.0, 5.0),
        ("count", "sum", 4.0, 1.0),
        ("ignore", "sum", 1.0, 1.0),
    ],
)
def test_repeated_and_opposite_edges_are_combined_as_asked(
    repeated: Repeated, opposite: Opposite, first: float, second: float
) -> None:
    found, report = undirected_graph(EDGES, repeated, opposite)
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = first
    expected[1, 2] = expected[2, 1] = second
    assert found.toarray().tolist() == expected.tolist()
    assert found.has_canonical_format
    assert (report.rows, report.loops, report.zeros, report.repeated) == (7, 1, 1, 2)
    assert (report.one_way, report.edges) == (1, 2)
    assert report.is_weighted == (first != second)


@pytest.mark.parametrize("opposite", ["max", "sum"])
def test_an_undirected_graph_is_the_same_listed_in_one_direction_or_in_both(
    opposite: Opposite,
) -> None:
    both = matrix((0, 1, 2.0), (1, 0, 2.0), (2, 1, 3.0), (1, 2, 3.0))
    one = matrix((0, 1, 2.0), (2, 1, 3.0))
    found = undirected_graph(both, "sum", opposite)[0]
    assert np.array_equal(found.toarray(), undirected_graph(one, "sum", opposite)[0].toarray())
    again = undirected_graph(found, "sum", opposite)[0]
    assert np.array_equal(found.toarray(), again.toarray())


def test_the_report_says_what_was_found() -> None:
    text = str(undirected_graph(EDGES)[1])
    assert text == (
        "2 undirected weighted edges from 7 rows "
        "(1 self-loops dropped, 1 of weight 0 dropped, 2 repeated)"
    )
    assert str(undirected_graph(matrix((0, 1, 1.0)))[1]) == "1 undirected edges from 1 rows"


@pytest.mark.parametrize(("weight", "got"), [(-1.0, "-1.0"), (np.nan, "nan"), (np.inf, "inf")])
def test_weights_must_be_finite_and_not_negative(weight: float, got: str) -> None:
    with pytest.raises(InputError, match=f"got {got} for the edge from node 1 to 2"):
        undirected_graph(matrix((0, 1, 1.0), (1, 2, weight)))
    with pytest.raises(InputError, match=r"at most 3.4e38"):
        undirected_graph(matrix((0, 1, 3e38), (0, 1, 3e38)))


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([3, 1], "i"),
        (["a", "b"], "U"),
        ([("a", 1), ("b", 2)], "O"),
        ([1, "a"], "O"),
        ([2**70], "O"),
    ],
)
def test_ids_of_any_kind_are_kept(ids: list[Any], kind: str) -> None:
    found = id_array(ids)
    assert found.dtype.kind == kind
    assert found.shape == (len(ids),)
    assert found.tolist() == ids
    assert positions_of(id_array(ids[::-1]), found, "X").tolist() == list(range(len(ids)))[::-1]


@pytest.mark.parametrize(
    ("ids", "nodes", "got"),
    [([0, 5], [0, 1, 2], "got 5"), (["c"], ["a", "b"], "got 'c'"), ([1], ["1"], "got 1 .*'1'")],
)
def test_an_unknown_id_is_named(ids: list[Any], nodes: list[Any], got: str) -> None:
    with pytest.raises(InputError, match=f"^Ends must be among the nodes, {got}"):
        positions_of(id_array(ids), id_array(nodes), "Ends")
