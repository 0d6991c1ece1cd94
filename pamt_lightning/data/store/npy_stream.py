"""A ``.npy`` file that grows: rows are appended, and the header is written when all are there."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_HEADER = 128  # bytes; the header of NumPy's format may be padded with blanks
_MAGIC = b"\x93NUMPY\x01\x00"


class NpyStream:
    """An array on disk, written from its first row to its last with no more than a block in memory.

    Args:
        path: The ``.npy`` file, made anew.
        dtype: Type of its entries.
        row_shape: Shape of a row; empty for a list of numbers.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.row_shape = row_shape
        self.num_rows = 0
        self._digest = hashlib.sha256()
        self._file = path.open("wb")
        self._file.write(bytes(_HEADER))

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Add rows; values are converted to the type of the array."""
        if rows.shape[1:] != self.row_shape:
            raise ValueError(
                f"`rows` must be of shape [m, *{self.row_shape}], got {tuple(rows.shape)}."
            )
        block = np.ascontiguousarray(rows, dtype=self.dtype)
        data = block.reshape(-1).view(np.uint8).data
        self._file.write(data)
        self._digest.update(data)
        self.num_rows += len(block)

    def close(self) -> dict[str, Any]:
        """Write the header and close the file; returns its type, shape and SHA-256."""
        shape = (self.num_rows, *self.row_shape)
        described = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        text = repr(described).encode("ascii")
        length = _HEADER - len(_MAGIC) - 2
        self._file.seek(0)
        self._file.write(_MAGIC + struct.pack("<H", length) + text.ljust(length - 1) + b"\n")
        self.discard()
        return {"dtype": self.dtype.str, "shape": list(shape), "sha256": self._digest.hexdigest()}

    def discard(self) -> None:
        """Close the file as it is."""
        self._file.close()
