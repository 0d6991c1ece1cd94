"""The arrays of an ``.npz`` file, with errors that name the file and the key."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.data.own.common import fits_float32
from pamt_lightning.errors import InputError

Array = npt.NDArray[Any]

# Kinds of NumPy types, as in `numpy.dtype.kind`.
NUMBERS, INTEGERS, TEXTS = "biuf", "iu", "U"
INTEGERS_OR_TEXTS = INTEGERS + TEXTS
_KIND_NAMES = {
    NUMBERS: "numbers",
    INTEGERS: "integers",
    TEXTS: "texts",
    INTEGERS_OR_TEXTS: "integers or texts",
}

CSR_PARTS = ("data", "indices", "indptr", "shape")


class NpzArchive:
    """An open ``.npz`` file whose members are checked as they are read; nothing is unpickled.

    Attributes:
        path: The file.
        keys: What it holds.
    """

    def __init__(self, path: Path, file: np.lib.npyio.NpzFile) -> None:
        self.path = path
        self.keys = tuple(file.files)
        self._file = file

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[NpzArchive]:
        """Open a file for the time of a ``with`` block."""
        try:
            file = np.load(path, allow_pickle=False)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{path}: this is not a readable .npz file ({error}). Write it anew with "
                "numpy.savez_compressed."
            ) from None
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise InputError(
                f"{path}: this is one array (.npy) under the name .npz. Write the file with "
                "numpy.savez_compressed(path, key=array, ...)."
            )
        with file:
            yield cls(path, file)

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def error(self, key: str, expectation: str, got: object, fix: str) -> InputError:
        """An error about one key."""
        return InputError(f"{self.path}: key `{key}` must be {expectation}, got {got}. {fix}")

    def read(self, key: str, ndim: int, kinds: str) -> Array:
        """The array under a key, of a given number of dimensions and kind of type."""
        try:
            array: Array = self._file[key]
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise self.error(key, "a readable array", error, "Write the file anew.") from None
            raise self.error(
                key,
                "stored without pickle",
                "an array of Python objects",
                "Store texts as numpy.array(list_of_str), numbers as a numeric array, and a sparse "
                f"matrix by its parts {key}_data, {key}_indices, {key}_indptr, {key}_shape.",
            ) from None
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise self.error(
                key, "readable", f"a damaged member ({error})", "Copy or write the file anew."
            ) from None
        expectation = f"an array of {_KIND_NAMES[kinds]} with {ndim} dimension(s)"
        got = f"shape {array.shape} and type {array.dtype}"
        if array.ndim != ndim:
            raise self.error(key, expectation, got, "Reshape it.")
        if array.dtype.kind not in kinds:
            fix = "Convert it with .astype(int)." if INTEGERS in kinds else "Convert its type."
            if kinds == TEXTS:
                fix = "Convert it with .astype(str)."
            elif array.dtype.kind == "b":
                fix = "If it is a mask, store numpy.flatnonzero(mask)."
            raise self.error(key, expectation, got, fix)
        return array

    def read_finite(self, key: str, ndim: int) -> Array:
        """The numbers under a key, none of them NaN or infinite."""
        values = self.read(key, ndim, NUMBERS)
        bad = np.argwhere(~fits_float32(values))
        if len(bad):
            where = tuple(bad[0].tolist())
            raise self.error(
                key,
                "finite everywhere (and at most 3.4e38 in size)",
                f"{values[where]} at position {where}, and {len(bad)} such value(s) in all",
                "Replace them, for instance by 0.",
            )
        return values

    def read_positions(self, key: str, ndim: int, num_nodes: int) -> npt.NDArray[np.int64]:
        """The node positions under a key, each from 0 to ``num_nodes - 1``."""
        positions = self.read(key, ndim, INTEGERS)
        outside = (positions < 0) | (positions >= num_nodes)
        if outside.any():
            raise self.error(
                key,
                f"made of node positions from 0 to {num_nodes - 1}",
                f"{positions[outside][0]}, and {np.count_nonzero(outside)} such value(s) in all",
                "Count nodes from 0, in the order of the rows of the features.",
            )
        return positions.astype(np.int64)

    def read_csr(self, prefix: str) -> sp.csr_array:
        """The CSR matrix whose four parts are stored under keys with this prefix."""
        for part in CSR_PARTS:
            if prefix + part not in self:
                needed = ", ".join(prefix + name for name in CSR_PARTS)
                raise InputError(
                    f"{self.path}: key `{prefix + part}` is missing. A CSR matrix needs {needed}."
                )
        data = self.read_finite(prefix + "data", 1)
        indices, indptr, shape = (self.read(prefix + part, 1, INTEGERS) for part in CSR_PARTS[1:])
        if len(shape) != 2:
            raise self.error(
                prefix + "shape", "two integers (rows, columns)", shape.tolist(), "Store both."
            )
        try:
            rows, columns = shape.tolist()
            matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise self.error(
                prefix + "indptr",
                f"(with {prefix}indices, {prefix}data, {prefix}shape) a valid CSR matrix",
                f"a matrix where {error}",
                "Take the parts from one scipy.sparse.csr_array.",
            ) from None
        return matrix
