"""Columns of a table as attributes: numbers, truth values, categories, dates and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.errors import CheckpointError, InputError, did_you_mean
from pamt_lightning.interop.features import MAX_SPARSE_DENSITY, Features, fits_float32

if TYPE_CHECKING:
    import pandas as pd

Kind: TypeAlias = Literal["number", "date", "category", "text", "left out"]
Array: TypeAlias = npt.NDArray[Any]

_MOST_CATEGORIES = 100
_FEW_CATEGORIES = 10  # that are kept even if nearly each node has its own
_RAREST = (2, 5)  # nodes with a category, one in a hundred between these; rarer ones are joined
_MOST_WORDS = 2000
_MIN_WORDS = 3  # on average in a text
_MOST_DISTINCT = 0.5  # share of distinct values above which a short text names its node
_OTHER, _MISSING = "other", "missing"
_DATE = r"\d{4}-\d\d(-\d\d)?([T ]|$)"
_SMALLEST_STD = 1e-12
_DAY = 86_400_000_000_000  # nanoseconds


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes attributes; fitted once, then applied to any table.

    Attributes:
        name: The column.
        kind: What it holds.
        median: What replaces a missing number or date (days since 1970).
        mean: The mean of a number or date, before it is divided by ``std``.
        std: The standard deviation, 1 for a constant.
        has_missing: Whether values were missing, which a column of its own tells.
        categories: Those that were frequent enough; all others are joined.
        words: Those of a text.
        idf: Their inverse document frequencies.
        note: Why the column was left out.
    """

    name: str
    kind: Kind
    median: float = 0.0
    mean: float = 0.0
    std: float = 1.0
    has_missing: bool = False
    categories: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    idf: tuple[float, ...] = ()
    note: str = ""

    @classmethod
    def fit(cls, values: pd.Series[Any], kind: str | None = None) -> Column:
        """Decide what a column holds, unless the user said it, and how it is encoded."""
        name, missing = str(values.name), values.isna()
        known = values[~missing]
        numbers = None if kind in ("category", "text") else _as_numbers(known)
        if kind == "date" and not _is_date(known):
            numbers = None
        if numbers is None and kind in ("number", "date") and len(known):
            bad = known[_not_a_date(known) if kind == "date" else _not_a_number(known)]
            got = f", got {bad.iloc[0]!r}" if len(bad) else ""
            raise InputError(f"column `{name}` must hold {kind}s{got}.")
        if len(known) == 0:
            return cls(name, "left out", note="no values")
        if numbers is not None:
            found: Kind = "date" if _is_date(known) else "number"
            if not fits_float32(numbers).all():
                raise InputError(
                    f"column `{name}` holds numbers that are infinite or above 3.4e38 in size."
                )
            median = float(np.median(numbers))
            filled = np.full(len(values), median)
            filled[~missing.to_numpy()] = numbers
            std = float(filled.std())
            mean = float(filled.mean())
            std = (
                std if std > _SMALLEST_STD * max(1.0, abs(mean)) else 1.0
            )  # rounding of a constant
            return cls(name, found, median, mean, std, bool(missing.any()))
        texts = _as_texts(known)
        counts = texts.value_counts()
        if len(counts) == 1 and not missing.any():
            return cls(name, "left out", note="one value")
        is_long = texts.str.count(" ").mean() + 1 >= _MIN_WORDS
        if kind == "text" or (kind is None and is_long):
            words, idf = _vocabulary(texts)
            if words:
                return cls(name, "text", words=words, idf=idf)
        rarest = int(np.clip(len(values) // 100, *_RAREST))
        frequent = counts[counts >= min(rarest, counts.iloc[0])].index[:_MOST_CATEGORIES]
        if kind is None and len(counts) > max(_MOST_DISTINCT * len(texts), _FEW_CATEGORIES):
            return cls(name, "left out", note="a value of its own for nearly each node")
        categories = tuple(sorted(map(str, frequent)))
        return cls(name, "category", has_missing=bool(missing.any()), categories=categories)

    @property
    def feature_names(self) -> list[str]:
        """Names of the attributes that the column becomes."""
        if self.kind == "category":
            parts = [*self.categories, _OTHER, *([_MISSING] if self.has_missing else [])]
            return [f"{self.name}={part}" for part in parts]
        if self.kind == "text":
            return [f"{self.name}:{word}" for word in self.words]
        missing = [f"{self.name}={_MISSING}"] if self.has_missing else []
        return [] if self.kind == "left out" else [self.name, *missing]

    def encode(self, values: pd.Series[Any], *, standardize: bool) -> sp.csr_array:
        """The attributes ``[n, len(feature_names)]``."""
        missing = values.isna().to_numpy()
        known = values[~missing]
        if self.kind in ("number", "date"):
            numbers = _as_numbers(known)
            if numbers is None or not fits_float32(numbers).all():
                find = _not_a_date if self.kind == "date" else _not_a_number
                bad = known[find(known)]
                raise InputError(
                    f"column `{self.name}` must hold {self.kind}s as in the training data, got "
                    f"{bad.iloc[0] if len(bad) else 'infinite ones'!r}."
                )
            column = np.full(len(values), self.median)
            column[~missing] = numbers
            if standardize:
                column = (column - self.mean) / self.std
            blocks = [column, *([missing] if self.has_missing else [])]
            return sp.csr_array(np.column_stack(blocks).astype(np.float64))
        rows = np.flatnonzero(~missing)
        texts = _as_texts(known)
        if self.kind == "text":
            return self._tf_idf(texts, rows, len(values))
        place = {name: number for number, name in enumerate(self.categories)}
        columns = texts.map(place).fillna(len(place)).to_numpy(dtype=np.int64)
        if self.has_missing:
            rows = np.concatenate([rows, np.flatnonzero(missing)])
            columns = np.concatenate([columns, np.full(missing.sum(), len(place) + 1)])
        shape = (len(values), len(self.feature_names))
        return sp.csr_array(sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape))

    def _tf_idf(self, texts: pd.Series[Any], rows: Array, num_rows: int) -> sp.csr_array:
        """Counts of words times their idf, each row divided by its length."""
        tokens = _tokens(texts.set_axis(rows))
        place = {word: number for number, word in enumerate(self.words)}
        columns = tokens.map(place)
        known = columns.notna()
        ends = tokens.index[known].to_numpy(), columns[known].to_numpy(dtype=np.int64)
        shape = (num_rows, len(self.words))
        counts = sp.csr_array(sp.coo_array((np.ones(len(ends[0])), ends), shape=shape))
        counts.sum_duplicates()
        counts.data *= np.asarray(self.idf)[counts.indices]
        length = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
        counts.data /= np.repeat(np.where(length > 0, length, 1.0), np.diff(counts.indptr))
        return counts

    def __str__(self) -> str:
        missing = f", missing: {'median and ' if self.kind != 'category' else ''}a column"
        what = {
            "number": "number",
            "date": "date, in days",
            "category": f"{len(self.categories)} categories, rarer ones joined",
            "text": f"text, TF-IDF of {len(self.words):,} words",
            "left out": f"left out: {self.note}",
        }[self.kind]
        return f"`{self.name}` {what}{missing if self.has_missing else ''}"


@dataclass(frozen=True)
class TableEncoder:
    """How a table becomes attributes.

    If all columns are numbers without missing values they stay as they are, and the data module
    scales them. Else numbers are standardised, categories are one-hot, and the words of a text have
    a norm of one, so that each column counts about the same.
    """

    columns: tuple[Column, ...] = field(default=())

    @classmethod
    def fit(cls, table: pd.DataFrame, kinds: Mapping[str, str] = {}) -> TableEncoder:
        """Look at the columns of a table; ``kinds`` are those that the user said."""
        if table.columns.has_duplicates:
            twice = table.columns[table.columns.duplicated()][0]
            raise InputError(f"the column `{twice}` is there twice. Keep one.")
        found = cls(tuple(Column.fit(table[n], kinds.get(str(n))) for n in table.columns))
        if not found.feature_names:
            raise InputError("no column can be used as an attribute: " + "; ".join(found.notes))
        return found

    @property
    def is_plain(self) -> bool:
        """Whether the attributes are the numbers of the table."""
        return all(column.kind == "number" and not column.has_missing for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def transform(self, table: pd.DataFrame) -> Features:
        """The attributes of a table with the same columns, in any order; others are ignored."""
        for column in self.columns:
            if column.name not in table.columns and column.kind != "left out":
                hint = did_you_mean(column.name, map(str, table.columns))
                raise CheckpointError(f"the column `{column.name}` is missing.{hint}")
        used = [column for column in self.columns if column.kind != "left out"]
        if self.is_plain and not table[[column.name for column in used]].isna().any(axis=None):
            return self._plain(table)
        blocks = [
            column.encode(table[column.name], standardize=not self.is_plain) for column in used
        ]
        matrix = sp.csr_array(sp.hstack(blocks, format="csr")).astype(np.float32)
        matrix.eliminate_zeros()
        if matrix.nnz < MAX_SPARSE_DENSITY * np.prod(matrix.shape):
            return matrix
        dense: Features = matrix.toarray()
        return dense

    def _plain(self, table: pd.DataFrame) -> Features:
        """Numbers as they are; sparse if few differ from zero, or if the columns are sparse."""
        numbers = table[[column.name for column in self.columns]]
        if all(str(dtype).startswith("Sparse") for dtype in numbers.dtypes):
            accessor: Any = numbers.sparse
            return sp.csr_array(accessor.to_coo()).astype(np.float32)
        dense = np.empty(numbers.shape, dtype=np.float32)
        for place, column in enumerate(self.columns):
            values = _as_numbers(numbers[column.name])
            if values is None or not fits_float32(values).all():
                raise InputError(f"column `{column.name}` must hold finite numbers.")
            dense[:, place] = values
        if np.count_nonzero(dense) < MAX_SPARSE_DENSITY * dense.size:
            return sp.csr_array(dense)
        return dense

    @property
    def notes(self) -> list[str]:
        """What was done to which column, numbers in one line."""
        if self.is_plain:
            return []
        numbers = [c.name for c in self.columns if c.kind == "number" and not c.has_missing]
        shown = ", ".join(f"`{name}`" for name in numbers[:5])
        more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
        first = [f"{shown}{more} number{'s' * (len(numbers) > 1)}"] if numbers else []
        return first + [str(column) for column in self.columns if column.name not in numbers]

    def to_list(self) -> list[dict[str, Any]]:
        """Plain values, as a checkpoint holds them; defaults are left out."""
        return [dict(_used(column)) for column in self.columns]

    @classmethod
    def from_list(cls, columns: Sequence[Mapping[str, Any]]) -> TableEncoder:
        """The encoder that `to_list` describes."""
        parts = []
        for column in columns:
            values: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in column.items()
            }
            parts.append(Column(**values))
        return cls(tuple(parts))


@dataclass(frozen=True)
class AttributeTable:
    """A table of attributes and how it is encoded; a trained model encodes it in its own way."""

    frame: pd.DataFrame
    encoder: TableEncoder

    @classmethod
    def fit(cls, frame: pd.DataFrame, kinds: Mapping[str, str] = {}) -> AttributeTable:
        """Encode a table as its columns suggest."""
        return cls(frame, TableEncoder.fit(frame, kinds))

    @cached_property
    def features(self) -> Features:
        """The attributes ``[n, d]``."""
        return self.encoder.transform(self.frame)

    def take(self, rows: Array) -> AttributeTable:
        """Some of the rows."""
        return AttributeTable(self.frame.iloc[rows], self.encoder)


def _used(column: Column) -> Iterator[tuple[str, Any]]:
    defaults = asdict(Column("", "number"))
    for name, value in asdict(column).items():
        if name in ("name", "kind") or value != defaults[name]:
            yield name, list(value) if isinstance(value, tuple) else value


def _is_date(values: pd.Series[Any]) -> bool:
    return values.dtype.kind == "M" or (_is_textual(values) and _dates(values) is not None)


def _is_textual(values: pd.Series[Any]) -> bool:
    return values.dtype == object or values.dtype.kind not in "biufMm"


def _as_numbers(values: pd.Series[Any]) -> npt.NDArray[np.float64] | None:
    """Numbers, truth values and dates (days since 1970) as floating numbers, else None."""
    if values.dtype.kind in "biuf":
        return values.to_numpy(dtype=np.float64)
    if values.dtype.kind == "M":
        return _days(values)
    if values.dtype == object and values.map(lambda each: isinstance(each, (int, float))).all():
        return values.to_numpy(dtype=np.float64)
    return _dates(values) if _is_textual(values) else None


def _not_a_number(values: pd.Series[Any]) -> Any:
    import pandas as pd

    return pd.to_numeric(values, errors="coerce").isna()


def _not_a_date(values: pd.Series[Any]) -> Any:
    import pandas as pd

    texts = _as_texts(values)
    is_date = texts.str.match(_DATE)
    return (
        ~is_date
        | pd.to_datetime(texts.where(is_date), format="ISO8601", errors="coerce", utc=True).isna()
    )


def _dates(values: pd.Series[Any]) -> npt.NDArray[np.float64] | None:
    """Texts such as 2026-11-20 as days since 1970; None if one of them is something else."""
    import pandas as pd

    texts = _as_texts(values)
    if len(texts) == 0 or not texts.iloc[:100].str.match(_DATE).all():
        return None
    found = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    return None if found.isna().any() else _days(found)


def _days(values: pd.Series[Any]) -> npt.NDArray[np.float64]:
    import pandas as pd

    stamps = pd.to_datetime(values, utc=True).dt.as_unit("ns")
    return np.asarray(stamps.astype("int64"), dtype=np.float64) / _DAY


def _as_texts(values: pd.Series[Any]) -> pd.Series[Any]:
    """Texts; whole numbers are written without a point, which missing values would give them."""
    if values.dtype.kind == "f":
        numbers = values.to_numpy(dtype=np.float64)
        if (numbers == np.round(numbers)).all() and (np.abs(numbers) < 2**53).all():
            values = values.astype(np.int64)
    return values.astype(str).str.strip()


def _tokens(texts: pd.Series[Any]) -> pd.Series[Any]:
    """The words of texts, one row for each, with the index of the text."""
    return texts.str.lower().str.findall(r"\w\w+").explode().dropna()


def _vocabulary(texts: pd.Series[Any]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The words in two texts or more, the most frequent 2,000, and log((1 + n) / (1 + df)) + 1."""
    tokens = _tokens(texts.reset_index(drop=True))
    pairs = tokens.reset_index().drop_duplicates()
    counts = pairs.iloc[:, 1].value_counts()
    counts = counts[counts >= 2].iloc[:_MOST_WORDS].sort_index()
    idf = np.log((1 + len(texts)) / (1 + counts.to_numpy())) + 1
    return tuple(map(str, counts.index)), tuple(idf.tolist())
