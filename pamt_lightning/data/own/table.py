"""The rows of a CSV file in chunks, with errors that name the file and the line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pamt_lightning.errors import InputError

if TYPE_CHECKING:
    from _csv import Reader

_DELIMITERS = (",", ";", "\t")
_CELLS_PER_CHUNK = 1 << 18  # about 20 MB of Python strings


class CsvTable:
    """A CSV file with a header, in UTF-8 with or without byte order mark.

    Cells are separated by a comma, semicolon or tab, whichever the header uses, and may be quoted
    with ``"``. Blank lines are skipped.

    Attributes:
        path: The file.
        columns: Names in the header, without surrounding spaces.

    Args:
        path: The file.
        required: Columns that must be there.
    """

    def __init__(self, path: Path, required: Sequence[str]) -> None:
        self.path = path
        self._delimiter = ","
        headers = {}
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                first_line = file.readline()
        except UnicodeDecodeError:
            raise self._not_utf8() from None
        for delimiter in _DELIMITERS:
            names = next(csv.reader([first_line], delimiter=delimiter), [])
            headers[delimiter] = [name.strip() for name in names]
        if not any(headers[","]):
            raise InputError(f"{path}, line 1: the file is empty or does not start with a header.")
        # The separator with which the header makes most sense: required names, then most columns.
        self._delimiter = max(
            _DELIMITERS, key=lambda d: (len({*required} & {*headers[d]}), len(headers[d]))
        )
        self.columns = headers[self._delimiter]
        self._check_header(required)

    def _check_header(self, required: Sequence[str]) -> None:
        found = ", ".join(self.columns)
        for name in required:
            if name not in self.columns:
                raise self.error_at(
                    1, f"the header has no column `{name}` (it has: {found}). Add or rename it."
                )
        for number, name in enumerate(self.columns, start=1):
            if not name:
                raise self.error_at(
                    1,
                    f"column {number} of the header has no name. Name it or remove it "
                    "(pandas writes such a column unless to_csv is called with index=False).",
                )
        if len({*self.columns}) < len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise self.error_at(1, f"the header has the column `{twice}` twice. Keep one.")

    def chunks(self) -> Iterator[tuple[int, list[list[str]]]]:
        """Pairs of the number of the first row (from 0, header not counted) and some rows."""
        width = len(self.columns)
        size = max(1, _CELLS_PER_CHUNK // width)
        start = 0
        with self._reader() as reader:
            while read := list(islice(reader, size)):
                rows = [row for row in read if row]
                if {len(row) for row in rows} - {width}:
                    bad = next(i for i, row in enumerate(rows) if len(row) != width)
                    raise self.error(
                        start + bad,
                        f"the row has {len(rows[bad])} cells, but the header has {width} columns. "
                        'Put a text that contains the separator in double quotes ("...").',
                    )
                yield start, rows
                start += len(rows)

    def rows_with_lines(self) -> Iterator[tuple[int, list[str]]]:
        """Pairs of the line a row starts on and the row; slow, for making an error message."""
        with self._reader() as reader:
            line = reader.line_num + 1
            for row in reader:
                if row:
                    yield line, row
                line = reader.line_num + 1

    def line_of(self, row: int) -> int:
        """The line a row starts on; not ``row + 2`` if there are blank lines or quoted breaks."""
        return next(islice(self.rows_with_lines(), row, None))[0]

    def error(self, row: int, message: str) -> InputError:
        """An error about one row, given by its number as in `chunks`."""
        return self.error_at(self.line_of(row), message)

    def error_at(self, line: int, message: str) -> InputError:
        """An error about one line of the file."""
        return InputError(f"{self.path}, line {line}: {message}")

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            # Strict: a quote that is never closed is an error and not a cell with half the file.
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            try:
                next(reader)
                yield reader
            except UnicodeDecodeError:
                raise self._not_utf8() from None
            except csv.Error as error:
                raise self.error_at(
                    self._line_of_broken_row(),
                    f"the row cannot be split into cells ({error}). Look for a double quote that "
                    'is not closed; inside a quoted text write it twice ("").',
                ) from None

    def _not_utf8(self) -> InputError:
        data = self.path.read_bytes()
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
        return self.error_at(line, "this is not UTF-8 text. Save the file with encoding UTF-8.")

    def _line_of_broken_row(self) -> int:
        # The reader itself only knows where it gave up, which may be thousands of lines later.
        line = 1
        with self.path.open(encoding="utf-8-sig", newline="") as file, suppress(csv.Error):
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            for _ in reader:
                line = reader.line_num + 1
        return line
