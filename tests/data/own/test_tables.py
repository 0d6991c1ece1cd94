from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from pamt_lightning.data.own.read import read_own_graph
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.errors import InputError

NODES = "id,age,label,height\na,1,cat,0.5\nb,2,,0.25\nc,3,ant,-4e2\nd,0,cat,7\n"
EDGES = "source,target\na,b\nb,c\n"


def write(folder: Path, nodes: str | bytes = NODES, edges: str | bytes = EDGES) -> Path:
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return folder


def read(folder: Path, nodes: str | bytes = NODES, edges: str | bytes = EDGES) -> RawGraph:
    return read_own_graph(write(folder, nodes, edges))


def message(folder: Path, nodes: str | bytes = NODES, edges: str | bytes = EDGES) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, nodes, edges)
    return str(caught.value).replace(str(folder), "DIR")


def dense(raw: RawGraph) -> np.ndarray:
    features = raw.features
    return features.toarray() if isinstance(features, sp.csr_array) else features


def test_a_folder_becomes_a_graph_with_ids_labels_and_features_in_file_order(
    tmp_path: Path,
) -> None:
    raw = read(tmp_path)
    assert raw.node_ids.tolist() == ["a", "b", "c", "d"]
    assert raw.class_names == ("ant", "cat")
    assert raw.labels.tolist() == [1, -1, 0, 1]
    assert isinstance(raw.features, np.ndarray)
    assert raw.features.dtype == np.float32
    assert raw.features.tolist() == [[1, 0.5], [2, 0.25], [3, -400], [0, 7]]
    expected = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert raw.adjacency.toarray().tolist() == expected
    assert raw.hashes == {
        "nodes.csv": hashlib.sha256(NODES.encode()).hexdigest(),
        "edges.csv": hashlib.sha256(EDGES.encode()).hexdigest(),
    }


def test_direction_repetition_and_self_loops_of_edges_do_not_matter(tmp_path: Path) -> None:
    raw = read(tmp_path, edges="target,source\nb,a\na,b\na,b\nc,c\nb,c\n")
    assert raw.num_edges == 2
    assert raw.adjacency.toarray().tolist() == read(tmp_path).adjacency.toarray().tolist()


@pytest.mark.parametrize("separator", [";", "\t"])
def test_semicolon_and_tab_are_found_in_the_header(tmp_path: Path, separator: str) -> None:
    raw = read(tmp_path, NODES.replace(",", separator), EDGES.replace(",", separator))
    np.testing.assert_array_equal(dense(raw), dense(read(tmp_path)))


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_change_nothing(tmp_path: Path) -> None:
    expected = read(tmp_path)
    nodes = b"\xef\xbb\xbf" + NODES.replace("\n", "\r\n\r\n").encode()
    raw = read(tmp_path, nodes, b"\xef\xbb\xbf" + EDGES.encode())
    np.testing.assert_array_equal(dense(raw), dense(expected))
    assert raw.node_ids.tolist() == expected.node_ids.tolist()


def test_ids_of_any_kind_are_kept_as_written(tmp_path: Path) -> None:
    ids = ["007", "é x", "a,b", 'say "hi"', "1e3"]
    quoted = ['"' + i.replace('"', '""') + '"' for i in ids]
    nodes = "id,f\n" + "".join(f"{i},1\n" for i in quoted)
    raw = read(tmp_path, nodes, f"source,target\n007,{quoted[2]}\n{quoted[3]},1e3\n")
    assert raw.node_ids.tolist() == ids
    assert np.argwhere(raw.adjacency.toarray()).tolist() == [[0, 2], [2, 0], [3, 4], [4, 3]]


def test_class_names_that_are_integers_are_sorted_by_number(tmp_path: Path) -> None:
    nodes = "id,label,f\na,10,1\nb,9,1\nc,-1,1\n"
    raw = read(tmp_path, nodes)
    assert raw.class_names == ("-1", "9", "10")
    assert raw.labels.tolist() == [2, 1, 0]


@pytest.mark.parametrize("nodes", ["id,f\na,1\nb,2\nc,3\n", "id,label,f\na,,1\nb, ,2\nc,,3\n"])
def test_a_graph_without_any_label_has_no_classes(tmp_path: Path, nodes: str) -> None:
    raw = read(tmp_path, nodes)
    assert raw.labels.tolist() == [-1, -1, -1]
    assert raw.class_names == ()


@pytest.mark.parametrize(("ones", "is_sparse"), [(24, True), (25, False)])
def test_features_are_sparse_below_a_quarter_of_non_zeros(
    tmp_path: Path, ones: int, is_sparse: bool
) -> None:
    values = np.zeros(100, dtype=int)
    values[np.random.default_rng(0).permutation(100)[:ones]] = 1
    table = values.reshape(20, 5)
    header = "id,a,b,c,d,e\n"
    rows = "".join(f"{i},{','.join(map(str, row))}\n" for i, row in enumerate(table))
    raw = read(tmp_path, header + rows, "source,target\n0,1\n")
    assert isinstance(raw.features, sp.csr_array) == is_sparse
    assert raw.features.dtype == np.float32
    np.testing.assert_array_equal(dense(raw), table)


def test_many_chunks_give_the_same_graph_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(tmp_path)
    monkeypatch.setattr("pamt_lightning.data.own.tables._CELLS_PER_CHUNK", 4)
    raw = read(tmp_path)
    np.testing.assert_array_equal(dense(raw), dense(expected))
    np.testing.assert_array_equal(raw.labels, expected.labels)
    np.testing.assert_array_equal(raw.adjacency.toarray(), expected.adjacency.toarray())
    # A defect in a late chunk is found on its own line, blank lines and quoted breaks counted.
    bad = 'id,f,label\na,1,x\n\n"b\nb",2,x\nc,3,x\nd,oops,x\n'
    assert message(tmp_path, bad).startswith("DIR/nodes.csv, line 7: column `f` holds 'oops'")


NODE_DEFECTS = {
    "an empty file": ("", 1, "empty"),
    "a missing id column": ("name,f\na,1\n", 1, "no column `id` (it has: name, f)"),
    "no rows": ("id,f\n", 2, "no row"),
    "no feature column": ("id,label\na,x\n", 1, "no feature column"),
    "a column without name": (",id,f\n0,a,1\n", 1, "column 1 of the header has no name"),
    "a column twice": ("id,f,f\na,1,2\n", 1, "column `f` twice"),
    "a short row": ("id,f,g\na,1,2\nb,1\n", 3, "2 cells, but the header has 3 columns"),
    "a long row": ("id,f\na,1\nb,1,5\nc,1\n", 3, "3 cells, but the header has 2 columns"),
    "text as a feature": ("id,f,g\na,1,2\nb,1,red\n", 3, "column `g` holds 'red'"),
    "a decimal comma": ('id,f\na,1\nb,"1,5"\n', 3, "column `f` holds '1,5'"),
    "an underscore in a number": ("id,f\na,1\nb,1_2\n", 3, "column `f` holds '1_2'"),
    "an empty feature": ("id,f,g\na,1,2\nb,,2\n", 3, "column `f` holds ''"),
    "NaN": ("id,f\na,1\nb,nan\n", 3, "column `f` holds 'nan'"),
    "infinity": ("id,f\na,1\nb,-inf\n", 3, "column `f` holds '-inf'"),
    "beyond float32": ("id,f\na,1\nb,1e39\n", 3, "column `f` holds '1e39'"),
    "a repeated id": ("id,f\na,1\nb,2\na,3\na,4\n", 4, "'a' is used on line 2 already"),
    "an empty id": ("id,f\na,1\n ,2\n", 3, "`id` is empty"),
    "an open quote": ('id,f\na,1\n"b,2\nc,3\n', 3, "cannot be split into cells"),
}


@pytest.mark.parametrize("defect", NODE_DEFECTS)
def test_each_defect_of_nodes_csv_is_reported_with_file_and_line(
    tmp_path: Path, defect: str
) -> None:
    nodes, line, part = NODE_DEFECTS[defect]
    text = message(tmp_path, nodes)
    assert text.startswith(f"DIR/nodes.csv, line {line}: ")
    assert part in text


EDGE_DEFECTS = {
    "an empty file": ("", 1, "empty"),
    "a missing column": ("source,to\na,b\n", 1, "no column `target` (it has: source, to)"),
    "a weight": ("source,target,weight\na,b,2\n", 1, "there is also `weight`"),
    "no edges": ("source,target\n", 2, "no edges"),
    "only self-loops": (
        "source,target\na,a\nb,b\n",
        2,
        "no edges between two different nodes in 2 rows",
    ),
    "an unknown source": ("source,target\na,b\nx,b\ny,z\n", 3, "the source 'x' is not an `id`"),
    "an unknown target": ("source,target\na,b\na,y\n", 3, "the target 'y' is not an `id`"),
    "a space before an id": ("source,target\na, b\n", 2, "remove them"),
    "a ragged row": ("source,target\na,b\na\n", 3, "1 cells, but the header has 2 columns"),
    "an open quote": ('source,target\na,b\n"a,b\n', 3, "cannot be split into cells"),
}


@pytest.mark.parametrize("defect", EDGE_DEFECTS)
def test_each_defect_of_edges_csv_is_reported_with_file_and_line(
    tmp_path: Path, defect: str
) -> None:
    edges, line, part = EDGE_DEFECTS[defect]
    text = message(tmp_path, edges=edges)
    assert text.startswith(f"DIR/edges.csv, line {line}: ")
    assert part in text


@pytest.mark.parametrize("name", ["nodes", "edges"])
@pytest.mark.parametrize("padding", [0, 3000])
def test_text_that_is_not_utf8_is_reported_with_its_line(
    tmp_path: Path, name: str, padding: int
) -> None:
    content = {"nodes": NODES, "edges": EDGES + "a,b\n" * padding}
    lines = content[name].count("\n")
    if name == "nodes":
        lines += padding
        content["nodes"] += "".join(f"n{i},1,cat,1\n" for i in range(padding))
    files: dict[str, str | bytes] = {**content, name: content[name].encode() + b"caf\xe9,1\n"}
    text = message(tmp_path, **files)
    assert text.startswith(f"DIR/{name}.csv, line {lines + 1}: this is not UTF-8")


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_a_missing_file_of_the_folder_is_named(tmp_path: Path, name: str) -> None:
    (write(tmp_path) / name).unlink()
    with pytest.raises(InputError, match=rf"{name} is missing"):
        read_own_graph(tmp_path)


def test_a_path_that_is_not_there_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read_own_graph(tmp_path / "graph.npz")
    with pytest.raises(InputError, match=r"ends in '\.csv'. For CSV files give their folder"):
        read_own_graph(write(tmp_path) / "edges.csv")
