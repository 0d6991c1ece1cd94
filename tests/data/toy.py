"""A toy data set of two variants, for tests of finding and fetching files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pamt_lightning.data.published.download import Located
from pamt_lightning.data.published.registry import DatasetSpec, RemoteFile, Variant, WheelSource

FIRST = {"toy.npz": b"the preferred file " * 5000}
SECOND = {"toy.a": b"aaaa", "toy.b": b"bbbbbb"}


def variant(content: dict[str, bytes], url: str, wheel: WheelSource | None = None) -> Variant:
    files = (
        RemoteFile(name, hashlib.sha256(data).hexdigest(), len(data), f"{url}/{name}")
        for name, data in content.items()
    )
    return Variant("ppnp_npz", tuple(files), wheel)


def toy(url: str = "http://127.0.0.1:9", wheel: WheelSource | None = None) -> DatasetSpec:
    """A data set of two variants; by default nothing answers at its address."""
    variants = (variant(FIRST, url), variant(SECOND, url, wheel))
    return DatasetSpec("toy", (), "a toy", variants=variants)


def write(folder: Path, content: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (folder / name).write_bytes(data)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


def located(folder: Path, reader: str, content: dict[str, bytes]) -> Located:
    """Write files to a folder, and pretend that they were published with just these bytes."""
    files = []
    for filename, data in content.items():
        (folder / filename).write_bytes(data)
        files.append(RemoteFile(filename, hashlib.sha256(data).hexdigest(), len(data), "url"))
    return Located(
        variant=Variant(reader, tuple(files)),
        paths={file.filename: folder / file.filename for file in files},
        hashes={file.filename: file.sha256 for file in files},
        source="test",
    )
