"""A graph from a folder with ``edges.csv`` and ``nodes.csv``.

``nodes.csv`` has one row per node and these columns, in any order:

* ``id``: any text, kept as written; no two nodes share one.
* ``label`` (optional): the class, any text; an empty cell, and only that, means unknown.
* every other column: a numeric feature.

``edges.csv`` has one row per edge and exactly the columns ``source`` and ``target``, which hold ids
of ``nodes.csv``. Direction, repeated edges and self-loops do not matter. Other columns are refused,
since a graph that looks weighted but is read as unweighted would be a silent mistake.

Both files have a header, are UTF-8, and separate cells by comma, semicolon or tab. Classes are
numbered in the order of their names: by number if all names are integers, else by alphabet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.own.common import (
    Features,
    fits_float32,
    pack_features,
    sort_class_names,
    stack_features,
)
from pamt_lightning.data.own.table import CsvTable
from pamt_lightning.data.raw import IntArray, RawGraph, simple_graph
from pamt_lightning.errors import InputError

EDGES_FILE = "edges.csv"
NODES_FILE = "nodes.csv"

_ID, _LABEL = "id", "label"


def read_csv_folder(folder: Path) -> RawGraph:
    """Read the graph in ``folder``; the files' hashes are left to the caller.

    Raises:
        InputError: A file has a defect; the message names the file and the line.
    """
    nodes = _read_nodes(folder / NODES_FILE)
    return RawGraph(
        adjacency=_read_adjacency(folder / EDGES_FILE, nodes.position),
        features=nodes.features,
        labels=nodes.labels,
        node_ids=np.array(list(nodes.position)),
        class_names=nodes.class_names,
        feature_names=nodes.feature_names,
    )


@dataclass(frozen=True)
class _Nodes:
    position: dict[str, int]  # id -> row; a dict keeps the order of the file
    features: Features
    labels: IntArray
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]


def _read_nodes(path: Path) -> _Nodes:
    table = CsvTable(path, required=[_ID])
    id_column = table.columns.index(_ID)
    label_column = table.columns.index(_LABEL) if _LABEL in table.columns else None
    feature_columns = [i for i in range(len(table.columns)) if i not in (id_column, label_column)]
    if not feature_columns:
        raise table.error_at(
            1,
            f"there is no feature column beside {', '.join(table.columns)}. Add at least one "
            "column with a number per node.",
        )
    ids: list[str] = []
    label_codes: list[int] = []
    code_of_name = {"": 0}
    blocks = []
    for start, rows in table.chunks():
        new_ids = [row[id_column] for row in rows]
        if not all(map(str.strip, new_ids)):
            bad = next(i for i, node_id in enumerate(new_ids) if not node_id.strip())
            raise table.error(start + bad, f"the `{_ID}` is empty. Give every node an id.")
        ids += new_ids
        if label_column is not None:
            label_codes += [
                code_of_name.setdefault(row[label_column].strip(), len(code_of_name))
                for row in rows
            ]
        blocks.append(pack_features(_parse_features(table, start, rows, feature_columns)))
    if not ids:
        raise table.error_at(2, "there is no row below the header. Add one row per node.")
    position = dict(zip(ids, range(len(ids)), strict=True))
    if len(position) < len(ids):
        raise _duplicate_id(table, ids)
    class_names = sort_class_names(name for name in code_of_name if name)
    number_of_code = np.full(len(code_of_name), -1, dtype=np.int64)
    for number, name in enumerate(class_names):
        number_of_code[code_of_name[name]] = number
    codes = np.array(label_codes or [0] * len(ids), dtype=np.int64)
    features = stack_features(blocks, len(feature_columns))
    names = tuple(table.columns[column] for column in feature_columns)
    return _Nodes(position, features, number_of_code[codes], class_names, names)


def _parse_features(
    table: CsvTable, start: int, rows: Sequence[Sequence[str]], columns: Sequence[int]
) -> npt.NDArray[np.float64]:
    """The features of some rows as numbers, each of which is finite."""
    cells = [row[column] for row in rows for column in columns]
    try:
        values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        # Python reads "1_2" as 12; in a data file this is a text.
        is_clean = "_" not in "".join(cells) and bool(fits_float32(values).all())
    except ValueError:
        is_clean = False
    if not is_clean:
        bad, reason = next((i, why) for i, cell in enumerate(cells) if (why := _defect(cell)))
        row, column = divmod(bad, len(columns))
        name = table.columns[columns[column]]
        raise table.error(start + row, f"column `{name}` {reason}")
    return values.reshape(len(rows), len(columns))


def _defect(cell: str) -> str:
    """What is wrong with the text of a number, or nothing."""
    if not cell.strip():
        return "is empty, but each feature must be a number. Fill it, for instance with 0."
    try:
        value = float("text" if "_" in cell else cell)
    except ValueError:
        return (
            f"holds {cell!r}, but each feature must be a number with a decimal point. Turn texts "
            "into numbers (for instance one 0/1 column per text), or remove the column."
        )
    if not fits_float32(np.array(value)):
        return (
            f"holds {cell!r}, but each feature must be finite and at most 3.4e38 in size. "
            "Replace it, for instance by 0."
        )
    return ""


def _duplicate_id(table: CsvTable, ids: Sequence[str]) -> InputError:
    first_row: dict[str, int] = {}
    for row, node_id in enumerate(ids):
        if first_row.setdefault(node_id, row) != row:
            break
    first_line = table.line_of(first_row[node_id])
    return table.error(
        row,
        f"the `{_ID}` {node_id!r} was already used on line {first_line}. Each node has one row and "
        f"an id of its own ({len(ids) - len({*ids})} row(s) repeat an id).",
    )


def _read_adjacency(path: Path, position: dict[str, int]) -> sp.csr_array:
    table = CsvTable(path, required=["source", "target"])
    extra = [name for name in table.columns if name not in ("source", "target")]
    if extra:
        raise table.error_at(
            1,
            f"only the columns `source` and `target` are allowed, but there is also "
            f"{', '.join(f'`{name}`' for name in extra)}. The graph is unweighted: remove what is "
            "not an id, and leave out edges that should not count.",
        )
    blocks = []
    try:
        for _, rows in table.chunks():
            # Which column is the source does not matter: the graph is undirected.
            ends = map(position.__getitem__, chain.from_iterable(rows))
            blocks.append(np.fromiter(ends, dtype=np.int64, count=2 * len(rows)))
    except KeyError:
        raise _unknown_id(table, position) from None
    edges = np.concatenate([*blocks, np.empty(0, dtype=np.int64)]).reshape(-1, 2)
    if len(edges) == 0:
        raise table.error_at(2, "there are no edges below the header. Add one row per edge.")
    ones = np.ones(len(edges), dtype=np.float32)
    shape = (len(position), len(position))
    adjacency = simple_graph(sp.coo_array((ones, (edges[:, 0], edges[:, 1])), shape=shape))
    if adjacency.nnz == 0:
        raise table.error(
            0, f"there are no edges between two nodes: all {len(edges)} rows are self-loops."
        )
    return adjacency


def _unknown_id(table: CsvTable, position: dict[str, int]) -> InputError:
    first: tuple[int, str, str] | None = None
    count = 0
    for line, row in table.rows_with_lines():
        for column, node_id in zip(table.columns, row, strict=False):
            if node_id not in position:
                count += 1
                first = first or (line, column, node_id)
    assert first is not None  # the caller met one
    line, column, node_id = first
    fix = "Add the node there, or remove the edge."
    if node_id.strip() in position:
        fix = "Without the spaces around it the id is known: remove them."
    return table.error_at(
        line,
        f"the {column} {node_id!r} is not an `{_ID}` in {NODES_FILE}. {fix} "
        f"({count} cell(s) of this file name no node.)",
    )
