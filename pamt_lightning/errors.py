"""Errors caused by the input, and helpers that make their messages useful.

The command line prints an `InputError` as one line and exits with code 2; every other exception is
a bug and keeps its traceback. Each is a ``ValueError``, so library users need not know these names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any


class InputError(ValueError):
    """An argument, file or option is wrong; the message names it and says how to fix it."""


class DatasetNotFoundError(InputError):
    """No source has the data set; the message lists the sources and where to put which file."""


class DatasetIntegrityError(InputError):
    """A file is not the published one: its hash or its counts differ."""


class CheckpointError(InputError):
    """A checkpoint is missing, damaged, or does not fit the data."""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A hint with the closest known word, starting with a space; empty if none is close.

    >>> did_you_mean("metods", ["methods", "seeds"])
    " Did you mean 'methods'?"
    """
    close = difflib.get_close_matches(str(word), list(known), 1)
    return f" Did you mean {close[0]!r}?" if close else ""


@contextmanager
def error_context(source: str) -> Iterator[None]:
    """Put the file or option that is wrong, if any, in front of the message of an `InputError`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}" if source else str(error)) from None


def require_in(interval: str, *, whole: bool = False, note: str = "", **values: Any) -> None:
    """Raise an `InputError` unless all values are numbers in an interval like ``[0, 1)``."""
    low, high = map(float, interval[1:-1].split(","))
    for name, value in values.items():
        is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
        above = is_number and (low <= value if interval[0] == "[" else low < value)
        if not (above and (value <= high if interval[-1] == "]" else value < high)):
            kind = "whole number" if whole else "number"
            raise InputError(f"`{name}` must be a {kind} in {interval}{note}, got {value!r}.")


def require_one_of(choices: Iterable[str], **values: str) -> None:
    """Raise an `InputError` unless all values are among the choices."""
    for name, value in values.items():
        if value not in choices:
            raise InputError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}.")


def require_shape(name: str, shape: Sequence[int], dims: str, **sizes: int) -> None:
    """Raise a ``ValueError`` unless a tensor has dimensions such as ``N C``, some of known size."""
    wanted = dims.split()
    if len(shape) != len(wanted) or any(
        sizes.get(dim, size) != size for dim, size in zip(wanted, shape, strict=True)
    ):
        known = ", ".join(f"{dim}={size}" for dim, size in sizes.items())
        expected = f"[{', '.join(wanted)}]" + (f" with {known}" if known else "")
        raise ValueError(f"`{name}` must be {expected}, got {tuple(shape)}.")
