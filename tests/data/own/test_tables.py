from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pamt_lightning.data.own.tables import read_csv_folder
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.errors import InputError
from pamt_lightning.interop.edges import adjacency_of
from tests.data.store.graphs import as_array, assert_same

NODES = "id,age,label,height\na,1,cat,0.5\nb,2,,0.25\nc,3,ant,-4e2\nd,0,cat,7\n"
EDGES = "source,target\na,b\nb,c\n"


def read(folder: Path, nodes: str | bytes = NODES, edges: str | bytes = EDGES) -> RawGraph:
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_csv_folder(folder)


def message(folder: Path, nodes: str | bytes = NODES, edges: str | bytes = EDGES) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, nodes, edges)
    return str(caught.value).replace(str(folder), "DIR")


def test_ids_labels_and_features_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    expected = RawGraph(
        adjacency=adjacency_of(np.array([0, 1]), np.array([1, 2]), 4),
        features=np.array([[1, 0.5], [2, 0.25], [3, -400], [0, 7]], dtype=np.float32),
        labels=np.array([1, -1, 0, 1]),
        node_ids=np.array(["a", "b", "c", "d"]),
        class_names=("ant", "cat"),
        feature_names=("age", "height"),
    )
    assert_same(read(tmp_path), expected)


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (NODES, "target,source\nb,a\na,b\na,b\nc,c\nb,c\n"),
        (NODES.replace(",", ";"), EDGES.replace(",", "\t")),
        # A byte order mark, line ends of Windows and blank lines.
        ("\ufeff" + NODES.replace("\n", "\r\n\r\n"), "\ufeff" + EDGES),
    ],
)
def test_the_same_graph_may_be_written_differently(tmp_path: Path, nodes: str, edges: str) -> None:
    assert_same(read(tmp_path, nodes, edges), read(tmp_path))


def test_ids_of_any_kind_are_kept_as_written(tmp_path: Path) -> None:
    ids = ["007", "é x", "a,b", 'say "hi"', "1e3"]
    quoted = ['"' + i.replace('"', '""') + '"' for i in ids]
    nodes = "id,f\n" + "".join(f"{i},1\n" for i in quoted)
    raw = read(tmp_path, nodes, f"source,target\n007,{quoted[2]}\n{quoted[3]},1e3\n")
    assert raw.node_ids.tolist() == ids
    assert np.argwhere(raw.adjacency.toarray()).tolist() == [[0, 2], [2, 0], [3, 4], [4, 3]]


@pytest.mark.parametrize("nodes", ["id,f\na,1\nb,2\nc,3\n", "id,label,f\na,,1\nb, ,2\nc,,3\n"])
def test_a_graph_without_any_label_has_no_classes(tmp_path: Path, nodes: str) -> None:
    raw = read(tmp_path, nodes)
    assert raw.labels.tolist() == [-1, -1, -1]
    assert raw.class_names == ()


@pytest.mark.parametrize("ones", [24, 25])
def test_many_chunks_give_the_same_graph_as_one(
    ones: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).permutation(np.arange(100) < ones).reshape(20, 5).astype(int)
    rows = "".join(f"{i},{','.join(map(str, row))}\n" for i, row in enumerate(values))
    table = "id,a,b,c,d,e\n" + rows, "source,target\n0,1\n5,19\n3,7\n"
    expected = read(tmp_path, *table)
    np.testing.assert_array_equal(as_array(expected.features), values)
    monkeypatch.setattr("pamt_lightning.data.own.tables._CELLS_PER_CHUNK", 12)
    assert_same(read(tmp_path, *table), expected)
    # A defect in a late chunk is found on its own line, blank lines and quoted breaks counted.
    bad = 'id,f,label\na,1,x\n\n"b\nb",2,x\nc,3,x\nd,4,x\ne,oops,x\n'
    assert message(tmp_path, bad).startswith("DIR/nodes.csv, line 8: column `f` holds 'oops'")


NODE_DEFECTS: dict[str, tuple[str | bytes, int, str]] = {
    "an empty file": ("", 1, "empty"),
    "a missing id column": ("name,f\na,1\n", 1, "no column `id` (it has: name, f)"),
    "no rows": ("id,f\n", 2, "no row"),
    "no feature column": ("id,label\na,x\n", 1, "no feature column"),
    "a column without name": (",id,f\n0,a,1\n", 1, "column 1 of the header has no name"),
    "a column twice": ("id,f,f\na,1,2\n", 1, "column `f` twice"),
    "a short row": ("id,f,g\na,1,2\nb,1\n", 3, "2 cells, but the header has 3 columns"),
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
    "not UTF-8": (NODES.encode() + b"caf\xe9,1\n", 6, "not UTF-8"),
}
EDGE_DEFECTS: dict[str, tuple[str | bytes, int, str]] = {
    "an empty file": ("", 1, "empty"),
    "a missing column": ("source,to\na,b\n", 1, "no column `target` (it has: source, to)"),
    "a weight": ("source,target,weight\na,b,2\n", 1, "there is also `weight`"),
    "no edges": ("source,target\n", 2, "no edges"),
    "only self-loops": ("source,target\na,a\nb,b\n", 2, "two different nodes in 2 rows"),
    "an unknown source": ("source,target\na,b\nx,b\ny,z\n", 3, "the source 'x' is not an `id`"),
    "an unknown target": ("source,target\na,b\na,y\n", 3, "the target 'y' is not an `id`"),
    "a space before an id": ("source,target\na, b\n", 2, "remove them"),
    "not UTF-8 far below": (EDGES.encode() + b"a,b\n" * 3000 + b"\xe9,b\n", 3004, "not UTF-8"),
}
DEFECTS = {"nodes": NODE_DEFECTS, "edges": EDGE_DEFECTS}


@pytest.mark.parametrize(
    ("file", "name"), [(file, name) for file, defects in DEFECTS.items() for name in defects]
)
def test_each_defect_is_reported_with_file_and_line(tmp_path: Path, file: str, name: str) -> None:
    content, line, part = DEFECTS[file][name]
    text = message(tmp_path, **{file: content})
    assert text.startswith(f"DIR/{file}.csv, line {line}: ")
    assert part in text
