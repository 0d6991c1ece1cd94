from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from pamt_lightning.data.own.read import read_own_graph
from pamt_lightning.errors import InputError
from tests.data.store.graphs import assert_same


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
    assert_same(replace(table, node_ids=np.arange(3), feature_names=()), archive)
    assert table.node_ids.tolist() == ["0", "1", "2"]
    for raw, names in ((table, ["edges.csv", "nodes.csv"]), (archive, ["graph.npz"])):
        contents = {name: (tmp_path / name).read_bytes() for name in names}
        assert raw.hashes == {name: sha256(data).hexdigest() for name, data in contents.items()}


@pytest.mark.parametrize(
    ("removed", "path", "message"),
    [
        ("edges.csv", ".", r"edges\.csv is missing"),
        ("graph.npz", "graph.npz", "no such file or folder"),
        ("graph.npz", "edges.csv", r"ends in '\.csv'"),
    ],
)
def test_what_is_not_a_graph_is_refused(
    tmp_path: Path, removed: str, path: str, message: str
) -> None:
    write_both(tmp_path)
    (tmp_path / removed).unlink()
    with pytest.raises(InputError, match=message):
        read_own_graph(tmp_path / path)
