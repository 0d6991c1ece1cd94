"""SHA-256 of files, and the error for a file that is not the published one."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pamt_lightning.data.published.registry import RemoteFile
from pamt_lightning.errors import DatasetIntegrityError

_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check_hash(file: RemoteFile, path: Path, got: str, fix: str) -> None:
    """Raise a `DatasetIntegrityError` unless ``got`` is the hash that the file was published with.

    Args:
        file: The published file.
        path: The file that was hashed.
        got: Its SHA-256.
        fix: What the user can do about a wrong one.
    """
    if got != file.sha256:
        raise DatasetIntegrityError(
            f"{path} is not the published file: expected SHA-256 {file.sha256}, got {got}. {fix}"
        )
