"""A user's own graph: an ``.npz`` file, a folder with two CSV files, or a graph store.

No node is dropped and the order is kept, so that predictions come back for every node of the file.
docs/own_graphs.md and docs/large_graphs.md describe the layouts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pamt_lightning.data.own.archive import read_npz
from pamt_lightning.data.own.options import ReadOptions
from pamt_lightning.data.raw import RawGraph, sha256_of
from pamt_lightning.data.store.format import GraphStore, is_store
from pamt_lightning.errors import InputError


def read_own_graph(path: str | Path, options: ReadOptions | None = None) -> RawGraph:
    """Read a graph from an ``.npz`` file or a folder; the attributes of a store stay on disk.

    Raises:
        InputError: The path or something in the files is not as expected; the message names the
            file, the line or key, the expectation, the value found, and a fix.
    """
    path, options = Path(path), options or ReadOptions()
    if is_store(path):
        return GraphStore(path).raw()
    if path.is_dir():
        # Imports pandas, which takes a quarter of a second.
        from pamt_lightning.data.own.tables import ENDINGS, find_table, read_tables

        edges, nodes = (find_table(path, name) for name in ("edges", "nodes"))
        if edges is None:
            raise InputError(
                f"{path}: a folder with a graph must hold edges.csv, and nodes.csv for labels and "
                f"attributes (or {', '.join(ENDINGS[1:])}), but edges.csv is missing. Put it "
                "there, or give an .npz file instead."
            )
        files = [edges, *([nodes] if nodes else [])]
        raw = read_tables(nodes, edges, options)
    elif not path.exists():
        raise InputError(
            f"{path}: there is no such file or folder. Give an .npz file, a folder with edges.csv "
            "and nodes.csv, or a graph store."
        )
    elif path.suffix.lower() != ".npz":
        raise InputError(
            f"{path}: a graph is an .npz file, or a folder with edges.csv and nodes.csv; "
            f"this file ends in {path.suffix!r}. For CSV files give their folder."
        )
    else:
        files = [path]
        raw = read_npz(path, options=options)
    return replace(raw, hashes={file.name: sha256_of(file) for file in files})
