from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph
from pamt_lightning.interop.frames import arrays_from_frames

NODES = pd.DataFrame(
    {
        "node_id": ["a", "b", "c"],
        "class": ["x", None, "y"],
        "age": [1, 2, 3],
        "tall": [True, False, True],
    }
)
EDGES = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "Weight": [2.0, 1.0]})


def test_columns_with_common_names_are_recognised_and_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    graph = Graph.from_pandas(NODES, EDGES)
    assert graph.feature_names == ("age", "tall")
    assert graph.x.tolist() == [[1, 1], [2, 0], [3, 1]]
    assert graph.labels.tolist() == ["x", None, "y"]
    assert graph.adjacency.to_dense().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert capsys.readouterr().out == (
        "ids from `node_id`; labels from `class`; attributes from `age`, `tall`; "
        "edges from `from` and `to`; weights from `Weight`; "
        "2 undirected weighted edges from 2 rows\n"
    )


def test_columns_can_be_named_and_then_nothing_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes = NODES.rename(columns={"node_id": "key", "class": "kind"})
    edges = EDGES.rename(columns={"from": "p", "to": "q", "Weight": "times"})
    names = {"id": "key", "label": "kind", "source": "p", "target": "q", "weight": "times"}
    graph = Graph.from_pandas(nodes, edges, **names, features=["age"])  # type: ignore[arg-type]
    assert graph.x.tolist() == [[1], [2], [3]]
    assert graph.is_weighted
    assert not capsys.readouterr().out


def test_the_index_has_the_ids_if_no_column_does() -> None:
    arrays, taken = arrays_from_frames(NODES.set_index("node_id"), EDGES)
    assert arrays.node_ids.tolist() == ["a", "b", "c"]
    assert taken.startswith("ids from the index;")


def test_a_table_of_edges_is_enough() -> None:
    graph = Graph.from_pandas(None, EDGES)
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert graph.feature_names[0] == "log_degree"


def test_columns_of_all_kinds_are_encoded_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = NODES.assign(age=[1.0, np.nan, 2.0], kind=["u", "v", "u"])
    graph = Graph.from_pandas(nodes, EDGES)
    assert graph.feature_names == ("age", "age=missing", "tall", "kind=u", "kind=other")
    assert "`age` number, missing: median and a column; `kind` 1 cat" in capsys.readouterr().out
    assert graph.table is not None
    text = Graph.from_pandas(nodes, EDGES, kinds={"age": "category"})
    assert text.feature_names[:2] == ("age=1", "age=2")


def test_sparse_columns_stay_sparse() -> None:
    words: Any = pd.DataFrame.sparse
    table = words.from_spmatrix(sp.eye_array(3, format="csr"), columns=["u", "v", "w"])
    arrays, _ = arrays_from_frames(pd.concat([NODES[["node_id"]], table], axis=1), EDGES)
    assert sp.issparse(arrays.features)


def test_the_tables_of_a_graph_make_the_same_graph() -> None:
    graph = Graph.from_pandas(NODES, EDGES)
    nodes, edges = graph.to_pandas()
    assert list(nodes.columns) == ["node_id", "label", "age", "tall"]
    assert edges.to_dict("list") == {"source": ["a", "b"], "target": ["b", "c"], "weight": [2, 1]}
    again = Graph.from_pandas(nodes, edges)
    assert np.array_equal(again.x.numpy(), graph.x.numpy())
    assert again.labels.tolist() == graph.labels.tolist()
    assert again.adjacency.to_dense().tolist() == graph.adjacency.to_dense().tolist()
    sparse = Graph.from_scipy(sp.eye_array(3, format="csr"), np.ones((3, 3)))
    nodes, edges = sparse.to_pandas()
    assert list(nodes.columns)[2:] == ["feature_0", "feature_1", "feature_2"]
    assert "weight" not in edges


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (NODES, EDGES.rename(columns={"to": "end"}), "no column `target`: name it"),
        (NODES, EDGES.assign(to=np.array(["b", None])), "`edges`, row 1: `to` is missing"),
        (NODES.assign(node_id=np.array(["a", None, "c"])), EDGES, "missing ids"),
        (NODES.assign(age=[1.0, np.inf, 2.0]), EDGES, "column `age` holds numbers that are inf"),
        (NODES, EDGES.assign(to=["b", "z"]), "among the nodes, got 'z'"),
    ],
)
def test_defects_are_named(nodes: pd.DataFrame, edges: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        arrays_from_frames(nodes, edges)
    with pytest.raises(InputError, match="no column 'size'"):
        arrays_from_frames(NODES, EDGES, features=["size"])
