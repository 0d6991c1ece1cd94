from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from pamt_lightning.data.own.options import ReadOptions
from pamt_lightning.data.own.tables import find_table, read_tables
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.errors import InputError
from pamt_lightning.interop.columns import Columns
from pamt_lightning.interop.edges import adjacency_of
from tests.data.store.graphs import as_array, assert_same

NODES = "id,age,label,height\na,1,cat,0.5\nb,2,,0.25\nc,3,ant,-4e2\nd,0,cat,7\n"
EDGES = "source,target\na,b\nb,c\n"


def read(
    folder: Path,
    nodes: str | bytes = NODES,
    edges: str | bytes = EDGES,
    options: ReadOptions | None = None,
) -> RawGraph:
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_tables(folder / "nodes.csv", folder / "edges.csv", options or ReadOptions())


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
def test_numbers_are_sparse_if_few_differ_from_zero(ones: int, tmp_path: Path) -> None:
    values = np.random.default_rng(0).permutation(np.arange(100) < ones).reshape(20, 5).astype(int)
    rows = "".join(f"{i},{','.join(map(str, row))}\n" for i, row in enumerate(values))
    raw = read(tmp_path, "id,a,b,c,d,e\n" + rows, "source,target\n0,1\n5,19\n3,7\n")
    assert sp.issparse(raw.features) == (ones == 24)
    np.testing.assert_array_equal(as_array(raw.features), values)


def test_a_defect_is_found_on_its_line_with_blank_lines_and_quoted_breaks(tmp_path: Path) -> None:
    bad = 'id,f,label\na,1,x\n\n"b\nb",2,x\nc,3,x\nd,4,x\ne,oops,x\n'
    assert message(tmp_path, bad).startswith("DIR/nodes.csv, line 8: column `f` holds 'oops'")


def test_columns_of_all_kinds_become_attributes(tmp_path: Path) -> None:
    nodes = "Node ID,class,age,city\n" + "".join(
        f"{i},{'x' if i % 2 else ''},{'' if i == 3 else i},{'Rome' if i % 3 else 'Oslo'}\n"
        for i in range(12)
    )
    raw = read(tmp_path, nodes, "from,to,w,colour\n0,1,2,red\n1,2,1,blue\n1,0,2,red\n")
    assert raw.feature_names == (*("age", "age=missing", "city=Oslo", "city=Rome", "city=other"),)
    assert raw.notes == (
        "2 undirected weighted edges from 3 rows; columns not used: colour",
        "`age` number, missing: median and a column",
        "`city` 2 categories, rarer ones joined",
    )
    assert raw.adjacency[0, 1] == 2
    assert raw.labels.tolist() == [-1, 0] * 6


def test_options_name_columns_and_treat_edges(tmp_path: Path) -> None:
    nodes = "key,kind,zip,junk\na,x,10,1\nb,y,20,2\nc,x,10,3\nd,,20,4\n"
    edges = "p,q,times\na,b,2\na,b,3\nb,a,4\nb,c,0\nc,d,1\n"
    columns = Columns.parse(
        "id=key,label=kind,source=p,target=q,weight=times,category=zip,skip=junk"
    )

    def weight(**options: Any) -> float:
        raw = read(tmp_path, nodes, edges, ReadOptions(columns, **options))
        assert raw.feature_names == ("zip=10", "zip=20", "zip=other")
        assert raw.class_names == ("x", "y")
        assert raw.adjacency[1, 2] == 0 or not options.get("weights", True)
        return float(raw.adjacency[0, 1])

    assert weight() == 5
    assert weight(repeated="max") == 4
    assert weight(opposite="sum") == 9
    assert weight(repeated="count") == 2
    assert weight(weights=False) == 1
    assert weight(weights=False, repeated="count") == 2


@pytest.mark.parametrize("ending", ["tsv", "csv.gz", "tsv.gz", "parquet"])
def test_files_of_all_formats_hold_the_same_graph(ending: str, tmp_path: Path) -> None:
    expected = read(tmp_path)
    (tmp_path / "other").mkdir()
    for name in ("nodes", "edges"):
        frame = pd.read_csv(tmp_path / f"{name}.csv", keep_default_na=False)
        file = tmp_path / "other" / f"{name}.{ending}"
        if ending == "parquet":
            frame.to_parquet(file)
        else:
            frame.to_csv(file, sep="\t" if "tsv" in ending else ",", index=False)
        assert find_table(tmp_path / "other", name) == file
    nodes, edges = (tmp_path / "other" / f"{name}.{ending}" for name in ("nodes", "edges"))
    assert_same(read_tables(nodes, edges, ReadOptions()), expected)


def test_ids_that_are_whole_numbers_stay_so_in_parquet_files(tmp_path: Path) -> None:
    ids = np.array([30, 10, 20])
    pd.DataFrame({"id": ids, "f": [1.0, 2, 3]}).to_parquet(tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\n10,30\n20,10\n")
    raw = read_tables(tmp_path / "nodes.parquet", tmp_path / "edges.csv", ReadOptions())
    assert raw.node_ids.tolist() == [30, 10, 20]
    assert np.argwhere(np.triu(raw.adjacency.toarray())).tolist() == [[0, 1], [1, 2]]
    pd.DataFrame({"id": ids[[0, 0, 1]]}).to_parquet(tmp_path / "nodes.parquet")
    with pytest.raises(InputError, match=r"parquet, row 2: the `id` 30 is used on row 1"):
        read_tables(tmp_path / "nodes.parquet", tmp_path / "edges.csv", ReadOptions())
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="is not a readable Parquet file"):
        read_tables(tmp_path / "nodes.parquet", tmp_path / "edges.csv", ReadOptions())


def test_edges_alone_are_a_graph(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\nb,a\nc,b\n")
    raw = read_tables(None, tmp_path / "edges.csv", ReadOptions())
    assert raw.node_ids.tolist() == ["a", "b", "c"]
    assert raw.feature_names[:2] == ("log_degree", "log_neighbour_degree")
    assert "no attributes" in raw.notes[1]
    nodes = "id,label\nc,x\na,y\nb,\n"
    raw = read(tmp_path, nodes, "source,target\nb,a\nc,b\n")
    assert raw.feature_names[0] == "log_degree"
    assert raw.labels.tolist() == [0, 1, -1]


def test_two_files_of_one_table_are_refused(tmp_path: Path) -> None:
    read(tmp_path)
    (tmp_path / "nodes.tsv").write_text("id\n")
    with pytest.raises(InputError, match=r"there are nodes\.csv and nodes\.tsv"):
        find_table(tmp_path, "nodes")
    assert find_table(tmp_path, "other") is None


NODE_DEFECTS: dict[str, tuple[str | bytes, int, str]] = {
    "an empty file": ("", 1, "empty"),
    "a missing id column": ("name,f\na,1\n", 1, "no column `id` (it has: name, f)"),
    "no rows": ("id,f\n", 2, "no row"),
    "a column without name": (",id,f\n0,a,1\n", 1, "column 1 of the header has no name"),
    "a column twice": ("id,f,f\na,1,2\n", 1, "column `f` twice"),
    "a short row": ("id,f,g\na,1,2\nb,1\n", 3, "2 cells, but the header has 3 columns"),
    "text among numbers": ("id,f,g\na,1,2\nb,1,red\nc,1,1\n", 3, "column `g` holds 'red'"),
    "a decimal comma": ('id,f\na,1\nb,"1,5"\nc,2\n', 3, "column `f` holds '1,5'"),
    "an underscore in a number": ("id,f\na,1\nb,1_2\nc,2\n", 3, "column `f` holds '1_2'"),
    "a long row": ("id,f\na,1\nb,1,2\nc,2\n", 3, "3 cells, but the header has 2 columns"),
    "only long rows": ("id,f\na,1,2\nb,1,2\n", 2, "3 cells, but the header has 2 columns"),
    "infinity": ("id,f\na,1\nb,-inf\n", 3, "column `f` holds -inf"),
    "beyond float32": ("id,f\na,1\nb,1e39\n", 3, "column `f` holds 1e+39"),
    "a repeated id": ("id,f\na,1\nb,2\na,3\na,4\n", 4, "'a' is used on line 2 already"),
    "an empty id": ("id,f\na,1\n ,2\n", 3, "`id` is empty"),
    "an open quote": ('id,f\na,1\n"b,2\nc,3\n', 3, "cannot be split into cells"),
    "not UTF-8": (NODES.encode() + b"caf\xe9,1\n", 6, "not UTF-8"),
}
EDGE_DEFECTS: dict[str, tuple[str | bytes, int, str]] = {
    "an empty file": ("", 1, "empty"),
    "a missing column": ("source,end\na,b\n", 1, "no column `target` (it has: source, end)"),
    "a weight that is none": ("source,target,weight\na,b,2\nb,c,x\n", 3, "the weight is 'x'"),
    "a negative weight": ("source,target,weight\na,b,2\nb,c,-1\n", 3, "the weight is -1"),
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


@pytest.mark.parametrize("labels", [[0.0, None, 1.0], [0, -1, 1], ["0", None, "1"], [0, None, 1]])
def test_labels_of_a_parquet_file_may_be_of_any_kind(labels: list[Any], tmp_path: Path) -> None:
    kind = "Int64" if labels == [0, None, 1] else None
    column = pd.Series(labels, dtype=kind) if kind else labels
    pd.DataFrame({"id": [1, 2, 3], "label": column}).to_parquet(tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    raw = read_tables(tmp_path / "nodes.parquet", tmp_path / "edges.csv", ReadOptions())
    assert raw.class_names == ("0", "1")
    assert raw.labels.tolist() == [0, -1, 1]


def test_ids_that_pandas_stored_as_the_index_are_found(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "f": [1.0, 2.0]}).set_index("id")
    frame.to_parquet(tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    raw = read_tables(tmp_path / "nodes.parquet", tmp_path / "edges.csv", ReadOptions())
    assert raw.node_ids.tolist() == ["a", "b"]


def test_a_second_label_column_is_warned_of(tmp_path: Path) -> None:
    nodes = "id,label,target,f\na,x,1,1\nb,y,0,2\nc,x,1,3\n"
    raw = read(tmp_path, nodes)
    assert "warning: `target` is an attribute but looks like a label" in raw.notes[-1]
    skipped = read(tmp_path, nodes, options=ReadOptions(Columns.parse("skip=target")))
    assert skipped.feature_names == ("f",)
    assert not any("warning" in note for note in skipped.notes)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (None, "source,target\n", "there are no edges"),
        (None, "source,target\na,b\n,c\n", "line 3: the source is empty"),
        ("id,f\n1,1\n2,1\n", "source,target\n1,2\n1.5,2\n", "the source '1.5' is not an `id`"),
        ("id;f\na;1,5\nb;2,5\nc;3\n", "source;target\na;b\n", "line 2: column `f` holds '1,5'"),
    ],
)
def test_defects_that_would_be_misread_are_named(
    nodes: str | None, edges: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "edges.csv").write_text(edges)
    (tmp_path / "nodes.csv").write_text(nodes or "")
    with pytest.raises(InputError, match=message):
        read_tables(
            None if nodes is None else tmp_path / "nodes.csv", tmp_path / "edges.csv", ReadOptions()
        )


def test_leading_zeros_of_categories_stay(tmp_path: Path) -> None:
    nodes = "id,zip\na,01234\nb,01234\nc,9\nd,9\n"
    raw = read(tmp_path, nodes, options=ReadOptions(Columns.parse("category=zip")))
    assert raw.feature_names == ("zip=01234", "zip=9", "zip=other")


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "edges.csv.gz").write_bytes(b"\x1f\x8bnot really")
    with pytest.raises(InputError, match=r"edges\.csv\.gz cannot be read"):
        read_tables(None, tmp_path / "edges.csv.gz", ReadOptions())
