"""Values that a checkpoint may hold: it is loaded with weights_only, which knows few types."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any


def make_plain(values: MutableMapping[str, Any]) -> None:
    """Turn NumPy scalars into Python numbers and paths into text, in place."""
    for name, value in values.items():
        if isinstance(value, os.PathLike):
            values[name] = os.fspath(value)
        elif hasattr(value, "item") and getattr(value, "shape", None) == ():
            values[name] = value.item()
