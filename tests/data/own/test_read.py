from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from pamt_lightning.data.own.read import read_own_graph
from pamt_lightning.errors import InputError


def write_both(folder: Path) -> None:
    """The same graph as CSV files and as graph.npz."""
    (folder / "nodes.csv").write_text("id,f,label\n0,1,x\n1,2,\n2,3,y\n")
    (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    labels = np.array(["x", "", "y"])
    features = np.array([[1.0], [2.0], [3.0]])
    np.savez(folder / "graph.npz", edges=[[0, 1], [1, 2]], features=features, labels=labels)


def test_csv_files_and_an_archive_hold_the_same_graph_each_with_its_hashes(tmp_path: Path) -> None:
    write_both(tmp_path)
    table, archive = read_own_graph(tmp_path), read_own_graph(str(tmp_path / "graph.npz"))
    np.testing.assert_array_equal(table.adjacency.toarray(), archive.adjacency.toarray())
    np.testing.assert_array_equal(table.features, archive.features)
    np.testing.assert_array_equal(table.labels, archive.labels)
    assert table.class_names == archive.class_names == ("x", "y")
    assert table.node_ids.tolist() == ["0", "1", "2"]
    assert archive.node_ids.tolist() == [0, 1, 2]
    hashes = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()
    }
    assert {**table.hashes, **archive.hashes} == hashes
    assert [*archive.hashes] == ["graph.npz"]


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_a_missing_file_of_the_folder_is_named(tmp_path: Path, name: str) -> None:
    write_both(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=rf"{name} is missing"):
        read_own_graph(tmp_path)


def test_a_path_that_is_not_there_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read_own_graph(tmp_path / "graph.npz")
    write_both(tmp_path)
    with pytest.raises(InputError, match=r"ends in '\.csv'"):
        read_own_graph(tmp_path / "edges.csv")
