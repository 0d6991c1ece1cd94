"""A user's own graph: an ``.npz`` file, a folder with two CSV files, or a graph store.

No node is dropped and the order is kept, so that predictions come back for every node of the file.
docs/own_graphs.md and docs/large_graphs.md describe the layouts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pamt_lightning.data.own.archive import read_npz
from pamt_lightning.data.own.tables import EDGES_FILE, NODES_FILE, read_csv_folder
from pamt_lightning.data.raw import RawGraph, sha256_of
from pamt_lightning.data.store.format import GraphStore, is_store
from pamt_lightning.errors import InputError


def read_own_graph(path: str | Path) -> RawGraph:
    """Read a graph from an ``.npz`` file or a folder; the attributes of a store stay on disk.

    Raises:
        InputError: The path or something in the files is not as expected; the message names the
            file, the line or key, the expectation, the value found, and a fix.
    """
    path = Path(path)
    if is_store(path):
        return GraphStore(path).raw()
    if path.is_dir():
        files = [path / EDGES_FILE, path / NODES_FILE]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise InputError(
                f"{path}: a folder with a graph must hold {EDGES_FILE} and {NODES_FILE}, but "
                f"{' and '.join(missing)} is missing. Put it there, or give an .npz file instead."
            )
        raw = read_csv_folder(path)
    elif not path.exists():
        raise InputError(
            f"{path}: there is no such file or folder. Give an .npz file, a folder with "
            f"{EDGES_FILE} and {NODES_FILE}, or a graph store."
        )
    elif path.suffix.lower() != ".npz":
        raise InputError(
            f"{path}: a graph is an .npz file, or a folder with {EDGES_FILE} and {NODES_FILE}; "
            f"this file ends in {path.suffix!r}. For CSV files give their folder."
        )
    else:
        files = [path]
        raw = read_npz(path)
    return replace(raw, hashes={file.name: sha256_of(file) for file in files})
