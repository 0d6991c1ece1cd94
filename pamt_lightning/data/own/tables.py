"""A graph from a folder with a table of nodes and one of edges; docs/own_graphs.md describes them.

Ids are kept as written. An empty label, and only that, means unknown. pandas reads the files; a
defect is then looked up with the csv module, which knows its line.
"""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from pamt_lightning.data.own.csv_file import CsvFile, cannot_read
from pamt_lightning.data.own.options import ReadOptions
from pamt_lightning.data.raw import RawGraph, not_utf8
from pamt_lightning.errors import InputError, error_context
from pamt_lightning.interop.columns import Columns, other_labels
from pamt_lightning.interop.features import fits_float32, structural_features
from pamt_lightning.interop.labels import encode_labels, number_labels, sort_class_names
from pamt_lightning.interop.table import AttributeTable

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null")
_LARGE = 50e6  # bytes of a file worth a line of progress


def find_table(folder: Path, name: str) -> Path | None:
    """The file ``name.csv``, ``name.parquet``, … in a folder."""
    found = [folder / f"{name}{ending}" for ending in ENDINGS]
    found = [file for file in found if file.is_file()]
    if len(found) > 1:
        raise InputError(f"{folder}: there are {found[0].name} and {found[1].name}. Keep one.")
    return found[0] if found else None


def read_tables(nodes: Path | None, edges: Path, options: ReadOptions) -> RawGraph:
    """Read a graph from two tables; the caller adds the hashes of the files.

    Without a table of nodes they are the ends of the edges, and have no labels.

    Raises:
        InputError: A file has a defect; the message names the file and the line.
    """
    columns = options.columns
    edge_table = Table(edges, ("source", "target"), ("weight",), columns)
    if nodes is None:
        ends = pd.concat([_filled(edge_table, role) for role in ("source", "target")])
        ids = pd.Index(ends.unique()).sort_values()
        node_table = None
    else:
        node_table = Table(nodes, ("id",), ("label",), columns)
        ids = _ids(node_table)
    attributes = None if node_table is None else _attributes(node_table, columns)
    adjacency, found = _adjacency(edge_table, ids, nodes.name if nodes else "", options)
    labels = np.full(len(ids), -1)
    class_names: tuple[str, ...] = ()
    if node_table is not None and "label" in node_table.roles:
        labels, class_names = _labels(node_table)
    if attributes is None:
        features, names = structural_features(adjacency)
        notes = [f"no attributes: {len(names)} columns from degrees, PageRank and positions"]
    else:
        features, names = attributes.features, attributes.encoder.feature_names
        notes = list(attributes.encoder.notes)
    if node_table is not None:
        for name in other_labels(list(node_table.frame.columns), node_table.roles.get("label")):
            if name not in columns.skipped:
                notes.append(
                    f"warning: `{name}` is an attribute but looks like a label; if it is one, "
                    f"leave it out: --data.columns skip={name}"
                )
    return RawGraph(
        adjacency=adjacency,
        features=features,
        labels=labels,
        node_ids=ids.to_numpy() if ids.dtype.kind in "iu" else np.asarray(ids.tolist()),
        class_names=class_names,
        feature_names=names,
        table=attributes,
        notes=(found, *notes),
    )


class Table:
    """A table in a file, some of its columns with a role.

    Attributes:
        path: The file.
        roles: The column of each role that there is.
    """

    def __init__(
        self, path: Path, required: Sequence[str], optional: Sequence[str], columns: Columns
    ) -> None:
        self.path, self.kinds = path, columns.kinds
        self.csv = None if path.suffix == ".parquet" else CsvFile(path)
        names = self.csv.columns if self.csv else _parquet_columns(path)
        self.roles = {}
        for role in (*required, *optional):
            name = columns.find(role, names, str(path))
            if name is not None:
                self.roles[role] = name
            elif role in required:
                found = ", ".join(names)
                raise self.error(
                    None,
                    f"the header has no column `{role}` (it has: {found}). Add it, or name the one "
                    f"to use: --data.columns {role}=NAME.",
                )

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The table; columns with a role hold texts, or whole numbers in a Parquet file."""
        size = self.path.stat().st_size
        if size >= _LARGE and sys.stderr.isatty():
            print(f"reading {self.path} ({size / 1e6:,.0f} MB) ...", file=sys.stderr)
        return _read_parquet(self.path) if self.csv is None else self._read_csv(self.csv)

    def role(self, role: str) -> pd.Series[Any]:
        """The column with that role."""
        values = self.frame[self.roles[role]]
        if values.isna().any():
            values = values.astype(object).where(values.notna(), "")
        return values

    def error(self, row: int | None, message: str) -> InputError:
        """An error about a row, counted from 0, or about the header."""
        if self.csv is None:
            where = "" if row is None else f", row {row + 1}"
            return InputError(f"{self.path}{where}: {message}")
        return self.csv.error(1 if row is None else self.csv.line_of(row), message)

    def _read_csv(self, file: CsvFile) -> pd.DataFrame:
        texts = set(self.roles.values()) - {self.roles.get("weight")}
        as_written = [name for name, kind in self.kinds.items() if kind in ("category", "text")]
        others = [name for name in file.columns if name not in texts]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    self.path,
                    sep=file.delimiter,
                    header=0,
                    names=file.columns,
                    index_col=False,
                    dtype=dict.fromkeys([*texts, *as_written], str),
                    keep_default_na=False,
                    na_values={name: list(_MISSING) for name in others},
                    encoding="utf-8-sig",
                    low_memory=False,
                )
        except UnicodeDecodeError:
            raise not_utf8(self.path) from None
        except (OSError, EOFError, zlib.error) as error:
            raise cannot_read(self.path, error) from None
        except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
            for _ in file.rows():  # names the line
                pass
            raise InputError(f"{self.path}: {error}.") from None
        last = frame[file.columns[-1]]
        if (
            len(file.columns) > 1
            and (last.isna() | (last == "")).any()
            and _may_be_short(file, frame)
        ):
            for _ in file.rows():
                pass
        return frame


def _may_be_short(file: CsvFile, frame: pd.DataFrame) -> bool:
    """Whether some rows may have too few cells, which pandas fills up."""
    if file.path.suffix.lower() == ".gz":
        return True
    data = file.path.read_bytes()
    wanted = (len(frame) + 1) * (len(file.columns) - 1)
    return b'"' in data or data.count(file.delimiter.encode()) != wanted


def _ids(table: Table) -> pd.Index[Any]:
    ids = table.role("id")
    name = table.roles["id"]
    if len(ids) == 0:
        raise InputError(f"{table.path}, line 2: there is no row below the header. Add a node.")
    if ids.dtype.kind not in "iu":
        empty = np.flatnonzero(ids.astype(str).str.strip() == "")
        if len(empty):
            raise table.error(int(empty[0]), f"the `{name}` is empty. Give every node an id.")
    repeated = np.flatnonzero(ids.duplicated())
    if len(repeated):
        row = int(repeated[0])
        first = int(np.flatnonzero(ids == ids.iloc[row])[0])
        where = f"line {table.csv.line_of(first)}" if table.csv else f"row {first + 1}"
        problem = f"the `{name}` {_shown(ids.iloc[row])} is used on {where} already"
        raise table.error(row, f"{problem}. Each node has one row and an id of its own.")
    index: pd.Index[Any] = pd.Index(ids)
    return index


def _filled(table: Table, role: str) -> pd.Series[Any]:
    """The ends of the edges, none of which is missing."""
    values = table.role(role)
    empty = np.flatnonzero(values.astype(str).str.strip() == "")
    if len(empty):
        raise table.error(int(empty[0]), f"the {role} is empty. Fill it in, or remove the edge.")
    if len(values) == 0:
        raise InputError(f"{table.path}, line 2: there are no edges. Add one row per edge.")
    return values


def _labels(table: Table) -> tuple[Any, tuple[str, ...]]:
    """The classes: texts of a text file as they are, those of a Parquet file of any kind."""
    if table.csv is None:
        with error_context(str(table.path)):
            return encode_labels(table.frame[table.roles["label"]])
    texts = table.role("label").str.strip()
    class_names = sort_class_names(text for text in texts.unique() if text)
    codes, distinct = pd.factorize(texts)
    return number_labels(distinct.tolist(), class_names)[codes], class_names


def _attributes(table: Table, columns: Columns) -> AttributeTable | None:
    """The other columns as attributes; None if there are none."""
    names = [name for name in table.frame.columns if name not in table.roles.values()]
    columns.check_kinds(names, str(table.path))
    names = [name for name in names if name not in columns.skipped]
    if not names:
        return None
    frame = table.frame[names]
    for name in names:
        _check_numbers(table, frame[name], columns.kinds.get(name))
    return AttributeTable.fit(frame, columns.kinds)


def _check_numbers(table: Table, values: pd.Series[Any], kind: str | None) -> None:
    """Name the line of a text among numbers, and of a number that is too large."""
    fix = (
        "Replace it, leave it empty, or say what the column holds: "
        f"--data.columns category={values.name}."
    )
    if values.dtype.kind == "f":
        wrong = np.flatnonzero(values.notna() & ~fits_float32(values.to_numpy()))
        if len(wrong):
            raise table.error(
                int(wrong[0]),
                f"column `{values.name}` holds {values.iloc[wrong[0]]}, but numbers must be finite "
                f"and at most 3.4e38 in size. {fix}",
            )
    elif values.dtype.kind not in "biuM" and kind not in ("category", "text"):
        known = values.dropna()
        is_comma = known.astype(str).str.fullmatch(r"\s*[-+]?\d*,\d+\s*")
        if len(known) and is_comma.mean() > 0.5:
            bad = known[is_comma]
            raise table.error(
                int(np.flatnonzero(values.index == bad.index[0])[0]),
                f"column `{values.name}` holds {bad.iloc[0]!r}. Write numbers with a decimal point "
                "and without separators of thousands.",
            )
        is_text = pd.to_numeric(known, errors="coerce").isna()
        if len(known) and is_text.any() and (kind == "number" or is_text.mean() < 0.5):
            bad = known[is_text]
            raise table.error(
                int(np.flatnonzero(values.index == bad.index[0])[0]),
                f"column `{values.name}` holds {bad.iloc[0]!r} among numbers. {fix}",
            )


def _adjacency(
    table: Table, ids: pd.Index[Any], nodes_file: str, options: ReadOptions
) -> tuple[sp.csr_array, str]:
    ends = [_positions(table, role, ids, nodes_file) for role in ("source", "target")]
    weights = np.ones(len(ends[0]))
    if is_weighted := "weight" in table.roles:
        weights = _weights(table)
    shape = (len(ids), len(ids))
    matrix = sp.coo_array((weights, (ends[0], ends[1])), shape=shape)
    adjacency, report = options.adjacency(matrix, is_weighted=is_weighted)
    if adjacency.nnz == 0:
        problem = f"there are no edges between two different nodes in {len(ends[0])} rows"
        raise InputError(f"{table.path}, line 2: {problem}. Add one row per edge.")
    ignored = [name for name in table.frame.columns if name not in table.roles.values()]
    note = f"; columns not used: {', '.join(ignored[:5])}" if ignored else ""
    return adjacency, report + note


def _positions(table: Table, role: str, ids: pd.Index[Any], nodes_file: str) -> Any:
    """The node of each end; which is the source does not matter in an undirected graph."""
    values = table.role(role)
    if ids.dtype.kind in "iu" and values.dtype.kind not in "iu":
        numbers = pd.to_numeric(values, errors="coerce")
        is_whole = numbers.notna() & (numbers % 1 == 0)
        values = numbers.where(is_whole, 0).astype(np.int64)
        found = np.where(is_whole, ids.get_indexer(pd.Index(values)), -1)
    elif ids.dtype.kind not in "iu" and values.dtype.kind in "iu":
        found = ids.get_indexer(pd.Index(values.map(str)))
    else:
        found = ids.get_indexer(pd.Index(values))
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        node_id = table.frame[table.roles[role]].iloc[unknown[0]]
        fix = "Add the node there, or remove the edge."
        if str(node_id).strip() in ids:
            fix = "Without the spaces around it the id is known: remove them."
        problem = f"the {role} {_shown(node_id)} is not an `id` in {nodes_file}"
        raise table.error(int(unknown[0]), f"{problem}. {fix}")
    return found


def _weights(table: Table) -> Any:
    values = pd.to_numeric(table.frame[table.roles["weight"]], errors="coerce")
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        got = table.frame[table.roles["weight"]].iloc[wrong[0]]
        fix = "Weights are finite and not negative; an edge of weight 0 is dropped."
        raise table.error(int(wrong[0]), f"the weight is {_shown(got)}. {fix}")
    return values.to_numpy(dtype=np.float64)


def _shown(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _parquet_columns(path: Path) -> list[str]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InputError(
            f"{path}: Parquet files need pyarrow: pip install 'pamt-lightning[parquet]'."
        ) from None
    try:
        return [str(name) for name in parquet.read_schema(path).names]
    except (ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file ({error}).") from None


def _read_parquet(path: Path) -> pd.DataFrame:
    from pyarrow import ArrowException

    try:
        frame = pd.read_parquet(path)
    except (ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} is not a readable Parquet file ({error}).") from None
    return frame.reset_index() if any(frame.index.names) else frame  # pandas stores ids there
