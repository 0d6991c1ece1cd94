"""A toy data set of two variants, for tests of finding and fetching files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from pamt_lightning.data.published.download import Located
from pamt_lightning.data.published.registry import DatasetSpec, RemoteFile, Variant

FIRST = {"toy.npz": b"the preferred file " * 5000}
SECOND = {"toy.a": b"aaaa", "toy.b": b"bbbbbb"}


def variant(
    content: dict[str, bytes],
    url: str = "url",
    wheel_folder: str | None = None,
    reader: str = "ppnp_npz",
) -> Variant:
    files = (
        RemoteFile(f"{url}/{name}", hashlib.sha256(data).hexdigest(), len(data))
        for name, data in content.items()
    )
    return Variant(reader, tuple(files), wheel_folder)


def toy(url: str = "http://127.0.0.1:9", wheel_folder: str | None = None) -> DatasetSpec:
    """A data set of two variants; by default nothing answers at its address."""
    variants = (variant(FIRST, url), variant(SECOND, url, wheel_folder))
    return DatasetSpec("toy", "a toy", variants=variants)


def write(folder: Path, content: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (folder / name).write_bytes(data)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


def located(reader: str, content: dict[str, bytes]) -> Located:
    """Files as if they had been published with these bytes, found and checked."""
    return Located(variant(content, reader=reader), Path(), content)


class Bomb:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)
