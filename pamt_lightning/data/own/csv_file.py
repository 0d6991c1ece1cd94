"""CSV files: their header and separator, and the line of each defect."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from pamt_lightning.data.raw import not_utf8
from pamt_lightning.errors import InputError

_DELIMITERS = (",", ";", "\t")


def cannot_read(path: Path, error: Exception) -> InputError:
    """The error for a file that is damaged or cannot be opened."""
    return InputError(f"{path} cannot be read ({error}). Copy or write it again.")


class CsvFile:
    """A CSV file with a header, in UTF-8 with or without byte order mark, plain or gzipped.

    Cells are separated by a comma, semicolon or tab, whichever the header uses, and may be quoted
    with ``"``. Blank lines are skipped. pandas reads the file, and the csv module reads it again to
    name the line of a defect: pandas fills up short rows silently and reports no lines.

    Attributes:
        path: The file.
        columns: Names in the header, without surrounding spaces.
        delimiter: What separates the cells.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with self._open() as file:
                first_line = file.readline()
        except UnicodeDecodeError:
            raise not_utf8(path) from None
        except (OSError, EOFError, zlib.error) as error:
            raise cannot_read(path, error) from None
        headers = []
        for delimiter in _DELIMITERS:
            names = [*map(str.strip, next(csv.reader([first_line], delimiter=delimiter), []))]
            headers.append((len(names), delimiter, names))
        # The separator that makes most columns; of equals the first one.
        _, self.delimiter, self.columns = max(headers, key=lambda header: header[0])
        if not any(self.columns):
            raise self.error(1, "the file is empty or does not start with a header.")
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
            with self._open() as file:
                # Strict: a quote that is never closed is an error, not a cell with half the file.
                reader = csv.reader(file, delimiter=self.delimiter, strict=True)
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
        except (OSError, EOFError, zlib.error) as error:
            raise cannot_read(self.path, error) from None
        except csv.Error as error:
            fix = 'Close each double quote; inside a quoted text write it twice ("").'
            problem = f"the row cannot be split into cells ({error})"
            raise self.error(line, f"{problem}. {fix}") from None

    def line_of(self, row: int) -> int:
        """The line on which a row below the header starts; rows count from 0."""
        return next(line for line, _ in islice(self.rows(), row, None))

    def _open(self) -> IO[str]:
        if self.path.suffix.lower() == ".gz":
            return gzip.open(self.path, "rt", encoding="utf-8-sig", newline="")
        return self.path.open(encoding="utf-8-sig", newline="")

    def error(self, line: int, message: str) -> InputError:
        """An error about one line of the file."""
        return InputError(f"{self.path}, line {line}: {message}")
