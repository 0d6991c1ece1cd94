"""A graph from a folder with ``edges.csv`` and ``nodes.csv``; docs/own_graphs.md describes them.

Ids are kept as written. An empty label, and only that, means unknown. Columns of ``edges.csv``
other than ``source`` and ``target`` are refused: edge weights would silently be ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.raw import RawGraph, not_utf8
from pamt_lightning.errors import InputError
from pamt_lightning.interop.edges import adjacency_of
from pamt_lightning.interop.features import (
    MAX_SPARSE_DENSITY,
    Features,
    fits_float32,
    pack_features,
)
from pamt_lightning.interop.labels import number_labels, sort_class_names

EDGES_FILE = "edges.csv"
NODES_FILE = "nodes.csv"

_ID, _LABEL = "id", "label"
_DELIMITERS = (",", ";", "\t")
_CELLS_PER_CHUNK = 1 << 18  # about 20 MB of Python strings


def read_csv_folder(folder: Path) -> RawGraph:
    """Read the graph in ``folder``; the caller adds the hashes of the files.

    Raises:
        InputError: A file has a defect; the message names the file and the line.
    """
    table = CsvTable(folder / NODES_FILE, required=[_ID])
    id_column = table.columns.index(_ID)
    columns = [i for i, name in enumerate(table.columns) if name not in (_ID, _LABEL)]
    if not columns:
        found = ", ".join(table.columns)
        raise table.error(1, f"there is no feature column beside {found}. Add a numeric column.")
    label_column = table.columns.index(_LABEL) if _LABEL in table.columns else None
    position: dict[str, int] = {}
    labels: list[str] = []
    blocks: list[Features] = []
    rows = table.rows()
    while chunk := list(islice(rows, max(1, _CELLS_PER_CHUNK // len(table.columns)))):
        for line, row in chunk:
            node_id = row[id_column]
            if not node_id.strip():
                raise table.error(line, f"the `{_ID}` is empty. Give every node an id.")
            if node_id in position:
                first = next(line for line, row in table.rows() if row[id_column] == node_id)
                problem = f"the `{_ID}` {node_id!r} is used on line {first} already"
                raise table.error(line, f"{problem}. Each node has one row and an id of its own.")
            position[node_id] = len(position)
            labels.append("" if label_column is None else row[label_column].strip())
        blocks.append(pack_features(_parse_features(table, chunk, columns)))
    if not position:
        raise table.error(2, "there is no row below the header. Add one row per node.")
    class_names = sort_class_names(label for label in labels if label)
    return RawGraph(
        adjacency=_read_adjacency(folder / EDGES_FILE, position),
        features=_stack(blocks),
        labels=number_labels(labels, class_names),
        node_ids=np.array(list(position)),
        class_names=class_names,
        feature_names=tuple(table.columns[column] for column in columns),
    )


class CsvTable:
    """A CSV file with a header, in UTF-8 with or without byte order mark.

    Cells are separated by a comma, semicolon or tab, whichever the header uses, and may be quoted
    with ``"``. Blank lines are skipped. The file is read with the csv module, because
    `pandas.read_csv` fills up short rows silently and cannot report the line of a bad cell.

    Attributes:
        path: The file.
        columns: Names in the header, without surrounding spaces.
    """

    def __init__(self, path: Path, required: Sequence[str]) -> None:
        self.path = path
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                first_line = file.readline()
        except UnicodeDecodeError:
            raise not_utf8(path) from None
        headers = []
        for delimiter in _DELIMITERS:
            names = [*map(str.strip, next(csv.reader([first_line], delimiter=delimiter), []))]
            headers.append((len({*required} & {*names}), len(names), names, delimiter))
        # The separator that finds most required names, then most columns.
        _, _, self.columns, self._delimiter = max(headers, key=lambda header: header[:2])
        if not any(self.columns):
            raise self.error(1, "the file is empty or does not start with a header.")
        found = ", ".join(self.columns)
        for name in required:
            if name not in self.columns:
                raise self.error(1, f"the header has no column `{name}` (it has: {found}). Add it.")
        if "" in self.columns:
            number = self.columns.index("") + 1
            fix = "Name it or remove it (in pandas: to_csv with index=False)."
            raise self.error(1, f"column {number} of the header has no name. {fix}")
        if len({*self.columns}) < len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise self.error(1, f"the header has the column `{twice}` twice. Keep one.")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Each row below the header, with the line on which it starts."""
        width, line = len(self.columns), 1
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                # Strict: a quote that is never closed is an error, not a cell with half the file.
                reader = csv.reader(file, delimiter=self._delimiter, strict=True)
                for row in reader:
                    if row and len(row) != width:
                        fix = 'Put a text that contains the separator in double quotes ("...").'
                        problem = f"{len(row)} cells, but the header has {width} columns"
                        raise self.error(line, f"the row has {problem}. {fix}")
                    if row and line > 1:
                        yield line, row
                    line = reader.line_num + 1
        except UnicodeDecodeError:
            raise not_utf8(self.path) from None
        except csv.Error as error:
            fix = 'Close each double quote; inside a quoted text write it twice ("").'
            problem = f"the row cannot be split into cells ({error})"
            raise self.error(line, f"{problem}. {fix}") from None

    def error(self, line: int, message: str) -> InputError:
        """An error about one line of the file."""
        return InputError(f"{self.path}, line {line}: {message}")


def _parse_features(
    table: CsvTable, rows: Sequence[tuple[int, list[str]]], columns: Sequence[int]
) -> npt.NDArray[np.float64]:
    """The features of some rows as finite numbers."""
    cells = [row[column] for _, row in rows for column in columns]
    values = _finite_numbers(cells)
    if values is None:
        bad = next(i for i, cell in enumerate(cells) if _finite_numbers([cell]) is None)
        row, column = divmod(bad, len(columns))
        raise table.error(
            rows[row][0],
            f"column `{table.columns[columns[column]]}` holds {cells[bad]!r}, but each feature "
            "must be a finite number with a decimal point, at most 3.4e38 in size. Replace it, for "
            "instance by 0; turn texts into numbers, or remove the column.",
        )
    return values.reshape(len(rows), len(columns))


def _finite_numbers(cells: Sequence[str]) -> npt.NDArray[np.float64] | None:
    """The cells as numbers that fit float32; None if one of them is something else."""
    try:
        values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
    except ValueError:
        return None
    # Python reads "1_2" as 12; in a data file this is a text.
    return values if "_" not in "".join(cells) and fits_float32(values).all() else None


def _stack(blocks: Sequence[Features]) -> Features:
    """Join blocks of rows, sparse if few entries of the whole differ from zero."""
    sizes = (block.shape[0] * block.shape[1] for block in blocks)
    stored = (block.nnz if sp.issparse(block) else np.count_nonzero(block) for block in blocks)
    if sum(stored) < MAX_SPARSE_DENSITY * sum(sizes):
        return sp.csr_array(sp.vstack([sp.csr_array(block) for block in blocks], format="csr"))
    return np.concatenate([b.toarray() if sp.issparse(b) else b for b in blocks])


def _read_adjacency(path: Path, position: dict[str, int]) -> sp.csr_array:
    table = CsvTable(path, required=["source", "target"])
    extra = [name for name in table.columns if name not in ("source", "target")]
    if extra:
        fix = "The graph is unweighted: leave out edges that should not count."
        raise table.error(1, f"there is also `{extra[0]}` beside `source` and `target`. {fix}")
    ends = np.fromiter(_ends(table, position), dtype=np.int64)
    adjacency = adjacency_of(ends[::2], ends[1::2], len(position))
    if adjacency.nnz == 0:
        problem = f"there are no edges between two different nodes in {len(ends) // 2} rows"
        raise table.error(2, f"{problem}. Add one row per edge.")
    return adjacency


def _ends(table: CsvTable, position: dict[str, int]) -> Iterator[int]:
    """The two nodes of each edge; which is the source does not matter in an undirected graph."""
    for line, (one, other) in table.rows():
        if one not in position or other not in position:
            column, node_id = (1, other) if one in position else (0, one)
            fix = "Add the node there, or remove the edge."
            if node_id.strip() in position:
                fix = "Without the spaces around it the id is known: remove them."
            problem = f"the {table.columns[column]} {node_id!r} is not an `{_ID}` in {NODES_FILE}"
            raise table.error(line, f"{problem}. {fix}")
        yield position[one]
        yield position[other]
